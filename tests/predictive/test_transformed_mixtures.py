"""Moments and CRPS of transformed mixtures with narrow components, against sums over many quantiles."""

from __future__ import annotations

import numpy as np
import pytest

from bdkn.predictive import ContinuedLink, IdentityLink, LogLink, StudentTMixture, Transformed

LEVELS = (np.arange(40_000) + 0.5) / 40_000
LINKS = {
    "bounded": IdentityLink(-4.0, 4.0),
    "one bound, which cuts a component": IdentityLink(-0.5, 40.0),
    "log": ContinuedLink(LogLink(-9.0), -8.0, 3.0),
}


def mixture(width, df=30.0):
    return StudentTMixture(df, [0.0, 0.3], 1.0, 0.1, [[-0.5, 1.3]] * 2, [[width, 2 * width]] * 2, [[0.45, 0.45]] * 2)


@pytest.mark.no_cover
@pytest.mark.parametrize("width", [0.3, 0.02, 0.002])
@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_narrow_components_are_not_missed(link, width):
    dist = Transformed(mixture(width), link, unit=2.0, shift=1.0)
    y = dist.ppf(LEVELS)
    np.testing.assert_allclose(dist.mean(), y.mean(axis=1), rtol=0.0, atol=3e-4 * dist.std().min())
    np.testing.assert_allclose(dist.var(), y.var(axis=1), rtol=1e-3)
    for at in (0.9, 3.6):
        pinball = 2 * ((at < y) - LEVELS) * (y - at)
        np.testing.assert_allclose(dist.crps(at), pinball.mean(axis=1), rtol=2e-3)


def test_a_row_is_predicted_the_same_alone_and_among_others():
    dist = Transformed(mixture(0.02), IdentityLink(-1.0, 1.0))
    for name in ("mean", "var", "median"):
        np.testing.assert_allclose(getattr(dist[:1], name)(), getattr(dist, name)()[:1], rtol=1e-12)


def test_it_is_the_mixture_itself_where_nothing_is_transformed():
    base = mixture(0.01, df=5.0)
    dist = Transformed(base, IdentityLink(-1e9, 1e9))
    np.testing.assert_allclose(dist.mean(), base.mean(), rtol=1e-6)
    np.testing.assert_allclose(dist.var(), base.var(), rtol=1e-5)
    np.testing.assert_allclose(dist.crps(0.4), base.crps(0.4), rtol=2e-3)
