"""Tables, records and experiments that enemies wrote: read right, or told by one error that names the file.

Trials run with an audit hook that notes when anything is executed, unpickled, or opened for writing outside of the
folder of the trial. Files that could crash the process or fill the memory are read in child processes.

python tests/stress/hostile_files.py [--write] [--scale S]
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bdkn.errors import BDKNError, InvalidParameterError
from bdkn.table_files import read_table
from bdkn.table_files.csv_files import CsvFile
from bdkn.table_files.formats import open_binary
from hostile import values
from hostile.children import bombs, commands, pages, parquet_files, special_files
from hostile.found import FOUND
from record import arguments, recording

HOOKED = {"pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "shutil.rmtree"}


class Watch:
    """Notes what happens during trials that must not happen."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.seen: list[str] = []
        self.is_hooked = False

    def _hook(self, event: str, details: tuple[object, ...]) -> None:
        if self.folder is None:
            return
        if event in HOOKED:
            self.seen.append(f"{event} {details!r}"[:200])
        elif event == "open" and isinstance(details[0], str | bytes):
            mode, path = str(details[1] or ""), os.path.abspath(os.fsdecode(details[0]))
            flags = details[2] if isinstance(details[2], int) else 0
            writes = any(letter in mode for letter in "wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and not path.startswith(self.folder):
                self.seen.append(f"open {path} {mode}")

    @contextmanager
    def trial(self, folder: Path) -> Iterator[None]:
        """Watch what happens in the block; only ``folder`` may be written to."""
        if not self.is_hooked:
            sys.addaudithook(self._hook)
            self.is_hooked = True
        self.folder, self.seen = str(folder.resolve()), []
        try:
            yield
        finally:
            self.folder = None


WATCH = Watch()
Trial = Callable[[random.Random, Path], str]
"""A trial: it returns what was wrong, "" if nothing was; "told" or "read" say how it ended."""


def run_trials(trial: Trial, count: int, seed: int, place: Path) -> tuple[int, int, list[str]]:
    """Return how many trials were told, how many were read, and what was wrong in the others."""
    told = read = 0
    wrong: list[str] = []
    for i in range(count):
        folder = place / "a" / "b"
        folder.mkdir(parents=True)
        try:
            with WATCH.trial(folder):
                ended = trial(random.Random(f"{seed}/{i}"), folder)
            outside = [
                path.name
                for path in place.rglob("*")
                if folder not in path.parents and path not in (folder, folder.parent)
            ]
            ended = f"outside of the folder: {outside}" if outside else ended
            ended = f"not allowed: {WATCH.seen[0]}" if WATCH.seen else ended
        except Exception as error:
            ended = f"{type(error).__name__}: {error}"
        told, read = told + (ended == "told"), read + (ended == "read")
        if ended not in ("told", "read"):
            wrong.append(f"{trial.__name__} {seed}/{i}: {ended}"[:300])
        shutil.rmtree(place / "a")
    return told, read, wrong


def good_table(rng: random.Random, folder: Path) -> str:
    """Write a table in any style; it must be read as it is."""
    names, rows = values.table(rng)
    ending, content = values.written(names, rows, rng)
    path = folder / f"table{ending}"
    path.write_bytes(content)
    frame = read_table(path)
    if list(frame.columns) != names or len(frame) != len(rows):
        return f"names {list(frame.columns)} in place of {names}"
    for j, name in enumerate(names):
        for cell, given in zip(frame[name], (row[j] for row in rows), strict=True):
            if not (cell == given or (not isinstance(cell, str) and float(cell) == float(given))):
                return f"{cell!r} in place of {given!r}"
    return "read"


def damaged_table(rng: random.Random, folder: Path) -> str:
    """Damage the file of a table; it is told, or read as the module csv reads it."""
    names, rows = values.table(rng)
    ending, content = values.written(names, rows, rng)
    path = folder / f"table{ending}"
    path.write_bytes(values.damaged(content, rng))
    try:
        frame = read_table(path)
    except InvalidParameterError as error:
        return "told" if str(path) in str(error) and len(str(error)) < 5000 else f"unclear: {error}"
    return "read" if _as_csv_reads_it(path, frame) else "read otherwise than by the module csv"


def _as_csv_reads_it(path: Path, frame: object) -> bool:
    import csv

    dialect = CsvFile.of(path).dialect
    with open_binary(path, packed=path.suffix == ".gz") as file:
        text = file.read().decode(dialect.encoding, "replace")
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=dialect.delimiter) if row]
    if len(rows) - 1 != len(frame) or any(len(row) != frame.shape[1] for row in rows):  # type: ignore[attr-defined, arg-type]
        return False
    for j in range(frame.shape[1]):  # type: ignore[attr-defined]
        column = frame.iloc[:, j]  # type: ignore[attr-defined]
        if column.dtype == object and any(
            isinstance(cell, str) and cell != row[j] for cell, row in zip(column, rows[1:], strict=True)
        ):
            return False
    return True


