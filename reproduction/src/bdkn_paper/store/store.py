"""A store: a folder with one file per record.

A record is written to a temporary file, flushed to disk and renamed, so that its file is always complete, even if the
writer is killed or several processes write at once. If two processes write a record of the same cell, the later one
remains; both hold the same numbers. A killed writer may leave a hidden ``*.part`` file behind, which is never read.

A store may come from others: every file is checked when it is read (``schema.py``), and one that is not the record that
its name says is told and left out.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bdkn.errors import InvalidParameterError
from bdkn.storage.atomic import replace_file
from bdkn_paper.store.cell import Cell
from bdkn_paper.store.files import read_file
from bdkn_paper.store.record import Record, dumps, loads
from bdkn_paper.store.schema import check_record

DEFAULT_STORE = Path(".bdkn-store")

MOST_BYTES = 16 << 20
"""Largest size of the file of a record."""


_NO_FILE = (errno.ENOENT, errno.ELOOP)
"""Errors of files that were removed in the meantime, and of links that lead nowhere."""


class Store:
    """Records in a folder; the files of two stores can be copied into one folder.

    ``tell`` is called with a sentence about each file that is left out because it is not a record.
    """

    def __init__(
        self, folder: str | os.PathLike[str] = DEFAULT_STORE, tell: Callable[[str], None] = lambda text: None
    ) -> None:
        self.folder, self.tell = Path(folder), tell

    def get(self, cell: Cell) -> Record | None:
        """Return the record of a cell, None if there is none or if it cannot be read."""
        try:
            return _read(self._path(cell))
        except (FileNotFoundError, InvalidParameterError):  # a damaged file: the cell counts as not run
            return None

    def put(self, record: Record) -> None:
        """Write a record, replacing an earlier one of the same cell; raise if it is not one."""
        check_record(record)
        path = self._path(Cell.of(record))
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, f"{dumps(record)}\n".encode())

    def __iter__(self) -> Iterator[Record]:
        """Yield all records; raise if the disk or the rights to a file fail, as a record must not be lost by that."""
        for path in sorted(self.folder.glob("[0-9a-f][0-9a-f]/*.json")):
            try:
                yield _read(path)
            except InvalidParameterError as error:
                self.tell(f"{path} is left out: {error}")
            except OSError as error:
                if error.errno not in _NO_FILE:
                    raise
                self.tell(f"{path} is left out: {error}")

    def _path(self, cell: Cell) -> Path:
        return self.folder / cell.key[:2] / f"{cell.key}.json"


def _read(path: Path) -> Record:
    """Return the record in a file; raise if it is not the record of the cell that the file is named after."""
    record: Record = _loaded(path)
    check_record(record)
    if Cell.of(record).key != path.stem:
        raise InvalidParameterError("its name must be the key of its cell; it is that of another")
    return record


def _loaded(path: Path) -> Any:
    """Return the JSON value in a file; raise unless that is an ordinary file of JSON that is not too large."""
    content = read_file(path, MOST_BYTES)
    try:
        return loads(content)
    except ValueError as error:
        raise InvalidParameterError(f"it must be a line of JSON ({error})") from error
