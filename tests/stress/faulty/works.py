"""Work that writes files: how it begins, what it does, and by what a file that it wrote is known."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bdkn
from bdkn_paper.experiments import Task, run_cells
from bdkn_paper.store import Cell, Store, pack

Signs = dict[str, str]
"""By the name of a file: a text that differs if the file holds something else."""

SETTINGS: dict[str, Any] = {
    "n_members": 3,
    "hidden_layer_sizes": (8,),
    "epochs": 8,
    "density": "student-t",
    "n_jobs": 1,
}
BYSTANDER = "precious.bin"


@dataclass(frozen=True)
class Work:
    """One kind of work in a folder: what is there before it, and what it does; ``again`` if it may be done twice."""

    name: str
    files: Callable[[], dict[str, bytes]]
    run: Callable[[Path], None]
    again: bool = True

    def begin(self, folder: Path) -> None:
        """Put into an empty folder what is there before the work."""
        for name, content in {BYSTANDER: bytes(range(256)), **self.files()}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


def signs(folder: Path) -> Signs:
    """Return by what the files of a folder are known, without the hidden parts of killed writers."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith(".part")]
    return {str(path.relative_to(folder)): _sign(path) for path in paths}


def leftovers(folder: Path) -> list[str]:
    """Return the hidden files and folders that a writer left behind."""
    return [str(path.relative_to(folder)) for path in folder.rglob(".*")]


def _sign(path: Path) -> str:
    """Return a model's predictions, a record's numbers, a page's end, or the digest of any other file."""
    if path.suffix == ".bdkn":
        return _digest(bdkn.load(path).predict(rows(7, 4)[0]).tobytes())
    if path.suffix == ".json":
        record = json.loads(path.read_bytes())
        return f"{record['status']} {record.get('metrics')}"
    if path.suffix == ".html":
        return "a page" if path.read_text(encoding="utf-8").rstrip().endswith("</html>") else "half a page"
    if path.suffix == ".jsonl":
        lines = path.read_text(encoding="utf-8").splitlines()
        return " ".join(str(json.loads(line).get("metrics")) for line in lines)
    return _digest(path.read_bytes())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def rows(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a small table and its targets."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    return X, (X["a"] + 0.3 * rng.normal(size=n)).to_numpy()


@cache
def model(seed: int) -> bdkn.BDKNRegressor:
    """Return a fitted model."""
    fitted = bdkn.BDKNRegressor(**SETTINGS, random_state=seed).fit(*rows(80, 0))
    fitted.made_ = {"target": "y"}
    return fitted


@cache
def file_of(seed: int) -> bytes:
    """Return the model as a file."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        model(seed).save(Path(folder) / "model.bdkn")
        return (Path(folder) / "model.bdkn").read_bytes()


def csv_of(n: int, seed: int) -> bytes:
    """Return a table with its targets as a CSV file."""
    X, y = rows(n, seed)
    return X.assign(y=y).to_csv(index=False).encode()


def command(*words: object) -> None:
    """Run the command ``bdkn`` in this process; raise SystemExit with its exit code."""
    from bdkn.cli import app

    app([str(word) for word in words])


def _fit(folder: Path) -> None:
    bdkn.BDKNRegressor(**SETTINGS, random_state=2).fit(*rows(80, 0)).save(folder / "model.bdkn")


def _save(folder: Path) -> None:
    model(2).save(folder / "model.bdkn")


def _update(folder: Path, new: str = "new.csv") -> None:
    command("update", folder / "model.bdkn", folder / new, "--out", folder / "model.bdkn", "--quiet")


def _predict(folder: Path, out: str = "out.csv") -> None:
    command("predict", folder / "model.bdkn", folder / "new.csv", "--out", folder / out, "--quiet", "--jobs", "1")


def _report(folder: Path) -> None:
    model(1).report(*rows(30, 3), folder / "page.html")


def _figure(folder: Path) -> None:
    from bdkn.plots import PITDisplay, save_figure

    X, y = rows(30, 3)
    save_figure(PITDisplay.from_estimator(model(1), X, y).figure_, folder, "pit")


@dataclass
class Source:
    """A source of one small task."""

    names_: Sequence[str] = field(default=("waves",))

    def names(self) -> list[str]:
        """Return the names of the tasks."""
        return list(self.names_)

    def n_splits(self, _name: str) -> int:
        """Return the number of splits."""
        return 4

    def train_size(self, _name: str) -> int:
        """Return the number of training rows."""
        return 60

    def load(self, _name: str) -> Task:
        """Return the task."""
        X, y = rows(80, 5)
        return Task(X.to_numpy(), y, [(np.arange(60), np.arange(60, 80))] * 4)


def cells() -> list[Cell]:
    """Return quick cells of an experiment."""
    parameters = {"n_members": 3, "hidden_layer_sizes": [8], "epochs": 4, "training": {"early_stopping": False}}
    names = {"experiment": "tiny", "method": "bdkn", "dataset": "waves", "regressor": "BDKNRegressor"}
    return [Cell(**names, split=split, parameters=parameters) for split in range(4)]


def _bench(folder: Path) -> None:
    ended = list(run_cells(cells(), Store(folder / "store"), Source(), jobs=1))
    if any(outcome.status != "done" for outcome in ended):
        raise RuntimeError(f"a cell failed: {ended}")


@cache
def _records() -> dict[str, bytes]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        _bench(Path(name))
        return {str(path.relative_to(name)): path.read_bytes() for path in Path(name).rglob("*.json")}


def _packed_before() -> dict[str, bytes]:
    """Return a store of all records, and a packed file of the first two."""
    from tempfile import TemporaryDirectory

    content = _records()
    with TemporaryDirectory() as name:
        for path in list(content)[:2]:
            (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(name) / path).write_bytes(content[path])
        pack(Store(Path(name) / "store"), Path(name) / "results")
        packed = {str(p.relative_to(name)): p.read_bytes() for p in Path(name).rglob("*.jsonl")}
    return {**content, **packed}


def _pack(folder: Path) -> None:
    pack(Store(folder / "store"), folder / "results")


def _old_model() -> dict[str, bytes]:
    return {"model.bdkn": file_of(1)}


def _with_rows() -> dict[str, bytes]:
    return {
        **_old_model(),
        "new.csv": csv_of(25, 6),
        "other.csv": csv_of(25, 8),
        "out.csv": b"old",
        "out.parquet": b"old",
    }


WORKS = (
    Work("fit", _old_model, _fit),
    Work("save", _old_model, _save),
    Work("update", _with_rows, _update, again=False),
    Work("predict to CSV", _with_rows, _predict),
    Work("predict to Parquet", _with_rows, lambda folder: _predict(folder, "out.parquet")),
    Work("report", lambda: {"page.html": b"<p>old</p></html>"}, _report),
    Work("figure", lambda: {"pit.png": b"old", "pit.svg": b"old"}, _figure),
    Work("bench", lambda: dict(list(_records().items())[:1]), _bench),
    Work("pack", _packed_before, _pack),
)


def update_with_other_rows(folder: Path) -> None:
    """Absorb the second table."""
    _update(folder, "other.csv")


def empty(folder: Path) -> None:
    """Remove all that is in a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
