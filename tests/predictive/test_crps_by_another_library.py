"""The closed forms of the CRPS compared with those of scoringrules."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from bdkn.predictive import Gaussian, GaussianMixture, StudentT

RNG = np.random.default_rng(0)
LOC, SCALE, Y = RNG.normal(size=50), np.exp(RNG.normal(size=50)), 3 * RNG.normal(size=50)


@pytest.fixture(scope="module")
def scoringrules():
    """Return the library with its formulas in NumPy: it would compile all of its functions as it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numba", None)
        import scoringrules

    return scoringrules


@pytest.mark.no_cover
def test_gaussian(scoringrules):
    np.testing.assert_allclose(Gaussian(LOC, SCALE).crps(Y), scoringrules.crps_normal(Y, LOC, SCALE), rtol=1e-12)


@pytest.mark.parametrize("df", [0.7, 1.5, 2.0, 4.6, 30.0, 1e4])
def test_student_t(scoringrules, df):
    expected = scoringrules.crps_t(Y, df, LOC, SCALE)
    np.testing.assert_allclose(StudentT(df, LOC, SCALE).crps(Y), expected, rtol=1e-8)


def test_mixture(scoringrules):
    loc, scale = RNG.normal(size=(50, 7)), np.exp(RNG.normal(size=(50, 7)))
    weights = RNG.dirichlet(np.ones(7), 50)
    expected = scoringrules.crps_mixnorm(Y, loc, scale, weights)
    np.testing.assert_allclose(GaussianMixture(loc, scale, weights).crps(Y), expected, rtol=1e-10)


def test_far_away_it_is_the_distance():
    for dist in (Gaussian([0.0], 1.0), StudentT(3.0, [0.0], 1.0), GaussianMixture([[0.0, 1.0]], 1.0)):
        assert dist.crps(1e200)[0] == pytest.approx(1e200)
