"""A store: a folder with one file per record.

A record is written to a temporary file, flushed to disk and renamed, so that its file is always complete, even if the
writer is killed or several processes write at once. If two processes write a record of the same cell, the later one
remains; both hold the same numbers. A killed writer may leave a hidden ``*.part`` file behind, which is never read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bdkn.persistence import replace_file
from bdkn_paper.store.cell import Cell
from bdkn_paper.store.record import Record, dumps, loads

DEFAULT_STORE = Path(".bdkn-store")


class Store:
    """Records in a folder; the files of two stores can be copied into one folder."""

    def __init__(self, folder: str | os.PathLike[str] = DEFAULT_STORE) -> None:
        self.folder = Path(folder)

    def get(self, cell: Cell) -> Record | None:
        """Return the record of a cell, None if there is none or if it cannot be read."""
        return _read(self._path(cell))

    def put(self, record: Record) -> None:
        """Write a record, replacing an earlier one of the same cell."""
        path = self._path(Cell.of(record))
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, f"{dumps(record)}\n".encode())

    def __iter__(self) -> Iterator[Record]:
        """Yield all records."""
        for path in sorted(self.folder.glob("[0-9a-f][0-9a-f]/*.json")):
            if (record := _read(path)) is not None:
                yield record

    def _path(self, cell: Cell) -> Path:
        return self.folder / cell.key[:2] / f"{cell.key}.json"


def _read(path: Path) -> Record | None:
    try:
        record: Record = loads(path.read_bytes())
        return record if _is_complete(record) else None
    except (FileNotFoundError, ValueError):  # a damaged file: the cell counts as not run
        return None


def _is_complete(record: Any) -> bool:
    """Return whether a record has the fields that every reader needs."""
    try:
        Cell.of(record)
        return record["status"] == "failed" or isinstance(record["metrics"], dict)
    except (KeyError, TypeError, AttributeError):
        return False
