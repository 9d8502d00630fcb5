"""What predictions cost, with the densities of neighbours and with the Student-t alone, by a model of Power.

    BDKN_DATA=folder python reproduction/benchmarks/prediction_cost.py [--rows 1000000] [--write]

``BDKNRegressor()`` is fitted to the training rows of the first split. One row is the median of 200 calls; many rows are
test rows again and again, each moved a little. CPU time of all threads, in brackets the time by the clock. ``--write``
writes reproduction/results/prediction_cost.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bdkn
from bdkn.environment import describe_machine
from bdkn_paper import data

RESULT = Path(__file__).parent.parent / "results" / "prediction_cost.md"
CALLS = 200

PREDICTIONS: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "mean": lambda model, X: model.predict(X),
    "mean and standard deviation": lambda model, X: model.predict(X, return_std=True),
    "90 % interval": lambda model, X: model.predict_interval(X),
    "log density": lambda model, X: model.predict_dist(X).logpdf(np.full(len(X), 450.0)),
}


def spent(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds of the processor and of the clock that ``work`` takes."""
    clock, cpu = time.perf_counter(), time.process_time()
    work()
    return time.process_time() - cpu, time.perf_counter() - clock


def many_rows(X: np.ndarray, n: int) -> np.ndarray:
    """Return n rows near those of X."""
    generator = np.random.default_rng(0)
    return X[generator.integers(len(X), size=n)] + 1e-3 * X.std(axis=0) * generator.normal(size=(n, X.shape[1]))


def main() -> None:
    """Fit, measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    table, first = data.load_dataset("power"), data.split("power", 0)
    model = bdkn.BDKNRegressor(random_state=0).fit(table.X[first.train], table.y[first.train])
    X = table.X[first.test]
    lines = [f"Machine: {describe_machine()}.", "", f"| | one row | {given.rows:,} rows |", "| --- | ---: | ---: |"]
    for kind, one in (("mixture", model), ("Student-t alone", model.without_shape())):
        for name, predict in PREDICTIONS.items():
            predict(one, X)
            row = np.median([spent(lambda: predict(one, X[:1])) for _ in range(CALLS)], axis=0)  # noqa: B023
            many = spent(lambda: predict(one, many_rows(X, given.rows)))  # noqa: B023
            lines.append(
                f"| {kind}: {name} | {1e3 * row[0]:.2f} ms ({1e3 * row[1]:.2f}) | {many[0]:.1f} s ({many[1]:.1f}) |"
            )
            print(lines[-1], flush=True)
    if given.write:
        head, _, about, *_ = (__doc__ or "").split("\n\n")
        command = "`python reproduction/benchmarks/prediction_cost.py --write`"
        RESULT.write_text("\n".join([f"# {head.rstrip('.')}", "", command, "", about, "", *lines]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
