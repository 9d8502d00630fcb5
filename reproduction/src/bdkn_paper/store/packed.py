"""Packed records: one file per method and data set, to be committed.

``<results>/<experiment>/<method>-<dataset>.jsonl`` begins with a line of what all its records have in common. Then
follows one record per line, sorted by split, without the common part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from bdkn.errors import InvalidParameterError
from bdkn.persistence import replace_file
from bdkn.persistence.locking import alone
from bdkn_paper.store.cell import Cell
from bdkn_paper.store.files import read_file
from bdkn_paper.store.record import Record, dumps, loads
from bdkn_paper.store.schema import check_record
from bdkn_paper.store.store import Store

DEFAULT_RESULTS = Path("reproduction/results")

FORMAT = {"format": "bdkn records", "version": 1}

MOST_BYTES = 256 << 20
"""Largest size of a packed file."""


def records(source: str | os.PathLike[str], tell: Callable[[str], None] = lambda text: None) -> list[Record]:
    """Return the records of a store or of a folder of packed files, by experiment, method, data set and split.

    A file of a store that is not a record is left out, and ``tell`` is called with a sentence about it; a packed file
    that is damaged raises an error that names it. Records of cells that today's experiment files no longer contain are
    returned too: ``Cell.of(record).key`` identifies the cell.
    """
    folder = record_folder(source)
    return sorted([*Store(folder, tell), *packed(folder)], key=place)


def record_folder(source: str | os.PathLike[str]) -> Path:
    """Return a folder of records; raise if it does not exist."""
    folder = Path(source)
    if not folder.is_dir():
        raise InvalidParameterError(
            f"records must be in a folder, a store or reproduction/results; got {str(folder)!r}, which is not a "
            "folder: run 'bdkn-paper run FILE' first"
        )
    return folder


def pack(store: Store, results: str | os.PathLike[str] = DEFAULT_RESULTS, keys: Collection[str] | None = None) -> int:
    """Write the records of a store to packed files; return the number of records in the files written.

    Records packed earlier are kept, unless the store has a newer one of the same cell. If ``keys`` are given, only
    these cells are packed, and all others are removed from the files written.
    """
    count = 0
    for path, group in groupby(sorted(_wanted(store, keys), key=place), lambda record: _file(results, record)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path.parent):  # another process that packs at the same time would lose these records, or they its
            earlier = read_packed(path) if path.exists() else ()
            merged = {Cell.of(record).key: record for record in (*_wanted(earlier, keys), *group)}
            lines = _lines(sorted(merged.values(), key=place))
            replace_file(path, "".join(f"{line}\n" for line in lines).encode())
        count += len(merged)
    return count


def unpack(results: str | os.PathLike[str], store: Store) -> int:
    """Copy packed records that a store does not have into it; return how many."""
    missing = [record for record in packed(results) if store.get(Cell.of(record)) is None]
    for record in missing:
        store.put(record)
    return len(missing)


def packed(results: str | os.PathLike[str]) -> Iterator[Record]:
    """Yield the records of all packed files in a folder and its subfolders."""
    for path in sorted(Path(results).rglob("*.jsonl")):
        yield from read_packed(path)


def read_packed(path: Path) -> Iterator[Record]:
    """Yield the records of one packed file."""
    try:
        lines = read_file(path, MOST_BYTES).decode("utf-8").removesuffix("\n").split("\n")
        head, *parts = map(loads, lines)  # other ends of lines may stand in a text
        if {key: head[key] for key in FORMAT} != FORMAT or head["records"] != len(parts):
            raise ValueError(f"its first line announces {head.get('records')} records in another form")
        for part in parts:
            record = {**head["common"], **part, "cell": {**head["common"]["cell"], **part["cell"]}}
            check_record(record)
            yield record
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise InvalidParameterError(
            f"{path} must hold records as 'bdkn-paper pack' writes them; got {error}: restore it, or remove it and "
            "pack it again"
        ) from error


def place(record: Record) -> tuple[str, str, str, int, str]:
    """Return the key by which records are sorted."""
    cell = Cell.of(record)
    return cell.experiment, cell.method, cell.dataset, cell.split, cell.key


def _wanted(records: Iterable[Record], keys: Collection[str] | None) -> Iterator[Record]:
    return (record for record in records if keys is None or Cell.of(record).key in keys)


def _file(results: str | os.PathLike[str], record: Record) -> Path:
    cell = Cell.of(record)
    return Path(results) / cell.experiment / f"{cell.method}-{cell.dataset}.jsonl"


def _lines(records: list[Record]) -> Iterator[str]:
    common = {name: records[0][name] for name in ("versions", "hardware") if _shared(records, name)}
    cells = [record["cell"] for record in records]
    common["cell"] = {name: cells[0][name] for name in cells[0] if name != "split" and _shared(cells, name)}
    yield dumps({**FORMAT, "records": len(records), "common": common})
    for record in records:
        own = {name: value for name, value in record.items() if name not in common}
        yield dumps({"cell": {k: v for k, v in record["cell"].items() if k not in common["cell"]}, **own})


def _shared(parts: list[dict[str, Any]], name: str) -> bool:
    return all(name in part and part[name] == parts[0].get(name) for part in parts)