RECORD = {
    "cell": {
        "experiment": "e",
        "method": "m",
        "dataset": "d",
        "split": 0,
        "regressor": "BDKNRegressor",
        "base": {"from_paper": 1},
        "parameters": {"epochs": 4, "hidden_layer_sizes": [8]},
        "seed": 0,
        "kind": "scores",
    },
    "status": "done",
    "rows": {"train": 45, "test": 15},
    "metrics": {"rmse": 0.5, "nll": 1.5},
    "model": {"members": 3, "weights": [0.5, 0.5]},
    "seconds": {"fit": 0.5, "aggregate": 0.1, "predict": 0.1, "predict_aggregate": 0.1},
    "warnings": ["text"],
    "memory_mib": 100.0,
    "versions": {"numpy": "2"},
    "hardware": {"processor": "Abacus", "cores": 2, "threads": 1},
}


def stored_record(rng: random.Random, folder: Path) -> str:
    """Change a record of a store; it is told and left out, or packed inside of its folder and shown in every form."""
    from bdkn_paper.store import Cell, Store, pack, records

    store, results, told = folder / "store", folder / "results", []
    Store(store).put({**RECORD, "cell": {**RECORD["cell"], "split": 7}})  # type: ignore[dict-item]
    document = values.changed(RECORD, rng)
    try:
        key = Cell(**document["cell"]).key
    except Exception:
        key = "0" * 64
    path = store / key[:2] / f"{key}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    found = list(Store(store, told.append))
    if not any(record["cell"]["split"] == 7 for record in found) or len(found) + len(told) != 2:
        return f"{len(found)} records and {len(told)} notes"
    if told and str(path) not in told[0]:
        return f"unclear: {told[0]}"
    pack(Store(store), results)
    if len(records(results)) != len(found):
        return "packed records differ"
    _show(found)
    return "told" if told else "read"


def _show(found: list[dict[str, object]]) -> None:
    """Make all tables of records; errors of this library are allowed."""
    from bdkn_paper.analysis.markdown import to_markdown
    from bdkn_paper.analysis.results import gather
    from bdkn_paper.analysis.runtimes import machine
    from bdkn_paper.tables.formats import grid_csv, grid_latex, grid_table
    from bdkn_paper.tables.score_grid import score_grid

    for name in {str(record["cell"]["experiment"]) for record in found}:  # type: ignore[index]
        try:
            grid = score_grid(gather(found, name), "rmse")
        except BDKNError:
            continue
        to_markdown(grid_table(grid)), grid_latex(grid), grid_csv(grid), machine(found)


def packed_file(rng: random.Random, folder: Path) -> str:
    """Change a packed file, as text or as JSON; it is told by name, or its records are complete."""
    from bdkn_paper.store import Store, pack, records
    from bdkn_paper.store.schema import check_record

    store, results = Store(folder / "store"), folder / "results"
    for split in (0, 1):
        store.put({**RECORD, "cell": {**RECORD["cell"], "split": split}})  # type: ignore[dict-item]
    pack(store, results)
    (path,) = results.rglob("*.jsonl")
    if rng.random() < 0.5:
        path.write_bytes(values.damaged(path.read_bytes(), rng))
    else:
        lines = path.read_text("utf-8").splitlines()
        at = rng.randrange(len(lines))
        lines[at] = json.dumps(values.changed(json.loads(lines[at]), rng))
        path.write_text("\n".join(lines), "utf-8")
    try:
        found = records(results)
    except InvalidParameterError as error:
        return "told" if str(path) in str(error) else f"unclear: {error}"
    for record in found:
        check_record(record)
    _show(found)
    return "read"


