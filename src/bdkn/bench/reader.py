"""Records, wherever they are."""

from __future__ import annotations

import os
from pathlib import Path

from bdkn.bench.pack import packed, place
from bdkn.bench.record import Record
from bdkn.bench.store import Store
from bdkn.errors import InvalidParameterError


def records(source: str | os.PathLike[str]) -> list[Record]:
    """Return the records of a store, or of a folder of packed files, by experiment, method, data set and split.

    ``bdkn.bench.record`` says what a record holds. A cell that is there twice, or with other parameters than today's
    experiment gives it, is returned as it is: ``Cell.of(record).key`` tells cells apart.
    """
    folder = record_folder(source)
    return sorted([*Store(folder), *packed(folder)], key=place)


def record_folder(source: str | os.PathLike[str]) -> Path:
    """Return a folder of records, which must be there."""
    folder = Path(source)
    if not folder.is_dir():
        raise InvalidParameterError(
            f"records must be in a folder, a store or results/; got {str(folder)!r}, which is none: "
            "run 'bdkn bench run FILE' first"
        )
    return folder
