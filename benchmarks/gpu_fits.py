"""Whole fits on a GPU, for ``benchmarks/gpu.py``: the paper's columns, and default fits of large tables.

Data sets that are not in the folder of data are replaced by random rows of the same size: times are about the same,
scores mean nothing and are not recorded.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import bdkn
from bdkn.stages import StageTimer, observe_stages

EXPERIMENTS = Path(__file__).parent.parent / "reproduction" / "experiments"
SETS = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "sarcos", "wine", "yacht")
"""The ten sets whose times of the paper are compared elsewhere, too; Song has one split, and a fit of its own."""

SMALL_SETS = ("boston", "concrete", "energy", "kin8nm", "power", "wine", "yacht")

Found = dict[str, Any]


def paper_column(setting: int, name: str, engine: Any, folder: str | None, at_once: int, scale: float) -> Found:
    """Fit all splits of a set as the paper does, several at once; return the seconds, and the scores of real data."""
    from bdkn_paper.experiments.experiment import load_experiment
    from bdkn_paper.paper.printed import runtimes

    experiment = load_experiment(EXPERIMENTS / f"setting{setting}.toml")
    source = experiment.source(folder)
    cells = experiment.cells(source, methods=["bdkn"], datasets=[name])
    printed = runtimes().get((setting, name, "bdkn"))
    return {**_column(cells, source, engine, at_once, scale), "minutes printed": printed}


def _column(cells: Sequence[Any], source: Any, engine: Any, at_once: int, scale: float) -> Found:
    """Fit the splits of one set on threads, so that the device trains networks of several splits side by side."""
    from bdkn_paper.experiments.methods import make_regressor

    task, is_real = _task(source, cells[0].dataset, len(cells))
    some = cells[: max(1, round(scale * len(cells)))]

    def fit(cell: Any) -> tuple[float, float]:
        train, test = task.splits[cell.split]
        train, test = train[: max(40, int(scale * len(train)))], test[: max(10, int(scale * len(test)))]
        model = make_regressor(cell, n_jobs=1).set_params(engine=engine)
        if scale < 1:
            model.set_params(epochs=2)
        dist = model.fit(task.X[train], task.y[train]).predict_dist(task.X[test])
        return bdkn.rmse(task.y[test], dist), bdkn.nll(task.y[test], dist)

    fit(some[0])  # compiled code is loaded
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        scores = np.array(list(pool.map(fit, some)))
    found = {"seconds": time.perf_counter() - began, "splits": len(some), "rows": len(task.splits[0][0])}
    mean = {"rmse": float(scores[:, 0].mean()), "nll": float(scores[:, 1].mean())} if is_real else {}
    return {**found, "data": "real" if is_real else "random rows of the same size", **mean}


def _task(source: Any, name: str, n_splits: int) -> tuple[Any, bool]:
    """Return the rows and splits of a set, random ones if the set is not there."""
    from bdkn_paper.data import DATASETS
    from bdkn_paper.experiments.tasks import Task

    try:
        return source.load(name), True
    except (bdkn.BDKNError, OSError):
        about, rng = DATASETS[name], np.random.default_rng(0)
        n = about.train_size + about.test_size
        X, y = random_rows(n, about.features)
        orders = [rng.permutation(n) for _ in range(n_splits)]
        return Task(X, y, [(order[: about.train_size], order[about.train_size :]) for order in orders]), False


def random_rows(n: int, columns: int) -> tuple[Any, Any]:
    """Return random inputs, and a target that depends on three of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns))
    return X, np.tanh(X[:, 0] + X[:, 1] * X[:, 2]) + 0.3 * rng.normal(size=n)


EVERY_MEMBER = bdkn.CombinationOptions(select_members=False)

FITS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "default fit, 45 730 x 9 (as Protein)": (45_730, 9, {}),
    "default fit, 463 715 x 90 (as Song)": (463_715, 90, {}),
    "1000 members, 506 x 13 (as Boston)": (506, 13, {"n_members": 1000, "combination": EVERY_MEMBER}),
}
"""Rows, columns and parameters of whole fits."""


def whole_fit(name: str, engine: Any, scale: float) -> Found:
    """Return the seconds of a fit, and of each of its stages."""
    n, columns, parameters = FITS[name]
    X, y = random_rows(max(60, int(scale * n)), columns)
    tiny = {"epochs": 2, "n_members": 3} if scale < 1 else {}
    for some in (200, 5000):  # compiled code is loaded
        bdkn.BDKNRegressor(n_members=4, epochs=2, engine=engine, n_jobs=-1).fit(X[:some], y[:some])
    model = bdkn.BDKNRegressor(**{**parameters, **tiny}, random_state=0, engine=engine, n_jobs=-1)
    timer, began = StageTimer(), time.perf_counter()
    with observe_stages(timer), timer("other"):
        model.fit(X, y)
    took, stages = time.perf_counter() - began, dict(timer.seconds)
    return {"seconds": took, "stages": stages, "rows": len(X), "members in use": len(model.member_names_)}
