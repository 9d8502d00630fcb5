"""Elementary functions of compiled code, against NumPy and SciPy in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np
import pytest
from scipy.special import expit

from bdkn.kernels import dense as elementary

ULP = float(np.finfo(np.float32).eps)


def in_a_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    @nb.njit(error_model="numpy")
    def loop(x, out):
        for i in range(len(x)):
            out[i] = function(x[i])

    return loop


@pytest.mark.parametrize(
    ("name", "truth", "x"),
    [
        ("exp", np.exp, np.linspace(-86, 87, 100001)),
        ("log", np.log, np.geomspace(1e-7, 1e30, 100001)),
        ("log1p", np.log1p, np.geomspace(1e-12, 1, 100001)),
        ("sigmoid", expit, np.linspace(-80, 80, 100001)),
        ("softplus", lambda x: np.logaddexp(x, 0), np.linspace(-80, 80, 100001)),
        ("tanh", np.tanh, np.linspace(-12, 12, 100001)),
    ],
)
def test_within_a_few_units_in_the_last_place(name: str, truth: Callable[[Any], Any], x: Any) -> None:
    x = x.astype(np.float32)
    out = np.empty_like(x)
    in_a_loop(getattr(elementary, name))(x, out)
    np.testing.assert_allclose(out, truth(x.astype(np.float64)), rtol=3 * ULP, atol=1e-37)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["exp", "softplus", "sigmoid", "tanh"])
def test_extremes_stay_finite(name: str) -> None:
    x = np.array([-np.inf, -1e38, -100, 0, 100, 1e38], dtype=np.float32)
    out = np.empty_like(x)
    in_a_loop(getattr(elementary, name))(x, out)
    assert np.all(np.isfinite(out))
    assert np.all(np.diff(out) >= 0)
