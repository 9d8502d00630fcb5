"""Run one cell: from the rows of a data set to a record."""

from __future__ import annotations

import re
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from bdkn.environment import hardware, versions
from bdkn.estimators import BayesianStackingRegressor
from bdkn.metrics import calibration_error, coverage, crps, interval_width, nll, rmse
from bdkn.predictive import Predictive
from bdkn.stages import StageTimer, observe_stages
from bdkn.typing import FloatArray
from bdkn_paper.baselines import TorchRegressor
from bdkn_paper.experiments.epoch_curves import check_curves, epoch_curves, torch_curves, watched
from bdkn_paper.experiments.machine import accelerator, peak_memory_mib
from bdkn_paper.experiments.methods import METHODS, has_device, make_regressor, warm_up
from bdkn_paper.experiments.tasks import Task
from bdkn_paper.rivals import Rival
from bdkn_paper.store import Cell, Record

LEVELS = (50, 90, 95)
"""Levels, in per cent, at which coverage and width of the central intervals are recorded."""

FIT_STAGES = {
    "train": "train",
    "predict held-out rows": "forward",
    "predict members": "forward",
    "combine": "aggregate",
}
"""Stages of a fit that ``bdkn`` reports, and the part of ``seconds`` that each belongs to."""

PREDICT_STAGES = {"predict members": "predict_forward", "predict": "predict_aggregate"}
"""The same for a prediction."""

FITTED = {
    "dof": "dof_",
    "prior_scale": "prior_variance_",
    "evidence": "evidence_",
    "noise": "noise_variance_",
    "iterations": "iterations_",
}
"""Facts about a fitted model by their name in records, and the attribute of the regressor that holds each."""


def evaluate(cell: Cell, task: Task, n_jobs: int = 1, device: str | None = None) -> Record:
    """Return the record of a cell, also if its fit fails.

    ``n_jobs`` is the number of threads of the fit, which changes nothing but its time. ``device`` is where a regressor
    with that parameter computes; there it may draw other random numbers, and rounding differs.
    """
    record: Record = {"cell": cell.as_dict(), "status": "done"}
    means: dict[str, Any] = {"n_jobs": n_jobs}
    if has_device(cell):  # if all cores are free, PyTorch decides how many threads are worthwhile
        means = {"n_jobs": None if n_jobs == -1 else n_jobs, **({"device": device} if device else {})}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            record |= _result(cell, task, **means)
        except Exception:
            record |= {"status": "failed", "traceback": _without_folders(traceback.format_exc())}
    return record | {
        "warnings": sorted({str(warning.message) for warning in caught}),
        "memory_mib": peak_memory_mib(),
        "versions": versions(getattr(METHODS.get(cell.regressor), "packages", ())) | record.get("versions", {}),
        "hardware": hardware() | accelerator(means.get("device")) | {"threads": effective_n_jobs(n_jobs)},
    }


def metrics(y: FloatArray, dist: Predictive) -> dict[str, float]:
    """Return the metrics of a record."""
    return {
        "rmse": rmse(y, dist),
        "nll": nll(y, dist),
        "crps": crps(y, dist),
        **{f"coverage_{level}": coverage(y, dist, level / 100) for level in LEVELS},
        **{f"width_{level}": interval_width(dist, level / 100) for level in LEVELS},
        "calibration_error": calibration_error(y, dist),
    }


def timed(work: Callable[[], Any], total: str, stages: Mapping[str, str]) -> tuple[Any, dict[str, float]]:
    """Return the result of ``work``, the seconds it took under the name ``total``, and those of its ``stages``.

    Seconds of the processor, of all threads of this process, have the name ``total`` and "_cpu".
    """
    timer, began = StageTimer(), time.process_time()
    with observe_stages(timer), timer("other"):
        result = work()
    spent_cpu = time.process_time() - began
    parts: dict[str, float] = defaultdict(float)
    for stage, spent in timer.seconds.items():
        if stage in stages:
            parts[stages[stage]] += spent
    return result, {total: sum(timer.seconds.values()), f"{total}_cpu": spent_cpu, **parts}


def _result(cell: Cell, task: Task, **means: Any) -> Record:
    train, test = task.splits[cell.split]
    X, y, X_test, y_test = task.X[train], task.y[train], task.X[test], task.y[test]
    model, curves = make_regressor(cell, **means), cell.kind == "curves"
    warm_up(model)
    if curves:
        check_curves(model)
    trained_by_torch = isinstance(model, TorchRegressor)
    with watched(model, X, X_test) if curves and not trained_by_torch else nullcontext() as seen:
        _, fit_seconds = timed(lambda: model.fit(X, y), "fit", FIT_STAGES)
        if isinstance(model, Rival):
            fit_seconds["fit_cpu"] = model.cpu_seconds_
        elif isinstance(model, BayesianStackingRegressor) and effective_n_jobs(model.n_jobs) > 1:
            del fit_seconds["fit_cpu"]  # its members are fitted by other processes, whose seconds are not known
        dist, predict_seconds = timed(lambda: model.predict_dist(X_test), "predict", PREDICT_STAGES)
    record = {
        "rows": {"train": len(y), "test": len(y_test)},
        "metrics": metrics(y_test, dist),
        **_student_t_alone(model, X_test, y_test),
        "model": _fitted(model),
        "seconds": fit_seconds | predict_seconds,
        **({"versions": model.versions_} if isinstance(model, Rival) else {}),
    }
    if not curves:
        return record
    rows = (X, y), (X_test, y_test)
    return record | {"curves": torch_curves(model, *rows) if seen is None else epoch_curves(model, seen, *rows)}


def _student_t_alone(model: Any, X: FloatArray, y: FloatArray) -> dict[str, dict[str, float]]:
    """Return the metrics of the same model without the densities of neighbours, under "student_t", if it has any."""
    if getattr(model, "density_", None) is None:
        return {}
    return {"student_t": metrics(y, model.without_shape().predict_dist(X))}


def _fitted(model: Any) -> dict[str, Any]:
    """Return what the model learned besides its networks."""
    found: dict[str, Any] = {}
    if hasattr(model, "ensemble_"):
        found |= {"members": len(model.ensemble_), "epochs": int(model.n_iter_)}
    elif isinstance(model, TorchRegressor):
        found["epochs"] = model.n_iter_
    found |= {name: float(getattr(model, attribute)) for name, attribute in FITTED.items() if hasattr(model, attribute)}
    return found | ({"weights": np.asarray(model.weights_).tolist()} if hasattr(model, "weights_") else {})


def _without_folders(trace: str) -> str:
    """Return a traceback in which paths begin at the package or at ``site-packages``."""
    return re.sub(r'File "[^"]*/(?=(?:bdkn|bdkn_paper|site-packages)/)', 'File "', trace)
