"""Measure what a linear member brings on tables with many columns, against LassoCV and networks alone.

    python benchmarks/wide_tables.py [--seeds 3] [--write]

Every table has ten true inputs or fewer, linear or not, among its columns, and noise of standard deviation 1. Scores on
1000 test rows: RMSE of the mean, NLL and the share inside 90 % intervals. ``--write`` writes
benchmarks/records/wide_tables.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import bdkn
from bdkn.environment import describe_machine

RECORDS = Path(__file__).parent / "records"
TABLES = [
    ("sparse", 20, 50),
    ("sparse", 200, 100),
    ("sparse", 300, 30),
    ("sparse", 500, 10),
    ("curved", 200, 100),
    ("curved", 300, 30),
    ("curved", 500, 10),
    ("dense", 100, 100),
    ("sparse", 100, 500),
    ("sparse", 200, 2000),
]
MODELS: dict[str, dict[str, Any]] = {
    "networks": {"members": ("networks",)},
    "with a linear member": {"members": ("networks", "linear")},
}


def rows(kind: str, n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n + 1000 rows: ten inputs of size one; the same, the first three curved; or all inputs, each small."""
    rng = np.random.default_rng([seed, n, p])
    X = rng.normal(size=(n + 1000, p))
    first = X[:, : min(10, p)]
    if kind == "dense":
        mean = X @ rng.normal(size=p) * np.sqrt(10 / p)
    elif kind == "curved":
        mean = 2 * np.sin(2 * first[:, 0]) + first[:, 1] * first[:, 2] + first[:, 3:].sum(axis=1)
    else:
        mean = first.sum(axis=1)
    return X, mean + rng.normal(size=len(X))


def lasso_rmse(X: np.ndarray, y: np.ndarray, n: int) -> float:
    """Return the RMSE of scikit-learn's lasso on the test rows."""
    from sklearn.linear_model import LassoCV

    return float(np.sqrt(np.mean((LassoCV(cv=5).fit(X[:n], y[:n]).predict(X[n:]) - y[n:]) ** 2)))


def cell(kind: str, n: int, p: int, seeds: int, parameters: dict[str, Any]) -> str:
    """Return the mean scores of a model on a table."""
    found = []
    for seed in range(seeds):
        X, y = rows(kind, n, p, seed)
        began = time.perf_counter()
        dist = bdkn.BDKNRegressor(random_state=seed, n_jobs=1, **parameters).fit(X[:n], y[:n]).predict_dist(X[n:])
        took = time.perf_counter() - began
        found.append([bdkn.rmse(y[n:], dist), bdkn.nll(y[n:], dist), 100 * bdkn.coverage(y[n:], dist, 0.9), took])
    rmse, nll, held, seconds = np.mean(found, axis=0)
    return f"{rmse:.2f} / {nll:.2f} / {held:.0f} % / {seconds:.1f} s"


def main() -> None:
    """Run all tables, print the results and, with ``--write``, write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = ["| table | LassoCV | " + " | ".join(MODELS) + " |", "| --- |" + " ---: |" * (1 + len(MODELS))]
    for kind, n, p in TABLES:
        lasso = np.mean([lasso_rmse(*rows(kind, n, p, seed), n) for seed in range(options.seeds)])
        cells = [cell(kind, n, p, options.seeds, parameters) for parameters in MODELS.values()]
        lines.append(f"| {kind}, {n} x {p} | {lasso:.2f} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if options.write:
        about = (__doc__ or "").split("\n\n")[2].replace("\n", " ")
        head = ["# Tables with many columns", "", f"`python benchmarks/wide_tables.py --write`. {about}", ""]
        cells_are = "Each cell: RMSE / NLL / observed coverage of 90 % intervals / seconds of a fit."
        page = [*head, cells_are, "", f"Machine: {describe_machine()}", "", *lines]
        (RECORDS / "wide_tables.md").write_text("\n".join(page) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
