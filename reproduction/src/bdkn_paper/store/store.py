"""Records on disk, one file a cell; what is there is done.

A record is written under a temporary name, flushed to the disk and renamed, so that a file is there whole or not at
all, whatever is killed and however many runners write at once: of two records of one cell the later stays, and they
hold the same numbers. A killed writer may leave a ``*.tmp`` behind, which nobody reads.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bdkn_paper.store.cell import Cell
from bdkn_paper.store.record import Record, dumps, loads

DEFAULT_STORE = Path(".bdkn-store")


class Store:
    """Records in a folder; files of two stores can be copied together."""

    def __init__(self, folder: str | os.PathLike[str] = DEFAULT_STORE) -> None:
        self.folder = Path(folder)

    def get(self, cell: Cell) -> Record | None:
        """Return the record of a cell, None if there is none, or none that can be read."""
        return _read(self._path(cell))

    def put(self, record: Record) -> None:
        """Keep a record, in place of an earlier one of the same cell."""
        path = self._path(Cell.of(record))
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, dumps(record) + "\n")

    def __iter__(self) -> Iterator[Record]:
        """Yield every record there is."""
        for path in sorted(self.folder.glob("[0-9a-f][0-9a-f]/*.json")):
            if (record := _read(path)) is not None:
                yield record

    def _path(self, cell: Cell) -> Path:
        return self.folder / cell.key[:2] / f"{cell.key}.json"


def replace_file(path: Path, text: str) -> None:
    """Write a file so that readers see the old text or the new, never a part."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f"{path.stem[:8]}-", suffix=".tmp", delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)  # temporary files are for their owner alone; results are for everybody
    os.replace(file.name, path)


def _read(path: Path) -> Record | None:
    try:
        record: Record = loads(path.read_bytes())
        return record if _is_whole(record) else None
    except (FileNotFoundError, ValueError):  # a disk that failed: the cell simply counts as not run
        return None


def _is_whole(record: Any) -> bool:
    """Tell whether a record has what all who read records rely on."""
    try:
        Cell.of(record)
        return record["status"] == "failed" or isinstance(record["metrics"], dict)
    except (KeyError, TypeError):
        return False
