"""One cell from rows to record."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from bdkn.errors import check_choice
from bdkn.inference import Combination
from bdkn.metrics import calibration_error, coverage, crps, interval_width, nll, rmse
from bdkn.networks import Networks
from bdkn.predictive import Predictive
from bdkn.regressors import TorchRegressor
from bdkn.regressors.paper import SETS
from bdkn.report.environment import hardware, versions
from bdkn.typing import FloatArray
from bdkn_paper.experiments.epoch_curves import check_curves, epoch_curves, torch_curves, watched
from bdkn_paper.experiments.machine import accelerator, peak_memory_mib
from bdkn_paper.experiments.methods import METHODS
from bdkn_paper.experiments.stopwatch import Stopwatch
from bdkn_paper.experiments.tasks import Task
from bdkn_paper.peers import Peer
from bdkn_paper.store.cell import Cell
from bdkn_paper.store.record import Record

LEVELS = (50, 90, 95)
"""Percentages at which coverage and width of the central intervals are recorded."""

_FITTED = {
    "dof": "dof_",
    "prior_scale": "prior_variance_",
    "evidence": "evidence_",
    "noise": "noise_variance_",
    "iterations": "iterations_",
}


def evaluate(cell: Cell, task: Task, n_jobs: int = 1, device: str | None = None) -> Record:
    """Return the record of a cell, of its failure if it fails.

    ``n_jobs`` is how many threads the fit may use: it changes the time and nothing else. ``device`` is where a
    regressor that can choose computes: there it may draw other random numbers, and rounds otherwise.
    """
    record: Record = {"cell": cell.as_dict(), "status": "done"}
    means: dict[str, Any] = {"n_jobs": n_jobs}
    if has_device(cell):  # with all cores, PyTorch's steps are to say themselves whether they are worth several
        means = {"n_jobs": None if n_jobs == -1 else n_jobs, **({"device": device} if device else {})}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            record |= _outcome(cell, task, **means)
        except Exception:
            record |= {"status": "failed", "traceback": _anywhere(traceback.format_exc())}
    return record | {
        "warnings": sorted({str(warning.message) for warning in caught}),
        "memory_mib": peak_memory_mib(),
        "versions": versions(getattr(METHODS.get(cell.regressor), "packages", ())),
        "hardware": hardware() | accelerator(means.get("device")) | {"threads": effective_n_jobs(n_jobs)},
    }


def _anywhere(trace: str) -> str:
    """Return a traceback without the folders of this machine: files from the package or its neighbours on."""
    return re.sub(r'File "[^"]*/(?=(?:bdkn|bdkn_paper|site-packages)/)', 'File "', trace)


def has_device(cell: Cell) -> bool:
    """Tell whether the cell's regressor can be told where to compute."""
    return issubclass(METHODS.get(cell.regressor, object), TorchRegressor)


def regressor(cell: Cell, **others: Any) -> Any:
    """Return the cell's unfitted regressor."""
    check_choice("regressor", cell.regressor, METHODS)
    cls = METHODS[cell.regressor]
    parameters = {**cell.parameters, "random_state": cell.random_state, **others}
    if not cell.base:
        return cls(**parameters)
    named = issubclass(cls, TorchRegressor) and cell.dataset.removesuffix("-clean") in SETS
    place = {"dataset": cell.dataset} if named else {}  # setting 2 differs between data sets
    return cls.from_paper(cell.base["from_paper"], **place, **parameters)


def metrics(y: FloatArray, dist: Predictive) -> dict[str, float]:
    """Return all that is recorded of a prediction."""
    return {
        "rmse": rmse(y, dist),
        "nll": nll(y, dist),
        "crps": crps(y, dist),
        **{f"coverage_{level}": coverage(y, dist, level / 100) for level in LEVELS},
        **{f"width_{level}": interval_width(dist, level / 100) for level in LEVELS},
        "calibration_error": calibration_error(y, dist),
    }


def _outcome(cell: Cell, task: Task, **means: Any) -> Record:
    train, test = task.splits[cell.split]
    X, y, X_test, y_test = task.X[train], task.y[train], task.X[test], task.y[test]
    model, curves = regressor(cell, **means), cell.kind == "curves"
    _warm_up(model)
    if curves:
        check_curves(model)
    trained_by_torch = isinstance(model, TorchRegressor)
    with watched(model, X, X_test) if curves and not trained_by_torch else nullcontext() as seen:
        dist, seconds = _timed(model, X, y, X_test)
    record = {
        "rows": {"train": len(y), "test": len(y_test)},
        "metrics": metrics(y_test, dist),
        "model": _fitted(model),
        "seconds": seconds,
    }
    if not curves:
        return record
    rows = (X, y), (X_test, y_test)
    return record | {"curves": torch_curves(model, *rows) if seen is None else epoch_curves(model, seen, *rows)}


def _timed(model: Any, X: FloatArray, y: FloatArray, X_test: FloatArray) -> tuple[Predictive, dict[str, float]]:
    """Fit, predict and return how long each took."""
    fit, predict = Stopwatch(), Stopwatch()
    with _parts(fit, model), fit.part("other"):
        model.fit(X, y)
    closed_form = predict.watching(Combination, "predictive", "aggregate")
    with predict.watching(Networks, "outputs", "forward"), closed_form, predict.part("other"):
        dist = model.predict_dist(X_test)
    times = {"fit": sum(fit.seconds.values())}
    times |= {label: spent for label, spent in fit.seconds.items() if label != "other"}
    times["predict"] = sum(predict.seconds.values())
    times |= {f"predict_{label}": spent for label, spent in predict.seconds.items() if label != "other"}
    return dist, times


@contextmanager
def _parts(stopwatch: Stopwatch, model: Any) -> Iterator[None]:
    """Count separately the training, the forward passes, and the combination of what networks say."""
    with ExitStack() as stack:
        stack.enter_context(stopwatch.watching(Networks, "outputs", "forward"))
        for method, label in (("_train", "train"), ("_combine", "aggregate"), ("_combined", "aggregate")):
            if hasattr(model, method):
                stack.enter_context(stopwatch.watching(model, method, label))
        yield


def _fitted(model: Any) -> dict[str, Any]:
    """Return what the model learned besides its networks."""
    found: dict[str, Any] = {}
    if hasattr(model, "ensemble_"):
        found |= {"members": len(model.ensemble_), "epochs": int(model.n_iter_)}
    elif isinstance(model, TorchRegressor):
        found["epochs"] = model.n_iter_
    found |= {
        name: float(getattr(model, attribute)) for name, attribute in _FITTED.items() if hasattr(model, attribute)
    }
    return found | ({"weights": np.asarray(model.weights_).tolist()} if hasattr(model, "weights_") else {})


def _warm_up(model: Any) -> None:
    """Load libraries and what is compiled before time is taken: once a process, not once a fit."""
    if isinstance(model, Peer):
        model.library()
    if isinstance(model, TorchRegressor):
        model.load_packages()
    if getattr(model, "engine", None) == "fused":
        from bdkn.inference import published
        from bdkn.training.fused import engine

        engine.prepare()
        published.prepare()