EXPERIMENT = {
    "name": "mine",
    "title": "A title",
    "datasets": ["synthetic-small", "bridges"],
    "splits": 2,
    "seed": 0,
    "kind": "scores",
    "tables": {"bridges": {"path": "bridges.csv", "target": "load", "splits": 3}},
    "methods": {"bdkn": {"regressor": "BDKNRegressor", "base": {"from_paper": 1}, "parameters": {"epochs": 2}}},
}


def experiment(rng: random.Random, folder: Path) -> str:
    """Change an experiment, as text or as a document; it is told by name, or gives cells whose names are names."""
    from bdkn_paper.experiments import load_experiment
    from bdkn_paper.store.names import check_name

    (folder / "bridges.csv").write_text("span,load\n" + "1,2\n3,4\n5,6\n" * 3, encoding="utf-8")
    path = folder / "mine.toml"
    if rng.random() < 0.3:
        path.write_bytes(values.damaged(_toml(EXPERIMENT).encode(), rng))
    else:
        path.write_text(_toml(values.changed(EXPERIMENT, rng)), "utf-8")
    try:
        found = load_experiment(path)
    except InvalidParameterError as error:
        return "told" if str(path) in str(error) and len(str(error)) < 5000 else f"unclear: {error}"
    try:
        cells = found.cells(found.source())
    except BDKNError:
        return "told"
    for cell in cells:
        for name in (cell.experiment, cell.method, cell.dataset):
            check_name(name)
    return "read" if len(cells) <= 10**6 else "too many cells"


def _toml(document: dict[str, object]) -> str:
    return "".join(f"{json.dumps(key)} = {_toml_value(part)}\n" for key, part in document.items() if part is not None)


def _toml_value(part: object) -> str:
    if isinstance(part, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml_value(v)}" for k, v in part.items() if v is not None) + "}"
    if isinstance(part, list):
        return "[" + ", ".join(_toml_value(v) for v in part if v is not None) + "]"
    return json.dumps(part).replace("Infinity", "inf").replace("NaN", "nan") if part is not None else '""'


IN_PROCESS: list[tuple[str, Trial, int]] = [
    ("CSV and TSV of hostile names and cells, written in any style: read as written", good_table, 6000),
    ("the same, damaged: told by name, or read as by Python's csv", damaged_table, 12000),
    ("records of a store, changed: told and left out, or packed in their folder and shown", stored_record, 6000),
    ("packed records, changed: told by name, or complete", packed_file, 3000),
    ("experiments, changed: told by name, or cells with good names", experiment, 6000),
]


def main(scale: float, *, write: bool) -> None:
    """Run all trials and record what was wrong."""
    command = "python tests/stress/hostile_files.py --write" + (f" --scale {scale:g}" if scale != 1 else "")
    with recording("hostile_files", "Hostile tables, records and experiments", command, FOUND, write=write) as record:
        place = Path(tempfile.mkdtemp(prefix="hostile-"))
        for what, trial, count in IN_PROCESS:
            tried = max(1, round(count * scale))
            told, read, wrong = run_trials(trial, tried, 0, place)
            print(*wrong[:5], sep="\n")
            record.add(what, tried, len(wrong), f"{told:,} told, {read:,} read")
        for work in (parquet_files, special_files, bombs, commands, pages):
            for what, tried, told_wrong, remark in work(place, scale):
                print(*told_wrong[:5], sep="\n")
                record.add(what, tried, len(told_wrong), remark)
        shutil.rmtree(place)


if __name__ == "__main__":
    options = arguments(__doc__ or "").parse_args()
    main(options.scale, write=options.write)
