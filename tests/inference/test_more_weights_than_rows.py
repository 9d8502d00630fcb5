"""The linear model with more weights than rows, against the way through statistics of all weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from bdkn.inference import Combination, Forecast, Prior, Spectrum, Statistics, combine
from bdkn.inference import few_rows as module
from bdkn.inference.few_rows import FewRows
from bdkn.inference.posterior import posterior

N, H = 14, 40


@pytest.fixture(autouse=True)
def _few_weights_suffice(monkeypatch):
    """Take the way of these tests from 30 weights on: the other one takes seconds with the usual number."""
    monkeypatch.setattr(module, "_MANY", 30)


def members(n=N, H=H, seed=0, spread=0.5):
    """Return what members predict for rows, and the targets."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    means = truth[:, None] + spread * rng.normal(size=(n, H))
    variances = rng.uniform(0.05, 0.5, size=(n, H))
    return Forecast.of(means, variances), truth + 0.2 * rng.normal(size=n)


def with_all_weights(monkeypatch, *arguments, **options) -> Combination:
    with monkeypatch.context() as patch:
        patch.setattr(module, "_MANY", 10**9)
        return combine(*arguments, **options)


def compare(found, expected, rtol=1e-6):
    for name in ("tempering", "prior_variance", "evidence", "score", "noise_level"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=rtol, err_msg=name)
    np.testing.assert_allclose(found.posterior.mean, expected.posterior.mean, rtol=rtol, atol=rtol / H)
    np.testing.assert_allclose(found.posterior.b, expected.posterior.b, rtol=rtol)
    precisions = [one.posterior.root.T @ one.posterior.root for one in (found, expected)]
    np.testing.assert_allclose(*precisions, rtol=rtol, atol=rtol * np.abs(precisions[1]).max())


@pytest.mark.no_cover
@pytest.mark.parametrize("options", [{}, {"tempering": 0.7}, {"prior_variance": 0.01}, {"prior_variance": "paper"}])
def test_the_combination_is_that_of_all_weights(options, monkeypatch):
    forecast, y = members()
    compare(combine(forecast, y, **options), with_all_weights(monkeypatch, forecast, y, **options))


def test_rows_that_count_several_times(monkeypatch):
    forecast, y = members(seed=1)
    counts = np.random.default_rng(2).uniform(0.2, 3.0, size=N)
    compare(combine(forecast, y, counts), with_all_weights(monkeypatch, forecast, y, counts))


def test_equal_members_and_equal_rows(monkeypatch):
    forecast, y = members(seed=3)
    means = np.repeat(forecast.means[:, :8], 5, axis=1)
    means[N // 2 :] = means[: N // 2]
    forecast = Forecast.of(means, np.full_like(means, 0.1))
    compare(combine(forecast, y), with_all_weights(monkeypatch, forecast, y))


@pytest.mark.no_cover
def test_members_that_are_exactly_right_need_the_longer_way(monkeypatch):
    forecast, _ = members(seed=4)
    y = forecast.means.mean(axis=1)
    found, expected = combine(forecast, y), with_all_weights(monkeypatch, forecast, y)
    assert found.evidence == expected.evidence == np.inf
    assert found.posterior.b == expected.posterior.b == 0.0


def test_the_spectrum_is_that_of_the_rows():
    forecast, y = members(seed=5)
    rng = np.random.default_rng(6)
    w, c, μ0 = rng.uniform(0.5, 2.0, N), rng.uniform(0.5, 2.0, N), rng.normal(size=H)
    few = FewRows.of(forecast.means, y, μ0)
    found, expected = (
        few.spectrum(w, c),
        Spectrum.of(Statistics.from_rows(forecast.means, y, precision=w, counts=c), μ0),
    )
    np.testing.assert_allclose(found.s, expected.s, rtol=1e-10)
    np.testing.assert_allclose(np.abs(found.c), np.abs(expected.c), rtol=1e-7, atol=1e-9)
    for t in (1e-3, 1.0, 30.0):
        np.testing.assert_allclose(found.log_evidence(t), expected.log_evidence(t), rtol=1e-10)


def test_the_evidence_is_a_multivariate_t_density():
    forecast, y = members(seed=7)
    t, Phi = 0.02, forecast.means
    spectrum = FewRows.of(Phi, y, np.zeros(H)).spectrum(np.ones(N), None)
    covariance = np.eye(N) + t * Phi @ Phi.T
    a, b = N / 2.0, y @ np.linalg.solve(covariance, y) / 2.0
    log_gamma = gammaln(a)
    expected = log_gamma - a * np.log(b) - a * np.log(2.0 * np.pi) - np.linalg.slogdet(covariance)[1] / 2.0
    np.testing.assert_allclose(spectrum.log_evidence(t), expected, rtol=1e-10)


def test_the_posterior_is_that_of_all_weights():
    forecast, y = members(seed=8)
    w, prior = np.random.default_rng(9).uniform(0.5, 2.0, N), Prior.shrinking(np.full(H, 1.0 / H), 0.3)
    μ, root, a, b = FewRows.of(forecast.means, y, prior.mean).condition(w, None, prior)
    expected = posterior(Statistics.from_rows(forecast.means, y, precision=w), prior)
    np.testing.assert_allclose(μ, expected.mean, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose([a, b], [expected.a, expected.b], rtol=1e-10)
    np.testing.assert_allclose(root.T @ root, expected.root.T @ expected.root, rtol=1e-8, atol=1e-10)


def test_few_weights_or_more_rows_take_the_plain_way():
    forecast, y = members(n=200)
    assert FewRows.of(forecast.means, y, np.zeros(H)) is None
    assert FewRows.of(forecast.means[:10, :20], y[:10], np.zeros(20)) is None
