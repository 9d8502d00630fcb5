"""Measure how long explanations take: one row, and a table of 10 000 rows and 20 columns.

    python benchmarks/explain.py [--write] [--rounds 5] [--epochs 10]

The networks have their default number and size, but are trained for few epochs: how well they fit does not matter for
the time. Each call is timed ``--rounds`` times after one that is not counted; CPU time is that of all threads, and does
not depend on other work on the machine; wall time is beside it. ``--write`` writes benchmarks/records/explain.json and
benchmarks/records/explain.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bdkn
from bdkn.environment import describe_machine

RECORDS = Path(__file__).parent / "records"
ROWS, COLUMNS = 10_000, 20
BARS = {"one row": 0.2, "overall": 20.0}
"""Seconds that the calls may take."""


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return rows and targets of a function with a bend, a product, and noise that depends on a column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    noise = 0.5 * rng.standard_exponential(ROWS) * np.exp(0.3 * X[:, 4])
    return X, 2.0 * X[:, 0] + np.sin(2.0 * X[:, 1]) + X[:, 2] * X[:, 3] + noise


def timed(call: Callable[[], Any], rounds: int) -> tuple[Any, dict[str, list[float]]]:
    """Return the result of a call, and CPU and wall times of each round."""
    call()
    cpu, wall = [], []
    for _ in range(rounds):
        start = time.process_time(), time.perf_counter()
        result = call()
        cpu.append(time.process_time() - start[0])
        wall.append(time.perf_counter() - start[1])
    return result, {"cpu": cpu, "wall": wall}


def measure(model: Any, X: np.ndarray, rounds: int) -> dict[str, dict[str, Any]]:
    """Return times and precision of all calls for one model."""
    found = {}
    for name, call in {
        "one row": lambda: model.explain(X[:1], X),
        "one row, mean alone": lambda: model.explain(X[:1], X, variance=False),
        "overall": lambda: model.explain(X),
        "partial dependence": lambda: model.partial_dependence(X, 1),
    }.items():
        result, took = timed(call, rounds if name != "overall" else min(rounds, 2))
        found[name] = {**took, "predictions": predictions(result), "error": error_share(result)}
    return found


def predictions(result: Any) -> int | None:
    """Return about how many rows were predicted."""
    if not hasattr(result, "values"):
        return None
    pairs = (800 if len(result.rows) <= 20 else 500) // (2 * (COLUMNS - 1))
    return len(result.rows) * pairs * 2 * (COLUMNS - 1)


def error_share(result: Any) -> float | None:
    """Return the standard error of the largest value for the mean, in units of that value."""
    if not hasattr(result, "values"):
        return None
    table = result.table()
    return float(table["mean_error"][0] / table["mean"][0])


def shown(value: float) -> str:
    """Return seconds as text."""
    return f"{value:.3g}"


def table(machine: str, about: str, results: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return the results as Markdown."""
    lines = [
        f"Machine: {machine}",
        "",
        f"{about} Median seconds over rounds, with the least and the greatest in brackets. CPU time is that of all "
        "threads; where wall time exceeds it, the machine was busy with other work. The error is the standard error of "
        "the largest contribution to the mean, in units of it.",
        "",
        "| predictions | call | CPU seconds | wall seconds | bar | predicted rows | error |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for model, calls in results.items():
        for name, took in calls.items():
            cells = [
                f"{shown(float(np.median(took[kind])))} ({shown(min(took[kind]))} to {shown(max(took[kind]))})"
                for kind in ("cpu", "wall")
            ]
            rows = "" if took["predictions"] is None else f"{took['predictions']:,}"
            error = "" if took["error"] is None else f"{took['error']:.0%}"
            bar = f"≤ {BARS[name]:g}" if name in BARS else ""
            lines.append(f"| {model} | {name} | {cells[0]} | {cells[1]} | {bar} | {rows} | {error} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and, with ``--write``, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/records/")
    arguments = parser.parse_args()
    X, y = data()
    model = bdkn.BDKNRegressor(epochs=arguments.epochs, random_state=0).fit(X, y)
    results = {}
    if model.density_ is not None:
        results["mixture"] = measure(model, X, arguments.rounds)
    results["Student-t alone"] = measure(model.without_shape(), X, arguments.rounds)
    machine = describe_machine()
    options = f"--rounds {arguments.rounds} --epochs {arguments.epochs}"
    folds = model.ensemble_.grid.n_folds
    about = f"{ROWS:,} rows of {COLUMNS} columns; {len(model.member_names_)} members of {folds} networks each."
    text = table(machine, about, results)
    print(text)
    if arguments.write:
        record = {
            "machine": machine,
            "options": options,
            "rows": ROWS,
            "columns": COLUMNS,
            "about": about,
            "bars": BARS,
            "seconds": results,
        }
        (RECORDS / "explain.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        heading = f"# Time of explanations\n\n`python benchmarks/explain.py --write {options}`\n\n"
        (RECORDS / "explain.md").write_text(heading + text, encoding="utf-8")


if __name__ == "__main__":
    main()
