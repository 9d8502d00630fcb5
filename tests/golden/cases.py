"""Small fits whose predictions are stored in this folder, so that no change of the code changes numbers unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from numba.core.registry import cpu_target
from threadpoolctl import threadpool_info

import bdkn

ROWS = 80

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training rows, targets and weights, and rows to predict, of which some lie outside the data."""
    generator = np.random.default_rng(7)
    X = generator.normal(size=(ROWS, 3)) * [1.0, 20.0, 0.01] + [0.0, 5.0, 1.0]
    y = 30.0 + 4.0 * np.sin(2.0 * X[:, 0]) + 0.1 * X[:, 1] + generator.normal(size=ROWS) * (0.2 + 0.3 * np.abs(X[:, 0]))
    return X, y, generator.uniform(0.5, 2.0, size=ROWS), X[:12] * 1.5


def _stack() -> Any:
    networks = [
        ("one", bdkn.DeepEnsembleRegressor(n_members=2, epochs=30)),
        ("two", bdkn.BDKNRegressor(n_members=2, epochs=30)),
    ]
    return bdkn.BayesianStackingRegressor(networks, random_state=3)


def _paper(name: str, setting: int = 1, **others: Any) -> Callable[[], Any]:
    return lambda: getattr(bdkn, name).from_paper(setting, random_state=3, **others)


CASES: dict[str, Callable[[], Any]] = {
    "bdkn-default": lambda: bdkn.BDKNRegressor(random_state=3),
    "bdkn-small": lambda: bdkn.BDKNRegressor(n_members=3, hidden_layer_sizes=(9,), epochs=50, random_state=3),
    "bdkn-hold-out": lambda: bdkn.BDKNRegressor(n_members=3, design="hold-out", epochs=50, random_state=3),
    "bdkn-refit": lambda: bdkn.BDKNRegressor(n_members=3, predict_with="refit", epochs=50, random_state=3),
    "bdkn-mse": lambda: bdkn.BDKNRegressor(n_members=2, objective="mse", epochs=50, random_state=3),
    "bdkn-stopped": lambda: bdkn.BDKNRegressor(
        n_members=2, training=bdkn.TrainingOptions(early_stopping=True), epochs=60, random_state=3
    ),
    "bdkn-paper-1": _paper("BDKNRegressor"),
    "bdkn-paper-2": _paper("BDKNRegressor", 2, n_members=3, epochs=100),
    "ensemble-default": lambda: bdkn.DeepEnsembleRegressor(n_members=4, epochs=60, random_state=3),
    "ensemble-paper-1": _paper("DeepEnsembleRegressor"),
    "ensemble-paper-2": _paper("DeepEnsembleRegressor", 2, n_members=3, epochs=100),
    "stack": _stack,
    "stack-default": lambda: bdkn.BayesianStackingRegressor(random_state=3),
}

SAVED = ("bdkn-small", "bdkn-paper-1", "ensemble-default", "stack")
"""Cases whose model is kept as well: one of each class, and the published method."""

WEIGHTED = ("bdkn-hold-out", "ensemble-default")
"""Cases fitted with sample weights."""


def fitted(name: str) -> Any:
    """Return the fitted model of a case."""
    X, y, weight, _ = table()
    return CASES[name]().fit(X, y, **({"sample_weight": weight} if name in WEIGHTED else {}))


def predictions(model: Any) -> dict[str, np.ndarray]:
    """Return what a model predicts, in every form that is kept."""
    rows = table()[3]
    dist = model.predict_dist(rows)
    found = {
        "mean": dist.mean(),
        "std": dist.std(),
        "quantiles": dist.ppf(np.array([0.05, 0.5, 0.95])),
        "logpdf": dist.logpdf(np.full(len(rows), 30.0)),
        "covariance": model.predict(rows, return_cov=True)[1],
        "draws": model.sample_y(rows, 2, random_state=1),
    }
    if hasattr(model, "predict_var"):
        parts = model.predict_var(rows, decompose=True)
        found |= {f"variance {name}": part for name, part in parts.items() if name != "outside" or part.any()}
        found["weights"] = model.weights_
    return {name: np.ascontiguousarray(part) for name, part in found.items()}


def fingerprint() -> str:
    """Return what the last bits depend on: the width of vectors, as libraries see it, and the versions of libraries."""
    blas = sorted({one["architecture"] for one in threadpool_info() if "architecture" in one})
    _, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    # tests/on_avx2.py names a CPU and no features
    bits = 512 if "+avx512f" in features else 256 if "+avx2" in features or (cpu, features) == ("haswell", "") else 128
    return " ".join([f"{bits}-bit", *blas, *(f"{name}-{version(name)}" for name in _LIBRARIES)])
