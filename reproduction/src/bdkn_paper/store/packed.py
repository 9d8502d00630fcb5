"""Packed records: one text file per experiment, to be committed.

``<results>/<experiment>.jsonl`` has a group of lines per method and data set. The first line of a group holds the
number of its records and the fields that they share. Then follows one record per line, sorted by split, without these
fields.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from bdkn.errors import InvalidParameterError
from bdkn.storage.atomic import locked, replace_file
from bdkn_paper.store.cell import Cell
from bdkn_paper.store.files import read_file
from bdkn_paper.store.record import Record, dumps, loads
from bdkn_paper.store.schema import check_record, count
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
    written = 0
    for experiment, new in groupby(
        sorted(_wanted(store, keys), key=place), lambda record: record["cell"]["experiment"]
    ):
        path = Path(results) / f"{experiment}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent):  # another process that packs at the same time would lose these records, or they its
            earlier = read_packed(path) if path.exists() else ()
            merged = {Cell.of(record).key: record for record in (*_wanted(earlier, keys), *new)}
            groups = groupby(sorted(merged.values(), key=place), lambda record: place(record)[:3])
            lines = (line for _, group in groups for line in _lines(list(group)))
            replace_file(path, "".join(f"{line}\n" for line in lines).encode())
        written += len(merged)
    return written


def unpack(results: str | os.PathLike[str], store: Store) -> int:
    """Copy packed records that a store does not have into it; return how many."""
    missing = [record for record in packed(results) if store.get(Cell.of(record)) is None]
    for record in missing:
        store.put(record)
    return len(missing)


def packed(results: str | os.PathLike[str]) -> Iterator[Record]:
    """Yield the records of all packed files in a folder."""
    for path in sorted(Path(results).glob("*.jsonl")):
        yield from read_packed(path)


def read_packed(path: Path) -> Iterator[Record]:
    """Yield the records of one packed file."""
    try:
        # Not splitlines: other ends of lines may stand in a text.
        lines = map(loads, read_file(path, MOST_BYTES).decode("utf-8").removesuffix("\n").split("\n"))
        seen: set[str] = set()
        for head in lines:
            for record in _group(head, lines):
                key = Cell.of(record).key
                if key in seen:  # as after a merge of two versions that kept the lines of both
                    raise ValueError(f"two records of one cell, {Cell.of(record)}")
                seen.add(key)
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


def _group(head: Any, lines: Iterator[Any]) -> Iterator[Record]:
    """Yield the records that follow the first line of a group."""
    if {key: head[key] for key in FORMAT} != FORMAT:
        raise ValueError(f"a group of records in another format, {head['format']!r} {head['version']!r}")
    count("records", head["records"])
    parts = list(islice(lines, head["records"]))
    if len(parts) != head["records"]:
        raise ValueError(f"{len(parts)} of the {head['records']} records of its last group")
    for part in parts:
        record = {**head["common"], **part, "cell": {**head["common"]["cell"], **part["cell"]}}
        check_record(record)
        yield record


def _lines(records: list[Record]) -> Iterator[str]:
    """Yield the lines of a group."""
    common = {name: records[0][name] for name in ("versions", "hardware") if _shared(records, name)}
    cells = [record["cell"] for record in records]
    common["cell"] = {name: cells[0][name] for name in cells[0] if name != "split" and _shared(cells, name)}
    yield dumps({**FORMAT, "records": len(records), "common": common})
    for record in records:
        own = {name: value for name, value in record.items() if name not in common}
        yield dumps({"cell": {k: v for k, v in record["cell"].items() if k not in common["cell"]}, **own})


def _shared(parts: list[dict[str, Any]], name: str) -> bool:
    return all(name in part and part[name] == parts[0].get(name) for part in parts)
