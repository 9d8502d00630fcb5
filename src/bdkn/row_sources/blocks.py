"""Pieces of rows, as a source reads them, made blocks of one size, with targets and weights that are checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError, check_number
from bdkn.row_sources.tables import Columns, columns_of, cut, join, read_table, worded
from bdkn.rows import Rows
from bdkn.typing import BoolArray, FloatArray

_MOST_ROWS, _FEWEST_ROWS = 1 << 16, 1 << 8
"""Default number of rows of a block: many enough that reading it takes longer than asking for it."""

_CELLS = 1 << 22
"""Cells of a block of a wide table: 32 MiB in double precision."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows as a source reads them, not yet checked; ``place`` is where they are, such as the name of a file."""

    X: Any
    y: Any
    sample_weight: Any = None
    groups: Any = None
    place: str = ""


@dataclass(frozen=True)
class Words:
    """What the user calls targets, weights and groups, for messages."""

    y: str = "y"
    sample_weight: str = "sample_weight"
    groups: str = "groups"


@dataclass(eq=False)
class Passes:
    """What every pass over a source must have in common: the number of rows and the columns; None until a pass ends."""

    words: Words = field(default_factory=Words)
    n_rows: int | None = None
    columns: Columns | None = None

    def blocks(self, pieces: Iterable[Piece], size: int | None) -> Iterator[Rows]:
        """Yield the checked rows of one pass in blocks of ``size`` rows; the last may be smaller."""
        if size is not None:
            check_number("size", size, low=1, whole=True)
        return in_blocks(self._checked(pieces), size)

    def _checked(self, pieces: Iterable[Piece]) -> Iterator[Rows]:
        """Yield all rows of one pass, checked, and compare their number with that of other passes."""
        n, parts = 0, None
        for piece in pieces:
            rows = check_piece(piece, n, self.words)
            if not len(rows):
                continue
            self._check_columns(rows.X, _where(piece, n))
            given = tuple(part is not None for part in (rows.counts, rows.groups))
            if parts is not None and given != parts:
                raise InvalidParameterError(
                    f"all blocks must have weights and groups, or none; {_where(piece, n)} begins one that differs "
                    "from the first"
                )
            parts, n = given, n + len(rows)
            yield rows
        self.end(n)

    def _check_columns(self, X: Any, where: str) -> None:
        columns = columns_of(X)
        if self.columns is None:
            self.columns = columns
        if columns != self.columns:
            raise InvalidParameterError(
                f"all blocks must have the columns of the first, {worded(self.columns)}, in this order; "
                f"{where} begins one with {worded(columns)}"
            )

    def end(self, n: int) -> None:
        """Remember the number of rows of a pass that has ended; raise if there were none, or another number before."""
        if self.n_rows is not None and n != self.n_rows:
            raise InvalidParameterError(
                f"every pass must read the same rows; the first had {self.n_rows} rows, this one {n}: give a source "
                "that does not change, and begins anew for each pass"
            )
        if not n:
            raise InvalidParameterError("there must be at least one row; got none: check what the source reads")
        self.n_rows = n


def block_rows(columns: Columns) -> int:
    """Return the default number of rows of a block."""
    n_columns = columns if isinstance(columns, int) else len(columns)
    return min(_MOST_ROWS, max(_FEWEST_ROWS, _CELLS // max(1, n_columns)))


def in_blocks(parts: Iterable[Rows], size: int | None) -> Iterator[Rows]:
    """Yield rows in blocks of ``size`` rows, whatever the sizes of the parts are; the last block may be smaller."""
    waiting: list[Rows] = []
    held = 0
    for rows in parts:
        start, step = 0, size or block_rows(columns_of(rows.X))
        while held + len(rows) - start >= step:
            stop = start + step - held
            yield _joined([*waiting, _cut(rows, start, stop)])
            waiting, held, start = [], 0, stop
        if start < len(rows):
            waiting.append(_cut(rows, start, len(rows)))
            held += len(rows) - start
    if waiting:
        yield _joined(waiting)


def check_piece(piece: Piece, first: int, words: Words) -> Rows:
    """Return the rows of a piece, of which the first has the number ``first``; raise if they are no training rows."""
    try:
        X, y = read_table(piece.X), _column(words.y, piece.y)
        counts = None if piece.sample_weight is None else _column(words.sample_weight, piece.sample_weight)
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{error} (counted from {_where(piece, first)})") from error
    groups = None if piece.groups is None else _labels(piece.groups)
    _check_lengths(len(X), {words.y: y, words.sample_weight: counts, words.groups: groups}, _where(piece, first))
    _check_all(np.isfinite(y), f"{words.y} must hold a finite number for every row", y, piece, first)
    if counts is not None:
        told = f"{words.sample_weight} must hold a finite number >= 0 for every row, as it counts rows"
        _check_all(np.isfinite(counts) & (counts >= 0), told, counts, piece, first)
    if groups is not None:
        _check_all(_is_label(groups), f"{words.groups} must hold a label for every row", groups, piece, first)
        groups = groups.astype(str) if groups.dtype.kind == "O" else groups
    return Rows(X, y, counts, groups)


def _column(name: str, values: Any) -> FloatArray:
    """Return numbers of shape (n,); a table of one column is such a column."""
    if values is None:
        raise InvalidParameterError(f"every block must have targets; {name} is None")
    numbers = read_numbers(name, values)
    return numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else numbers


def _labels(values: Any) -> NDArray[Any]:
    """Return labels of shape (n,); a table of one column is such a column."""
    labels = np.asarray(values)
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _is_label(labels: NDArray[Any]) -> BoolArray:
    """Return which labels are not missing: None, nan, NaT and pandas' NA are."""
    if labels.dtype.kind != "O":
        return np.asarray(labels == labels)
    missing = (label is None or type(label).__name__ == "NAType" or bool(label != label) for label in labels)
    return ~np.fromiter(missing, bool, len(labels))


def _check_lengths(n: int, columns: dict[str, NDArray[Any] | None], where: str) -> None:
    for name, values in columns.items():
        if values is not None and values.shape != (n,):
            raise InvalidParameterError(
                f"{name} must hold one value per row of X, shape ({n},); got {values.shape} in the block that begins "
                f"with {where}"
            )


def _check_all(right: BoolArray, told: str, values: NDArray[Any], piece: Piece, first: int) -> None:
    if not right.all():
        row = int(np.argmin(right))
        raise InvalidParameterError(
            f"{told}; {_where(piece, first + row)} is {values[row]}: leave out such rows where they are read"
        )


def _where(piece: Piece, row: int) -> str:
    return f"row {row}" + (f", in {piece.place}," if piece.place else "")


def _cut(rows: Rows, start: int, stop: int) -> Rows:
    if start == 0 and stop == len(rows):
        return rows
    part = slice(start, stop)
    counts = None if rows.counts is None else rows.counts[part]
    groups = None if rows.groups is None else rows.groups[part]
    return Rows(cut(rows.X, start, stop), rows.y[part], counts, groups)


def _joined(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    counts = [part.counts for part in parts if part.counts is not None]
    groups = [part.groups for part in parts if part.groups is not None]
    return Rows(
        join([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(counts) if counts else None,
        np.concatenate(groups) if groups else None,
    )
