"""Choose the preset ``effort="fast"``: scores and processor seconds of smaller sizes, beside CatBoost's.

    pip install -e '.[bench]' catboost
    python benchmarks/effort.py [--larger] [--only NAME ...] [--write]

On the development sets, split as in ``benchmarks/defaults.py``, with one thread. Seconds are those of the processor,
which other work on the machine does not lengthen much. ``--write`` writes the scores to results/effort.json, and the
table to results/effort.md; what is in the file already is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bdkn
from bdkn.report.environment import describe_machine
from bdkn.training.settings import default_size
from development_sets import LARGER, SMALL

RESULTS = Path(__file__).parent.parent / "results"
Scores = dict[str, float]
Fit = Callable[[np.ndarray, np.ndarray, int], Any]


def networks(X: np.ndarray, y: np.ndarray, seed: int, *, members: float, epochs: float, folds: int = 5) -> Any:
    """Return ``BDKNRegressor`` with shares of the default numbers of members and epochs."""
    size = default_size(len(y))
    numbers = {"n_members": max(2, round(members * size.n_members)), "epochs": max(1, round(epochs * size.epochs))}
    return bdkn.BDKNRegressor(random_state=seed, n_jobs=1, n_folds=folds, **numbers).fit(X, y).predict_dist


def catboost(X: np.ndarray, y: np.ndarray, seed: int, *, stop: bool) -> Any:
    """Return CatBoost's Gaussian with its default settings, or stopped early on a tenth of the rows."""
    from catboost import CatBoostRegressor

    more = {"iterations": 2000, "early_stopping_rounds": 50, "use_best_model": True} if stop else {}
    tenth = len(y) // 10 if stop else 0
    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        thread_count=1,
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
        **more,
    ).fit(X[tenth:], y[tenth:], eval_set=(X[:tenth], y[:tenth]) if stop else None)

    def predict(rows: np.ndarray) -> bdkn.predictive.Gaussian:
        mean, variance = model.predict(rows, prediction_type="RMSEWithUncertainty").T
        return bdkn.predictive.Gaussian(mean, np.sqrt(variance))

    return predict


VARIANTS: dict[str, Fit] = {
    "CatBoost": partial(catboost, stop=False),
    "CatBoost, stopped early": partial(catboost, stop=True),
    "balanced": partial(networks, members=1, epochs=1),
    "all members, a quarter of the epochs": partial(networks, members=1, epochs=0.25),
    "half of the members and of the epochs": partial(networks, members=0.5, epochs=0.5),
    "a third of the members, half of the epochs (fast)": partial(networks, members=1 / 3, epochs=0.5),
    "the same with three folds": partial(networks, members=1 / 3, epochs=0.5, folds=3),
}


def scores(fit: Fit, X: np.ndarray, y: np.ndarray, splits: int) -> list[Scores]:
    """Return the scores of every split, with targets in units of their standard deviation in the training rows."""
    found, rng = [], np.random.default_rng(0)
    for split in range(splits):
        train, test = np.split(rng.permutation(len(y)), [int(0.85 * len(y))])
        unit, began = float(y[train].std()), time.process_time()
        predict = fit(X[train], y[train] / unit, split)
        took = time.process_time() - began
        target, dist = y[test] / unit, predict(X[test])
        found.append({"rmse": bdkn.rmse(target, dist), "nll": bdkn.nll(target, dist), "cpu": took})
    return found


def row(name: str, mine: dict[str, list[Scores]], found: dict[str, Any]) -> str:
    """Return one row of the table: means over sets, and how often CatBoost is worse and by what factor slower."""

    def mean(scored: list[Scores], key: str) -> float:
        return float(np.mean([score[key] for score in scored]))

    sets = [each for each in mine if all(each in found[rival] for rival in ("CatBoost", "CatBoost, stopped early"))]
    ratios = [mean(mine[each], "cpu") / mean(found["CatBoost"][each], "cpu") for each in sets]
    best = [min(mean(found[rival][each], "nll") for rival in found if rival.startswith("CatBoost")) for each in sets]
    below = sum(mean(mine[each], "nll") < score for each, score in zip(sets, best, strict=True))
    nll, cpu = (np.mean([mean(mine[each], key) for each in sets]) for key in ("nll", "cpu"))
    return f"| {name} | {nll:.3f} | {below} of {len(sets)} | {cpu:.2f} | {np.median(ratios):.2f} |"


def page(records: dict[str, Any]) -> str:
    """Return the tables."""
    lines = [
        "# What less effort costs and saves",
        "",
        "`python benchmarks/effort.py --write`. " + (__doc__ or "").split("\n\n")[2].replace("\n", " ").strip(),
        "",
        f"Machine: {records['machine']}",
    ]
    head = "| variant | mean NLL | NLL below CatBoost's better one | mean CPU s | CPU / CatBoost's, median |"
    for group, found in records["scores"].items():
        lines += ["", f"## {group}", "", head, "| --- | ---: | ---: | ---: | ---: |"]
        lines += [row(name, found[name], found) for name in VARIANTS if name in found]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the variants that are not recorded yet, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--larger", action="store_true", help="the larger sets, one split each")
    parser.add_argument("--only", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    group, sets = ("Larger sets", LARGER) if options.larger else ("Small sets", SMALL)
    path = RESULTS / "effort.json"
    records = json.loads(path.read_text()) if path.exists() else {"scores": {}}
    records.setdefault("machine", describe_machine())
    found = records["scores"].setdefault(group, {})
    warnings.simplefilter("ignore")
    for name in options.only:
        mine = found.setdefault(name, {})
        for dataset, rows in sets.items():
            if dataset not in mine:
                mine[dataset] = scores(VARIANTS[name], *rows(), splits=1 if options.larger else 2)
                if options.write:
                    path.write_text(json.dumps(records, indent=1) + "\n")
        print(name, flush=True)
    if options.write:
        (RESULTS / "effort.md").write_text(page(records))


if __name__ == "__main__":
    main()
