"""Leave-one-out in closed form against fitting without each row."""

from __future__ import annotations

import numpy as np
import pytest
from designs import problem
from hypothesis import given
from hypothesis import strategies as st

from bdkn.errors import ImproperPosteriorError
from bdkn.inference import Prior, Statistics, posterior


def without(i, Phi, y, w, counts, prior):
    """Return the predictive of row i from a fit in which one of its observations is missing."""
    fewer = counts.astype(float)
    fewer[i] -= 1
    post = posterior(Statistics.from_rows(Phi, y, precision=w, counts=fewer), prior)
    return post.predictive(Phi[i : i + 1], 1 / w[i])


def assert_left_out(Phi, y, w, counts, prior, rtol):
    post = posterior(Statistics.from_rows(Phi, y, precision=w, counts=counts), prior)
    fast = post.leave_one_out(Phi, y, w)
    slow = [without(i, Phi, y, w, counts, prior) for i in range(len(y))]
    scale = np.concatenate([dist.scale for dist in slow])
    np.testing.assert_allclose(fast.df, slow[0].df[0], rtol=1e-14)
    np.testing.assert_allclose(fast.scale, scale, rtol=rtol)
    np.testing.assert_allclose(fast.loc / scale, np.concatenate([dist.loc for dist in slow]) / scale, atol=10 * rtol)
    np.testing.assert_allclose(fast.logpdf(y), [dist.logpdf(t)[0] for dist, t in zip(slow, y, strict=True)], atol=1e-6)


@st.composite
def rows(draw):
    """Draw (Φ, y, w, counts, prior): with an intercept or without, sometimes with nearly equal members."""
    n, H = draw(st.integers(2, 12)), draw(st.integers(1, 4))
    Phi, y, rng = problem(n, H, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([0.1, 1.0, 10.0])))
    if draw(st.booleans()):
        Phi[:, -1] = Phi[:, 0] + draw(st.sampled_from([0.0, 1e-9, 1e-3])) * rng.normal(size=n)
    if draw(st.booleans()):
        Phi = np.column_stack([Phi, np.ones(n)])
    w = np.exp(rng.normal(size=n)) if draw(st.booleans()) else np.ones(n)
    counts = rng.integers(1, 4, n) if draw(st.booleans()) else np.ones(n, int)
    prior = Prior.isotropic(Phi.shape[1], draw(st.sampled_from([0.01, 1.0, 100.0])), mean=rng.normal(size=Phi.shape[1]))
    return Phi, y, w, counts, prior


@given(rows())
def test_each_row_is_predicted_as_by_a_fit_without_it(data):
    assert_left_out(*data, rtol=1e-8)


def test_a_proper_prior_on_the_noise():
    Phi, y, rng = problem(rows=3, weights=2)
    prior = Prior(rng.normal(size=2), np.diag([0.5, 3.0]), a0=2.0, b0=0.7)
    assert_left_out(Phi, y, np.ones(3), np.ones(3), prior, rtol=1e-11)


@pytest.mark.parametrize("variance", [1e3, 1e8])
def test_a_row_that_alone_decides_about_a_member(variance):
    Phi, y, _ = problem(rows=8, weights=3)
    Phi[:, 2] = 0.0
    Phi[3, 2] = 1.0
    assert_left_out(Phi, y, np.ones(8), np.ones(8), Prior.isotropic(3, variance), rtol=1e-6)


@pytest.mark.parametrize("variance", [1e16, 1e20, 1e40])
def test_nothing_is_known_about_a_row_of_leverage_one(variance):
    Phi, y, _ = problem(rows=8, weights=3)
    Phi[:, 2] = 0.0
    Phi[3, 2] = 1.0
    post = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(3, variance))
    fast = post.leave_one_out(Phi, y)
    assert np.isfinite(fast.logpdf(y)).all()
    assert fast.scale[3] > 1e6 * np.median(fast.scale)
    others = np.delete(np.arange(8), 3)
    slow = [without(i, Phi, y, np.ones(8), np.ones(8), post.prior) for i in others]
    np.testing.assert_allclose(fast.scale[others], [dist.scale[0] for dist in slow], rtol=1e-8)
    np.testing.assert_allclose(fast.loc[others], [dist.loc[0] for dist in slow], rtol=1e-8)


def test_the_sum_of_log_scores_is_below_the_fit_and_above_nothing():
    Phi, y, _ = problem(rows=40)
    post = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(4, 1.0))
    seen, unseen = post.predictive(Phi).logpdf(y).sum(), post.leave_one_out(Phi, y).logpdf(y).sum()
    assert unseen < seen


def test_a_single_observation_leaves_nothing_to_predict_from():
    post = posterior(Statistics.from_rows(np.ones((1, 1)), [2.0]), Prior.isotropic(1, 1.0))
    with pytest.raises(ImproperPosteriorError, match=r"a₋ᵢ = aₙ - ½ must exceed zero .*; aₙ is 0\.5: add rows"):
        post.leave_one_out(np.ones((1, 1)), [2.0])


def test_a_row_that_counts_less_than_once_is_removed_no_more_than_that():
    rng = np.random.default_rng(5)
    Phi, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    Phi[0], y[1] = 40.0, 60.0  # one of high leverage, one far off
    w, counts = rng.uniform(0.5, 2.0, 30), rng.choice([0.01, 0.05, 0.5, 1.0, 3.0], 30)
    counts[:2] = 0.05, 0.01
    prior = Prior.isotropic(3, 2.0)
    found = posterior(Statistics.from_rows(Phi, y, precision=w, counts=counts), prior).leave_one_out(Phi, y, w, counts)
    for i in range(30):
        fewer = counts.copy()
        fewer[i] = max(counts[i] - 1.0, 0.0)
        without = posterior(Statistics.from_rows(Phi, y, precision=w, counts=fewer), prior)
        alone = without.predictive(Phi[[i]], 1.0 / w[i])
        assert found.loc[i] == pytest.approx(alone.loc[0], rel=1e-8, abs=1e-8)
        assert found.scale[i] == pytest.approx(alone.scale[0], rel=1e-8)
        assert found.df[i] == pytest.approx(alone.df[0], rel=1e-12)
