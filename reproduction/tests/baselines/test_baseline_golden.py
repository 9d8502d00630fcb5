"""Fits of the baselines give the numbers they gave when the files in ``golden`` were written.

On a machine like that one, with the same libraries, every bit is the same. Elsewhere sums are taken in another order,
and the rounding error of single precision, 6e-8, grows with the steps of training: hence TOLERANCE. To write the files
anew, where numbers are meant to change: python reproduction/tests/baselines/test_baseline_golden.py
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from numba.core.registry import cpu_target
from safetensors.numpy import load_file, save_file
from threadpoolctl import threadpool_info

from bdkn_paper.baselines import BASELINES

FOLDER = Path(__file__).parent / "golden"
TOLERANCE = 2e-2
ROWS = 80
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "gpytorch", "pyro-ppl", "vbll")

CASES = {
    f"{cls.paper_name}-{settings}": (cls, settings)
    for cls in BASELINES.values()
    for settings in ("default", "paper-1", "paper-2")
}


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return training rows, targets, and rows to predict, some of them outside of the training rows."""
    generator = np.random.default_rng(7)
    X = generator.normal(size=(ROWS, 3)) * [1.0, 20.0, 0.01] + [0.0, 5.0, 1.0]
    y = 30.0 + 4.0 * np.sin(2.0 * X[:, 0]) + 0.1 * X[:, 1] + generator.normal(size=ROWS) * (0.2 + 0.3 * np.abs(X[:, 0]))
    return X, y, X[:12] * 1.5


def predictions(name: str) -> dict[str, np.ndarray]:
    """Return the predictions of a fitted case, in every form that is stored."""
    cls, settings = CASES[name]
    common = {"epochs": 25, "random_state": 3}
    if settings == "default":
        model = cls(**common, **({} if cls.paper_name == "gp" else {"hidden_layer_sizes": (8,)}))
    else:
        model = cls.from_paper(int(settings[-1]), "boston", **common)
    X, y, rows = table()
    dist = model.fit(X, y).predict_dist(rows)
    found = {
        "mean": dist.mean(),
        "std": dist.std(),
        "quantiles": dist.ppf(np.array([0.05, 0.5, 0.95])),
        "logpdf": dist.logpdf(np.full(len(rows), 30.0)),
        "covariance": model.predict(rows, return_cov=True)[1],
        "draws": model.sample_y(rows, 2, random_state=1),
    }
    return {key: np.ascontiguousarray(part) for key, part in found.items()}


def fingerprint() -> str:
    """Return what the last bits depend on: the processor as libraries see it, and their versions."""
    blas = sorted({one["architecture"] for one in threadpool_info() if "architecture" in one})
    _, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    vectors = [name for name in ("avx2", "avx512f") if f"+{name}" in features.split(",")]
    return " ".join([cpu, *vectors, *blas, *(f"{name}-{version(name)}" for name in LIBRARIES)])


@pytest.mark.no_cover
@pytest.mark.parametrize("name", CASES)
def test_a_fit_gives_the_stored_numbers(name: str) -> None:
    found, stored = predictions(name), load_file(FOLDER / f"{name}.safetensors")
    exact = fingerprint() == json.loads((FOLDER / "made-with.json").read_text())["fingerprint"]
    assert found.keys() == stored.keys()
    for key, numbers in stored.items():
        if key == "draws" and not exact:
            continue  # the root of a covariance, through which they are drawn, is unique up to signs only
        tolerance = 0.0 if exact else TOLERANCE
        atol = tolerance * np.abs(numbers).max()
        np.testing.assert_allclose(found[key], numbers, rtol=tolerance, atol=atol, err_msg=key)


if __name__ == "__main__":
    for case in CASES:
        save_file(predictions(case), FOLDER / f"{case}.safetensors")
    (FOLDER / "made-with.json").write_text(json.dumps({"fingerprint": fingerprint()}) + "\n")
