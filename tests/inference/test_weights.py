"""The posterior of the weights with their prior variance integrated out, against slow integration of the same model."""

from __future__ import annotations

import numpy as np
import pytest
from designs import average_weights
from scipy.integrate import quad
from scipy.special import gammaln

from bdkn.inference import Forecast, combine


def example(n=25, H=3, seed=0, apart=1.0, β=None):
    """Return a forecast of members that differ by ``apart``, and targets."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n, 1)) + apart * rng.normal(size=(n, H))
    weights = np.full(H, 1.0 / H) if β is None else np.asarray(β)
    return Forecast.of(means, np.full((n, H), 0.1)), means @ weights + 0.3 * rng.normal(size=n)


def dense(forecast, y, t):
    """Return log evidence, mean and shape of the weights for a prior variance, by dense algebra with constant noise."""
    n, H = forecast.means.shape
    Phi = np.column_stack([forecast.means, np.ones(n)])
    μ0 = np.append(np.full(H, 1.0 / H), 0.0)
    V = np.eye(n) + t * Phi @ Phi.T
    rest = y - Phi @ μ0
    b = rest @ np.linalg.solve(V, rest) / 2.0
    evidence = gammaln(n / 2) - n / 2 * np.log(2 * np.pi) - np.linalg.slogdet(V)[1] / 2 - n / 2 * np.log(b)
    mean = μ0 + t * Phi.T @ np.linalg.solve(V, rest)
    shape = b / (n / 2) * (t * np.eye(H + 1) - t**2 * Phi.T @ np.linalg.solve(V, Phi))
    return evidence, mean, shape


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("apart", [1.0, 0.1])
def test_it_is_the_integral_over_the_prior_variance(seed, apart):
    forecast, y = example(seed=seed, apart=apart)
    H = 3
    found = combine(forecast, y, tempering=0.0)
    weights = average_weights(found, forecast, y)
    σ2 = found.posterior.b / found.posterior.a
    top = max(dense(forecast, y, s**2 / σ2)[0] for s in np.geomspace(1e-4, 1.0, 50))

    def integral(of):
        """Return ∫ p(y | t) p(s) of(t) ds for s = σ√t, on the range of the grid."""

        def integrand(log_s):
            s = np.exp(log_s)
            evidence, mean, shape = dense(forecast, y, s**2 / σ2)
            return s / (1.0 + (s * H) ** 2) ** 2 * np.exp(evidence - top) * of(mean, shape)

        return quad(integrand, np.log(1e-4 / H), 0.0, epsabs=0.0, epsrel=1e-8, limit=400)[0]

    total = integral(lambda mean, shape: 1.0)
    β = found.weights
    expected = [integral(lambda mean, shape, h=h: shape[h, h] + (mean[h] - β[h]) ** 2) / total for h in range(H)]
    np.testing.assert_allclose(weights.marginals().scale ** 2, expected, rtol=0.02)
    one = quad(lambda log_s: np.exp(log_s) / (1 + (np.exp(log_s) * H) ** 2) ** 2, np.log(1e-4 / H), 0.0)[0]
    factor = np.log(total / one) + top - dense(forecast, y, 0.0)[0]
    assert weights.log_bayes_factor == pytest.approx(factor, abs=0.02)


def test_alike_members_have_wide_intervals_and_do_not_differ():
    forecast, y = example(n=300, apart=1e-3)
    found = combine(forecast, y)
    weights = average_weights(found, forecast, y)
    assert not weights.weights_identified
    lower, upper = weights.marginals().interval(0.95)
    assert np.all(upper - lower > 0.15)
    assert np.all(found.posterior.weights().scale[:3] < 0.01)  # given the prior variance of the highest evidence


@pytest.mark.no_cover
def test_members_of_different_quality_differ_and_intervals_cover():
    truth, held = np.array([0.8, 0.2, 0.0]), []
    for seed in range(40):
        forecast, y = example(n=200, seed=seed, β=truth)
        weights = average_weights(combine(forecast, y), forecast, y)
        assert weights.weights_identified
        lower, upper = weights.marginals().interval(0.9)
        held.append((lower <= truth) & (truth <= upper))
    assert 0.82 <= np.mean(held) <= 0.98


def test_rows_count():
    forecast, y = example(n=20)
    counts = np.random.default_rng(1).integers(0, 3, 20).astype(float)
    rows = np.repeat(np.arange(20), counts.astype(int))
    again = Forecast(forecast.means[rows], forecast.noise[rows], forecast.disagreement[rows])
    one = average_weights(combine(forecast, y, counts), forecast, y, counts)
    other = average_weights(combine(again, y[rows]), again, y[rows])
    np.testing.assert_allclose(one.scale_matrix, other.scale_matrix, rtol=1e-4)
    assert one.log_bayes_factor == pytest.approx(other.log_bayes_factor, abs=1e-4)


def test_members_that_are_exactly_right_have_certain_weights():
    forecast, _ = example(n=20)
    weights = average_weights(combine(forecast, y := forecast.means.mean(axis=1)), forecast, y)
    assert not weights.weights_identified
    assert np.isfinite(weights.scale_matrix).all()
