"""Measure the coverage of intervals with 10 to 50 training rows, on 30 problems with 1 to 50 columns.

    python benchmarks/few_rows.py [--seeds 8] [--label NAME] [--write]

A problem is a kind of truth and noise, a number of rows and a number of columns. Every seed draws training rows, 500
test rows and a fit. A record is the share of test rows inside their 90 % intervals, the NLL, the CRPS and the RMSE, in
units of the standard deviation of the targets. ``--write`` adds the records to benchmarks/records/few_rows.json under
the label, and writes the table of all labels to benchmarks/records/few_rows.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bdkn
from bdkn.environment import describe_machine

RECORDS = Path(__file__).parent / "records"
TEST_ROWS = 500
Array = np.ndarray


def linear(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a linear function of at most five columns, with noise of half its size."""
    return X[:, :5].sum(axis=1) / np.sqrt(min(5, X.shape[1])), 0.5 * rng.normal(size=len(X))


def nonlinear(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a sine and a parabola, with some noise."""
    return np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] ** 2, 0.3 * rng.normal(size=len(X))


def interaction(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the product of two columns and a third one, with some noise."""
    return X[:, 0] * X[:, 1] + X[:, 2], 0.3 * rng.normal(size=len(X))


def uneven(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a linear function with noise whose scale depends on a column."""
    return X[:, 0] - X[:, -1], 0.5 * np.exp(0.7 * X[:, 0]) * rng.normal(size=len(X))


def heavy(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a linear function with noise of heavy tails."""
    return X[:, :3].sum(axis=1), 0.5 * rng.standard_t(3.0, size=len(X))


def exact(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a smooth function without noise."""
    return np.tanh(X[:, 0]) + 0.3 * X[:, -1] ** 2, np.zeros(len(X))


def exact_linear(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a linear function without noise."""
    return X[:, :3].sum(axis=1), np.zeros(len(X))


def nothing(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a constant with noise: no column matters."""
    return np.zeros(len(X)), rng.normal(size=len(X))


def sparse(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return one column of many, with noise."""
    return 1.5 * X[:, 0], 0.5 * rng.normal(size=len(X))


def step(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a step, with little noise."""
    return np.where(X[:, 0] > 0, 1.0, -1.0), 0.2 * rng.normal(size=len(X))


PROBLEMS: list[tuple[Callable[..., tuple[Array, Array]], int, int, bool]] = [
    (linear, 10, 1, False),
    (linear, 10, 3, False),
    (linear, 20, 3, False),
    (linear, 20, 10, True),
    (linear, 30, 50, False),
    (linear, 50, 10, False),
    (nonlinear, 10, 3, False),
    (nonlinear, 15, 1, False),
    (nonlinear, 20, 3, True),
    (nonlinear, 30, 10, False),
    (nonlinear, 50, 3, False),
    (interaction, 15, 3, False),
    (interaction, 30, 3, True),
    (interaction, 50, 10, False),
    (uneven, 15, 3, False),
    (uneven, 30, 1, False),
    (uneven, 50, 10, True),
    (heavy, 10, 10, False),
    (heavy, 20, 3, False),
    (heavy, 50, 3, False),
    (exact, 10, 1, False),
    (exact, 20, 3, False),
    (exact, 50, 10, False),
    (exact_linear, 15, 50, True),
    (nothing, 10, 50, False),
    (nothing, 20, 10, False),
    (sparse, 20, 50, False),
    (sparse, 50, 50, True),
    (step, 15, 10, False),
    (step, 50, 1, False),
]
"""Kind, rows, columns, and whether the columns are correlated."""


def name_of(problem: tuple[Callable[..., Any], int, int, bool]) -> str:
    """Return the name of a problem."""
    kind, n, p, correlated = problem
    return f"{kind.__name__.replace('_', ' ')}, {n} x {p}{', correlated' if correlated else ''}"


def rows(problem: tuple[Callable[..., Any], int, int, bool], seed: int) -> tuple[Array, Array, Array, Array]:
    """Return training and test rows of a problem: X, y, X, y."""
    kind, n, p, correlated = problem
    rng = np.random.default_rng([seed, n, p])
    X = rng.normal(size=(n + TEST_ROWS, p))
    if correlated:
        X = 0.6 * X + 0.8 * rng.normal(size=(n + TEST_ROWS, 1))
    mean, noise = kind(X, rng)
    y = mean + noise
    return X[:n], y[:n], X[n:], y[n:]


def score(problem: tuple[Callable[..., Any], int, int, bool], seed: int, **parameters: Any) -> dict[str, float]:
    """Return the scores of one fit."""
    X, y, X_test, y_test = rows(problem, seed)
    unit = float(y_test.std())
    began = time.perf_counter()
    dist = bdkn.BDKNRegressor(random_state=seed, n_jobs=1, **parameters).fit(X, y / unit).predict_dist(X_test)
    took, target = time.perf_counter() - began, y_test / unit
    width = dist.interval(0.9)
    return {
        "coverage": bdkn.coverage(target, dist, 0.9),
        "nll": bdkn.nll(target, dist),
        "crps": bdkn.crps(target, dist),
        "rmse": bdkn.rmse(target, dist),
        "width": float(np.median(width[1] - width[0])),
        "seconds": took,
    }


def average(records: list[dict[str, float]], key: str) -> float:
    """Return the mean of a score over seeds."""
    return float(np.mean([record[key] for record in records]))


def table(scores: dict[str, dict[str, list[dict[str, float]]]]) -> list[str]:
    """Return the lines of the table of all problems and labels."""
    labels = list(scores)
    lines = ["| problem | " + " | ".join(labels) + " |", "| --- |" + " ---: |" * len(labels)]
    keys = ("coverage", "nll", "crps", "width")

    def cells(records: list[dict[str, float]]) -> str:
        held, nll, crps, width = (average(records, key) for key in keys)
        return f"{100 * held:.0f} % / {nll:.2f} / {crps:.3f} / {width:.2f}"

    for problem in scores[labels[0]]:
        lines.append(f"| {problem} | " + " | ".join(cells(scores[label][problem]) for label in labels) + " |")
    means = [[average(r, "coverage") for r in scores[label].values()] for label in labels]
    everything = [[r for records in scores[label].values() for r in records] for label in labels]
    lines.append("| **mean** | " + " | ".join(map(cells, everything)) + " |")
    lines.append("| **lowest coverage of a problem** | " + " | ".join(f"{100 * min(m):.0f} %" for m in means) + " |")
    return lines


def main() -> None:
    """Run all problems, print the table and, with ``--write``, write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--label", default="now")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {name_of(p): [score(p, seed) for seed in range(options.seeds)] for p in PROBLEMS}
    path = RECORDS / "few_rows.json"
    records: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"scores": {}}
    records["machine"] = describe_machine()
    records["scores"][options.label] = found
    print("\n".join(table({options.label: found})))
    if options.write:
        path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        about = [
            "# Intervals with few rows",
            "",
            "`python benchmarks/few_rows.py --write`. " + (__doc__ or "").split("\n\n")[2].replace("\n", " "),
            "",
            "Each cell: observed coverage of 90 % intervals / NLL / CRPS / median width of these intervals.",
            "",
            f"Machine: {records['machine']}",
            "",
        ]
        (RECORDS / "few_rows.md").write_text("\n".join([*about, *table(records["scores"])]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
