"""Choose the preset ``effort="fast"``: scores and processor seconds of smaller sizes, beside CatBoost's.

    pip install -e '.[bench]' catboost
    python benchmarks/effort.py [--larger] [--only NAME ...] [--write]

On the development sets, split as in ``benchmarks/defaults.py``, with one thread. Seconds are those of the processor,
which other work on the machine does not lengthen much. ``--write`` writes the scores to benchmarks/records/effort.json,
and the table to benchmarks/records/effort.md; what is in the file already is not run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import bdkn
from bdkn.networks.settings import default_size
from variants import Found, Scores, page_head, run_variants, splits

Fit = Callable[[np.ndarray, np.ndarray, int], Any]


def networks(X: np.ndarray, y: np.ndarray, seed: int, *, members: float, epochs: float, folds: int = 5) -> Any:
    """Return ``BDKNRegressor`` with shares of the default numbers of members and epochs."""
    size = default_size(len(y))
    numbers = {"n_members": max(2, round(members * size.n_members)), "epochs": max(1, round(epochs * size.epochs))}
    return bdkn.BDKNRegressor(random_state=seed, n_jobs=1, cv=folds, **numbers).fit(X, y).predict_dist


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


def scores(fit: Fit, X: np.ndarray, y: np.ndarray, count: int) -> list[Scores]:
    """Return the scores of every split."""
    found = []
    for number, (train, (rows, target)) in enumerate(splits(X, y, count)):
        began = time.process_time()
        predict = fit(*train, number)
        took = time.process_time() - began
        dist = predict(rows)
        found.append({"rmse": bdkn.rmse(target, dist), "nll": bdkn.nll(target, dist), "cpu": took})
    return found


def row(name: str, found: Found) -> str:
    """Return one row of the table: means over sets, and how often CatBoost is worse and by what factor slower."""

    def mean(scored: list[Scores], key: str) -> float:
        return float(np.mean([score[key] for score in scored]))

    mine = found[name]
    sets = [each for each in mine if all(each in found[rival] for rival in ("CatBoost", "CatBoost, stopped early"))]
    ratios = [mean(mine[each], "cpu") / mean(found["CatBoost"][each], "cpu") for each in sets]
    best = [min(mean(found[rival][each], "nll") for rival in found if rival.startswith("CatBoost")) for each in sets]
    below = sum(mean(mine[each], "nll") < score for each, score in zip(sets, best, strict=True))
    nll, cpu = (np.mean([mean(mine[each], key) for each in sets]) for key in ("nll", "cpu"))
    return f"| {name} | {nll:.3f} | {below} of {len(sets)} | {cpu:.2f} | {np.median(ratios):.2f} |"


def page(records: dict[str, Any]) -> str:
    """Return the tables."""
    lines = page_head("effort", "What less effort costs and saves", __doc__ or "", records["machine"])
    head = "| variant | mean NLL | NLL below CatBoost's better one | mean CPU s | CPU / CatBoost's, median |"
    for group, found in records["scores"].items():
        lines += ["", f"## {group}", "", head, "| --- | ---: | ---: | ---: | ---: |"]
        lines += [row(name, found) for name in VARIANTS if name in found]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_variants("effort", __doc__ or "", VARIANTS, scores, lambda name, _: name, page)
