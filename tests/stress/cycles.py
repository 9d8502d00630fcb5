"""Fit, predict, update, explain, save and load small models for two hours, and watch memory, open files and threads.

python tests/stress/cycles.py --write [--minutes 120] [--duty 0.25]

The record is written again every minute, so that a run that is ended early leaves a valid one.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

import bdkn
from bdkn import BayesianStackingRegressor, BDKNRegressor, DeepEnsembleRegressor
from record import Figure, Found, Record, arguments, recording

TITLE = "Two hours of fits, predictions and updates"
COMMAND = "python tests/stress/cycles.py --write"
FOUND: list[Found] = []
GROWTH = 0.05
"""Share by which memory after the first tenth of the run and at its end may differ."""


@dataclass(frozen=True)
class Reading:
    """What the process occupies at one moment."""

    minute: float
    megabytes: float
    files: int
    threads: int

    @classmethod
    def now(cls, minute: float) -> Reading:
        """Return what this process occupies now."""
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        status = dict(line.split(":", 1) for line in lines)
        memory, threads = int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"])
        return cls(minute, memory, len(os.listdir("/proc/self/fd")), threads)


def rows(number: int, n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of three columns, and targets, that depend on the number."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)


def new_model(number: int) -> Any:
    """Return one of three regressors in turn, small enough to be fitted within a second."""
    small = {"n_members": 3, "epochs": 20, "n_jobs": 1, "random_state": number}
    match number % 3:
        case 0:
            return BDKNRegressor(effort="fast", **small)
        case 1:
            return DeepEnsembleRegressor(**small)
        case _:
            networks = DeepEnsembleRegressor(**small)
            return BayesianStackingRegressor([("networks", networks), ("ridge", Ridge())], random_state=number)


def finite(*arrays: np.ndarray) -> bool:
    """Return whether all numbers are finite."""
    return all(bool(np.isfinite(array).all()) for array in arrays)


def check_predictions(model: Any, X: np.ndarray) -> dict[str, bool]:
    """Predict and explain rows; return whether each result is what it has to be."""
    mean, std = model.predict(X, return_std=True)
    interval = model.predict_interval(X)
    told = model.explain(X[:2], X[:10], n_samples=2)
    adds_up = np.allclose(told.base + told.values.sum(axis=1), told.prediction, rtol=1e-6, atol=1e-8)
    return {
        "predict": finite(mean, std) and bool((std > 0).all()),
        "predict_interval": finite(interval) and bool((interval[:, 0] < interval[:, 1]).all()),
        "explain": finite(told.values) and bool(adds_up),
    }


def check_update(model: Any, number: int, X: np.ndarray) -> dict[str, bool]:
    """Absorb rows and forget them; return whether predictions changed, and came back."""
    before, more = model.predict(X, return_std=True), rows(10**6 + number, 25)
    absorbed = model.partial_fit(*more).predict(X, return_std=True)
    back = model.forget(*more).predict(X, return_std=True)
    whole = model.forget().predict(X, return_std=True)
    same = np.allclose(back, before, rtol=1e-6, atol=1e-8) and np.array_equal(whole, before)
    return {"partial_fit": finite(*absorbed) and not np.array_equal(absorbed, before), "forget": bool(same)}


def check_file(model: Any, X: np.ndarray, folder: Path) -> dict[str, bool]:
    """Save and load a model; return whether predictions have the same bits."""
    path = folder / "model.bdkn"
    model.save(path)
    loaded = bdkn.load(path)
    same = np.array_equal(loaded.predict(X, return_std=True), model.predict(X, return_std=True))
    return {"save and load": bool(same) and os.listdir(folder) == [path.name]}


def cycle(number: int, folder: Path) -> dict[str, bool]:
    """Run one cycle of a regressor; return whether each of its steps was right."""
    model, (X, _) = new_model(number), rows(-number % 997 + 10**7, 12)
    results = {"fit": model.fit(*rows(number)) is model, **check_predictions(model, X)}
    if hasattr(model, "partial_fit"):
        results |= check_update(model, number, X)
    if not isinstance(model, BayesianStackingRegressor):
        results |= check_file(model, X, folder)
    return results


def memory_figures(readings: list[Reading]) -> list[Figure]:
    """Return whether memory, files and threads at the end are as after the first tenth of the run."""
    settled = readings[len(readings) // 10 :]
    quarter = max(1, len(settled) // 4)
    figures = []
    for what, name, most in (
        ("memory", "megabytes", GROWTH),
        ("open files", "files", 0.0),
        ("threads", "threads", 0.0),
    ):
        values = [getattr(reading, name) for reading in settled]
        first, last = float(np.median(values[:quarter])), float(np.median(values[-quarter:]))
        unit = " MB" if name == "megabytes" else ""
        remark = (
            f"median of the first and last quarter {first:.4g} and {last:.4g}{unit}, at most {max(values):.4g}{unit}"
        )
        figures.append(Figure(f"{what}, read once a minute", len(values), int(last > first * (1 + most)), remark))
    return figures


class Cycles:
    """The counts and readings of a run, and the lines of the record that they make."""

    def __init__(self) -> None:
        self.done, self.wrong, self.readings = Counter[str](), Counter[str](), list[Reading]()
        self.number, self.cpu = 0, 0.0

    def add(self, results: dict[str, bool]) -> None:
        """Count the steps of a cycle."""
        self.number += 1
        self.done.update(results)
        self.wrong.update(step for step, right in results.items() if not right)

    def figures(self) -> list[Figure]:
        """Return the lines of the record."""
        lines = [Figure(f"{step}, in {self.number} cycles", self.done[step], self.wrong[step]) for step in self.done]
        return lines + (memory_figures(self.readings) if self.readings else [])


def run(minutes: float, duty: float, record: Record, *, write: bool) -> Cycles:
    """Run cycles for so many minutes, sleep between them, and keep the record up to date every minute."""
    cycles, start, used = Cycles(), time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        while (passed := time.monotonic() - start) < 60 * minutes:
            begin = time.process_time()
            cycles.add(cycle(cycles.number, Path(folder)))
            if passed >= 60 * len(cycles.readings):
                cycles.readings.append(Reading.now(passed / 60))
                record.figures = cycles.figures()
                record.seconds, record.cpu_seconds = passed, time.process_time() - used
                print(cycles.number, cycles.readings[-1], dict(cycles.wrong), flush=True)
                if write:
                    record.write()
            time.sleep((time.process_time() - begin) * (1 / duty - 1))
    record.figures = cycles.figures()
    return cycles


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=120.0, help="how long to run (default 120)")
    parser.add_argument("--duty", type=float, default=0.25, help="share of the time to compute in (default 0.25)")
    options = parser.parse_args()
    with recording("cycles", TITLE, COMMAND, FOUND, write=options.write) as record:
        cycles = run(options.minutes * options.scale, options.duty, record, write=options.write)
        for figure in cycles.figures():
            print(figure)
