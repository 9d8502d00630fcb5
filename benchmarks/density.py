"""The shape of predictions on development sets: the Student-t alone against its mixture with neighbours' densities.

``python benchmarks/density.py [--sets NAME ...]`` fits each set once with ``density="student-t"``, learns the shape for
the same fit, and writes NLL, CRPS, RMSE and coverage of held-back rows, and the cost of predictions, to
benchmarks/records/density.json and .md. Scores are means over two splits, and in units of the target.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path

import numpy as np

from bdkn import BayesianStackingRegressor, BDKNRegressor
from bdkn.data.training_data import TrainingData
from bdkn.predictive import Predictive
from development_sets import LARGER, SMALL

RECORDS = Path(__file__).parent / "records"
SPLITS = 2
LEVELS = (0.5, 0.9, 0.95)


def scores(dist: Predictive, y: np.ndarray) -> dict[str, float]:
    """Return the scores of predictions."""
    pit = dist.cdf(y)
    covered = {f"held {level:g}": float(np.mean(np.abs(pit - 0.5) < level / 2.0)) for level in LEVELS}
    rmse = float(np.sqrt(np.mean((dist.mean() - y) ** 2)))
    return {"nll": -float(dist.logpdf(y).mean()), "crps": float(dist.crps(y).mean()), "rmse": rmse, **covered}


def seconds(function, repeats: int = 1) -> float:
    """Return the CPU seconds of one call, after another one."""
    function()
    begin = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - begin) / repeats


def divide(n: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the rows to fit to, and of a fifth of all rows, which is held back."""
    order = np.random.default_rng(100 + split).permutation(n)
    return order[n // 5 :], order[: n // 5]


def with_shape(
    alone: BDKNRegressor | BayesianStackingRegressor, X: np.ndarray, y: np.ndarray
) -> BDKNRegressor | BayesianStackingRegressor:
    """Return a model that was fitted to these rows with the Student-t alone, with the shape of predictions learned."""
    mixed = copy.copy(alone).set_params(density="auto")
    data = TrainingData.read(alone, X, y, former=alone.model_.reader)
    table = data.encoded.X
    mixed.model_ = alone.model_.with_training_rows(table, None, data.sets, density=True, n_jobs=alone.n_jobs)
    return mixed


def trial(X: np.ndarray, y: np.ndarray, split: int) -> dict[str, object]:
    """Return scores and costs of one split, a fifth of whose rows is held back."""
    train, test = divide(len(y), split)
    alone = BDKNRegressor(random_state=split, n_jobs=1, density="student-t").fit(X[train], y[train])
    begin = time.process_time()
    mixed = with_shape(alone, X[train], y[train])
    found = {"shape": mixed.density_ is not None, "fit seconds": time.process_time() - begin}
    for name, model in (("student-t", alone), ("auto", mixed)):
        found[name] = scores(model.predict_dist(X[test]), y[test])
        found[name]["one row, µs"] = 1e6 * seconds(lambda model=model: model.predict_interval(X[test[:1]]), 50)
        many = seconds(lambda model=model: model.predict_interval(X[test]))
        found[name]["of many rows, µs"] = 1e6 * many / len(test)
    return found


def mean_of(trials: list[dict]) -> dict[str, object]:
    """Return the means of trials."""
    first = trials[0]
    return {
        key: mean_of([t[key] for t in trials]) if isinstance(value, dict) else float(np.mean([t[key] for t in trials]))
        for key, value in first.items()
    }


def table(found: dict[str, dict]) -> str:
    """Return the record as a page."""
    keys = ("nll", "crps", "rmse", *(f"held {level:g}" for level in LEVELS), "one row, µs", "of many rows, µs")
    lines = [
        "# The shape of predictions on development sets",
        "",
        "`python benchmarks/density.py`: Student-t → mixture, means of two splits, a fifth of the rows held back.",
        "Shape: share of the splits in which the mixture was chosen. Costs are CPU time of 90 % intervals. None of",
        "these sets is in the benchmark.",
        "",
        "| set | rows | shape | " + " | ".join(keys) + " | learning, s |",
        "| --- |" + " ---: |" * (len(keys) + 3),
    ]
    for name, one in found.items():
        pairs = [f"{one['student-t'][key]:.4g} → {one['auto'][key]:.4g}" for key in keys]
        cells = [name, f"{one['rows']:.0f}", f"{one['shape']:g}", *pairs, f"{one['fit seconds']:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    gain = np.mean([one["auto"]["nll"] - one["student-t"]["nll"] for one in found.values()])
    crps = np.mean([one["auto"]["crps"] / one["student-t"]["crps"] for one in found.values()])
    held = [np.mean([one["auto"][f"held {level:g}"] for one in found.values()]) for level in LEVELS]
    shares = ", ".join(f"{share:.3f}" for share in held)
    lines += ["", f"Means: NLL {gain:+.3f}, CRPS times {crps:.3f}, held {shares}.", ""]
    return "\n".join(lines)


def main() -> None:
    """Run all sets, or those named, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=[*SMALL, *LARGER])
    found = {}
    for name in parser.parse_args().sets:
        X, y = (SMALL | LARGER)[name]()
        found[name] = {"rows": len(y) - len(y) // 5, **mean_of([trial(X, y, split) for split in range(SPLITS)])}
        print(name, json.dumps(found[name]["auto"]), flush=True)
        (RECORDS / "density.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        (RECORDS / "density.md").write_text(table(found), encoding="utf-8")


if __name__ == "__main__":
    main()
