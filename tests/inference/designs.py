"""Small regression problems, and comparisons of two statistics."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from bdkn.inference import (
    Prior,
    Statistics,
    choose_prior_variance,
    combination,
    compiled,
    posterior,
    published_combination,
    weights,
)


def problem(rows=30, weights=4, seed=0, noise=0.3):
    """Return Φ, y and the generator they came from."""
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(rows, weights))
    return Phi, Phi @ rng.normal(size=weights) + noise * rng.normal(size=rows), rng


@st.composite
def problems(draw, min_rows=1):
    """Draw (Φ, y, rng) of random size, column scales, noise level and offset; sometimes with equal columns."""
    rows, weights = draw(st.integers(min_rows, 15)), draw(st.integers(1, 4))
    noise = draw(st.sampled_from([0.0, 1e-6, 0.1, 10.0]))
    Phi, y, rng = problem(rows, weights, draw(st.integers(0, 2**32 - 1)), noise)
    if draw(st.booleans()):
        Phi[:, -1] = Phi[:, 0]
    return Phi * 10.0 ** rng.integers(-3, 4, weights), y + draw(st.sampled_from([0.0, 100.0])), rng


def average_weights(fitted, forecast, y, counts=None):
    """Return the posterior of the weights of a combination by the rows that it was fitted to."""
    return weights.average_weights(fitted, fitted.statistics(forecast, y, counts))


def fit_tails(dist, y, counts=None):
    """Return the tails of distributions under which targets have the highest mean log density."""
    share = None if counts is None else np.asarray(counts, dtype=float)
    return combination.fit_tails(dist.df, dist.loc, dist.scale, np.asarray(y, dtype=float), share)


def assert_same(one: Statistics, other: Statistics, rtol=1e-9, prior=None):
    """Assert that the two lead to the same posterior, in units of its own spread."""
    assert one.n == other.n
    np.testing.assert_allclose(one.sum_log_w, other.sum_log_w, rtol=1e-12, atol=1e-12)
    prior = prior or Prior.isotropic(one.n_weights, 2.0, mean=0.5, a0=1.0, b0=0.5)
    p, q = posterior(one, prior), posterior(other, prior)
    np.testing.assert_allclose(p.b, q.b, rtol=rtol)
    spread = np.sqrt(np.diag(q.scale_matrix))
    np.testing.assert_allclose(p.mean / spread, q.mean / spread, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(p.scale_matrix, q.scale_matrix, rtol=rtol, atol=rtol * np.outer(spread, spread).max())


def published_without_compiled_code(*chunks, prior_variance="paper"):
    """Return the published model of all chunks by their statistics."""
    with compiled(False):
        return published_combination(chunks, prior_variance)


def published_posterior(stats, method="paper"):
    """Return the posterior of the published method, step by step."""
    return posterior(stats, Prior.isotropic(stats.n_weights, choose_prior_variance(stats, method)))
