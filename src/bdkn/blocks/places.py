"""Places where the rows of a fit are kept: this machine, with chunks in a temporary file; ``bdkn.cluster`` is another.

A fit asks a place for the sample and for chunks of all encoded rows, which train networks and are summarized where they
are. The results have the same bits in every place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from bdkn.blocks.chunks import (
    ChunkFile,
    Encoded,
    chunk_sizes,
    consecutive_numbers,
    number_of_chunks,
    write_chunks,
)
from bdkn.blocks.encoding import KnownInputs, RowEncoding
from bdkn.blocks.left_out import LeftOut, Summary, statistics_of_chunks
from bdkn.blocks.sample import Sample, counted_blocks, draw_sample
from bdkn.blocks.training import ChunkPlan, train_on_chunks
from bdkn.errors import InvalidParameterError
from bdkn.rows import Rows, RowSource
from bdkn.training import NetworkSettings, Trained

OnPass = Callable[[float], None]
"""Called with the number of passes over chunks that have been made since the last call."""


class KeptChunks(AbstractContextManager["KeptChunks"], Protocol):
    """Chunks of all rows, encoded; they are given back when the block is left."""

    def __len__(self) -> int:
        """Return the number of chunks."""

    def train(self, settings: NetworkSettings, sample: Rows, plan: ChunkPlan, on_pass: OnPass | None) -> Trained:
        """Return the networks of a plan, trained on all chunks, in the order of a ``FoldGrid``."""

    def left_out(self, summary: Summary) -> LeftOut:
        """Return what all rows tell that members leave out."""


class RowPlace(Protocol):
    """Where rows are, and where their chunks will be kept."""

    def sample(self) -> Sample:
        """Return a sample of the rows, which is drawn in one pass."""

    def chunks(self, sample: Sample, encoding: RowEncoding, known: KnownInputs) -> KeptChunks:
        """Return all rows, encoded, in chunks."""


@dataclass(frozen=True, eq=False)
class ThisMachine:
    """The rows of a source, read block by block; chunks, and the sample, have about ``chunk_rows`` rows."""

    source: RowSource
    chunk_rows: int

    def sample(self) -> Sample:
        """Return a sample of the rows."""
        return draw_sample(self.source, self.chunk_rows)

    def chunks(self, sample: Sample, encoding: RowEncoding, known: KnownInputs) -> KeptChunks:
        """Return all rows, encoded, in a temporary file."""
        sizes = chunk_sizes(consecutive_numbers(sample.n_read), number_of_chunks(sample.n, self.chunk_rows))
        blocks, weighted = self._encoded(sample, encoding, known), sample.rows.counts is not None
        return _FileChunks(write_chunks(blocks, sizes, encoding.n_inputs, weighted=weighted))

    def _encoded(self, sample: Sample, encoding: RowEncoding, known: KnownInputs) -> Iterator[Encoded]:
        read = 0
        for numbers, rows in counted_blocks(self.source):
            yield encoding(numbers, rows, known)
            read += len(rows)
        check_same_rows(sample.n, read)


def check_same_rows(first: int, second: int) -> None:
    """Raise unless two passes have read the same number of rows that count."""
    if first != second:
        raise InvalidParameterError(
            f"a row source must have the same rows in every pass; got {first} rows that count in the first pass and "
            f"{second} in the second"
        )


@dataclass(frozen=True, eq=False)
class _FileChunks(AbstractContextManager["KeptChunks"]):
    file: ChunkFile

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.file.__exit__(kind, error, at)

    def __len__(self) -> int:
        return len(self.file)

    def train(self, settings: NetworkSettings, sample: Rows, plan: ChunkPlan, on_pass: OnPass | None) -> Trained:
        return train_on_chunks(settings, sample, plan, self.file, on_pass)

    def left_out(self, summary: Summary) -> LeftOut:
        return statistics_of_chunks(summary, self.file)
