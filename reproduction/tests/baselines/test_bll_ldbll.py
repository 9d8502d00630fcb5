"""Bayesian last layers against dense algebra, scikit-learn, and functions drawn from their posterior."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sine import quick, table
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

from bdkn.data.rows import Rows
from bdkn.inference import Prior, Statistics, log_evidence
from bdkn_paper import BLLRegressor, LDBLLRegressor
from bdkn_paper.baselines.feature_map import FeatureMap
from bdkn_paper.baselines.learners import derivatives
from bdkn_paper.baselines.learners.descent import descend
from bdkn_paper.baselines.learners.evidence import LEAST_NOISE, EvidenceLearner, LinearModel
from bdkn_paper.baselines.learners.features import TorchFeatures
from bdkn_paper.baselines.plan import Plan

X, y = table()
NEW, _ = table(8, seed=1)

DOUBLE = torch.empty(0, dtype=torch.float64)
tensor = partial(torch.tensor, dtype=torch.float64)

RNG = np.random.default_rng(0)
PHI, TARGET = RNG.normal(size=(12, 4)), RNG.normal(size=12)


@pytest.mark.parametrize("t", [0.01, 1.0, 50.0])
def test_the_evidence_with_the_noise_integrated_out(t):
    model = LinearModel.of(tensor(PHI), tensor(TARGET), tensor(t))
    expected = log_evidence(Statistics.from_rows(PHI, TARGET), Prior.isotropic(4, t, b0=12 * LEAST_NOISE / 2))
    assert float(model.log_evidence(None)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_the_evidence_of_known_noise(noise):
    model = LinearModel.of(tensor(PHI), tensor(TARGET), tensor(0.7 / noise))
    covariance = noise * np.eye(12) + 0.7 * PHI @ PHI.T
    expected = multivariate_normal(np.zeros(12), covariance).logpdf(TARGET)
    assert float(model.log_evidence(tensor(noise))) == pytest.approx(expected, rel=1e-9)


def test_a_linear_model_of_known_noise_is_scikit_learns_process():
    settings = {"hidden_layer_sizes": (), "head": "gaussian", "noise": 0.3, "prior_variance": 0.5}
    model = quick(BLLRegressor, **settings, early_stopping=False, epochs=1).fit(X, y)
    kernel = ConstantKernel(0.5) * DotProduct(sigma_0=1.0)
    theirs = GaussianProcessRegressor(kernel, alpha=0.3, optimizer=None).fit(
        model._scaled(X), model.targets_.transform(y)
    )
    mean, covariance = theirs.predict(model._scaled(NEW), return_cov=True)
    scale = model.targets_.scale
    got_mean, got_covariance = model.predict(NEW, return_cov=True)
    np.testing.assert_allclose(got_mean, model.targets_.mean + scale * mean, rtol=1e-6)
    np.testing.assert_allclose(got_covariance, scale**2 * (covariance + 0.3 * np.eye(len(NEW))), rtol=1e-6, atol=1e-9)
    assert type(model.predict_dist(NEW)).__name__ == "Gaussian"
    assert model.noise_variance_ == pytest.approx(0.3 * scale**2)


def test_the_student_head_is_the_textbooks():
    model = quick(BLLRegressor, early_stopping=False).fit(X, y)
    z, target = model._scaled(X), model.targets_.transform(y)
    design = [np.column_stack([model.features_(rows), np.ones(len(rows))]) for rows in (z, model._scaled(NEW))]
    prior = model.posterior_.prior.precision
    precision = prior + design[0].T @ design[0]
    mean = np.linalg.solve(precision, design[0].T @ target)
    a, b = len(y) / 2, (target @ target - mean @ precision @ mean) / 2 + len(y) * LEAST_NOISE / 2
    spread = b / a * (1 + np.einsum("nd,de,ne->n", design[1], np.linalg.inv(precision), design[1]))
    dist, scaler = model.predict_dist(NEW), model.targets_
    np.testing.assert_allclose(dist.df, len(y))
    np.testing.assert_allclose(dist.loc, scaler.mean + scaler.scale * design[1] @ mean, rtol=1e-6)
    np.testing.assert_allclose(dist.scale, scaler.scale * np.sqrt(spread), rtol=1e-5)


def test_the_loss_is_the_evidence_of_the_features_before_the_step():
    model = quick(BLLRegressor, early_stopping=False, epochs=1, learning_rate=1e-12).fit(X, y)
    design = np.column_stack([model.features_(model._scaled(X)), np.ones(len(y))])
    stats = Statistics.from_rows(design, model.targets_.transform(y))
    expected = log_evidence(stats, Prior.isotropic(9, 1.0, b0=len(y) * LEAST_NOISE / 2))
    assert model.loss_curve_[0] == pytest.approx(-expected / len(y), rel=1e-6)


def test_stale_weights_are_those_of_the_features_a_step_ago():
    before, after, stale = (
        quick(BLLRegressor, early_stopping=False, learning_rate=0.1, prior_variance=1.0, **kw).fit(X, y)
        for kw in ({"epochs": 4}, {"epochs": 5}, {"epochs": 5, "stale_weights": True})
    )
    np.testing.assert_array_equal(stale.posterior_.mean, before.posterior_.mean)
    np.testing.assert_array_equal(stale.features_(X), after.features_(X))
    assert not np.allclose(stale.predict(X), after.predict(X))


@pytest.mark.parametrize("noise", [None, 0.3])
@pytest.mark.parametrize("stale", [False, True])
def test_rows_held_out_are_judged_as_they_would_be_predicted(noise, stale):
    features = TorchFeatures(FeatureMap.draw((3, 6), "tanh", np.random.default_rng(0), linear_last=False), DOUBLE)
    rows, other = (Rows(RNG.normal(size=(n, 3)), RNG.normal(size=n)) for n in (15, 9))
    learner = EvidenceLearner(rows, other, features, DOUBLE, noise=noise, prior_variance="learned", stale=stale)
    descend(learner, Plan(learning_rate=0.05, epochs=7))
    design = np.column_stack([features.frozen()(other.X), np.ones(9)])
    expected = -learner.posterior().predictive(design).logpdf(other.y).mean()
    assert learner.held_out_nll() == pytest.approx(expected, rel=1e-9)


@pytest.mark.no_cover
def test_stale_weights_cost_accuracy_at_the_rate_of_setting_1():
    fresh, stale = (
        [
            BLLRegressor.from_paper(1, stale_weights=flag, random_state=k, n_jobs=1).fit(X, y).score(X, y)
            for k in range(8)
        ]
        for flag in (False, True)
    )
    assert np.median(stale) < np.median(fresh)


def test_unit_noise_decides_the_papers_scores():
    """With unit noise the NLL is that of a standard normal around the mean, however good the mean is."""
    paper, fitted = (
        BLLRegressor.from_paper(1, random_state=0, n_jobs=1, stale_weights=False, **kw).fit(X, y)
        for kw in ({}, {"noise": "learned"})
    )
    scale = paper.targets_.scale
    rmse = np.sqrt(np.mean((y - paper.predict(X)) ** 2)) / scale
    assert rmse < 0.3
    artefact = np.log(2 * np.pi) / 2 + np.log(scale) + rmse**2 / 2
    assert -paper.log_score(X, y) == pytest.approx(artefact, abs=0.15)
    assert fitted.log_score(X, y) > paper.log_score(X, y) + 1


def random_map(activation="tanh", widths=(2, 6, 5)):
    return FeatureMap.draw(widths, activation, np.random.default_rng(0))


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh", "silu"])
def test_jacobians_are_central_differences(activation):
    features, x, step = random_map(activation), RNG.normal(size=(4, 2)), 1e-6
    J = features.derivatives(x)
    for j in range(2):
        h = step * np.eye(2)[j]
        np.testing.assert_allclose(J[:, :, j], (features(x + h) - features(x - h)) / (2 * step), atol=1e-8)
    φ, same = TorchFeatures(features, DOUBLE).with_derivatives(tensor(x))
    np.testing.assert_allclose(φ.detach(), features(x))
    np.testing.assert_allclose(same.detach(), J.transpose(0, 2, 1))


def test_the_derivative_is_that_of_functions_drawn_from_the_posterior():
    model = quick(LDBLLRegressor, activation="silu", early_stopping=False).fit(X, y)
    weights, _ = model.posterior_.draw(40_000, np.random.default_rng(0))
    h = 1e-4 * X.std(axis=0)

    def functions(rows):
        scaled = (rows - model.inputs_.mean) / model.inputs_.scale  # in double precision, which differences need
        design = np.column_stack([model.features_(scaled), np.ones(len(rows))])
        return model.targets_.scale * design @ weights.T

    mean, std = model.predict_derivative(NEW[:2])
    for j in range(3):
        e = h[j] * np.eye(3)[j]
        slopes = (functions(NEW[:2] + e) - functions(NEW[:2] - e)) / (2 * h[j])
        np.testing.assert_allclose(slopes.mean(axis=1), mean[:, j], atol=4 * std[:, j].max() / 200)
        np.testing.assert_allclose(slopes.std(axis=1), std[:, j], rtol=0.03)


def prior(features, places, **others):
    settings = {"beta": 1.0, "variance": 0.5, "jitter": 0.0, "rows": None} | others
    return derivatives.DerivativePrior(features, places, generator=torch.Generator().manual_seed(0), **settings)


def test_the_penalty_is_the_divergence_of_gaussians():
    features, places = TorchFeatures(random_map(), DOUBLE), tensor(RNG.normal(size=(7, 2)))
    design = torch.cat([features(places), torch.ones(7, 1)], dim=1)
    model = LinearModel.of(design, tensor(RNG.normal(size=7)), tensor(2.0))
    J = random_map().derivatives(places.numpy())
    J = np.concatenate([J, np.zeros((7, 1, 2))], axis=1)
    precision = (model.L @ model.L.T).detach().numpy()
    mean = np.einsum("ndp,d->np", J, model.μ.detach().numpy())
    variance = 0.3 * np.einsum("ndp,de,nep->np", J, np.linalg.inv(precision), J)
    N = torch.distributions.Normal
    divergence = torch.distributions.kl_divergence(
        N(tensor(0.0), tensor(0.5).sqrt()), N(tensor(mean), tensor(variance).sqrt())
    )
    penalty = prior(features, places, beta=0.2)(model, tensor(0.3))
    assert float(penalty.detach()) == pytest.approx(0.2 * float(divergence.sum()) / 7, rel=1e-9)


def test_chunks_change_neither_the_penalty_nor_its_gradient(monkeypatch):
    def penalty_and_gradient():
        features, places = TorchFeatures(random_map(), DOUBLE), tensor(np.random.default_rng(1).normal(size=(9, 2)))
        design = torch.cat([features(places), torch.ones(9, 1)], dim=1)
        model = LinearModel.of(design, tensor(np.arange(9.0)), tensor(2.0))
        penalty = prior(features, places, jitter=0.1)(model, tensor(0.3))
        return penalty, torch.autograd.grad(penalty, features.parameters())

    whole, gradient = penalty_and_gradient()
    monkeypatch.setattr(derivatives, "_BLOCK_CELLS", 24)
    parts, same = penalty_and_gradient()
    torch.testing.assert_close(parts, whole)
    for one, other in zip(same, gradient, strict=True):
        torch.testing.assert_close(one, other)


def test_without_weight_the_prior_is_not_there():
    plain = quick(BLLRegressor).fit(X, y)
    same = quick(LDBLLRegressor, beta=0, **{name: plain.get_params()[name] for name in ("hidden_layer_sizes",)}).fit(
        X, y
    )
    np.testing.assert_array_equal(same.predict_dist(NEW).scale, plain.predict_dist(NEW).scale)
    np.testing.assert_array_equal(same.predict(NEW), plain.predict(NEW))


def test_by_default_the_prior_weighs_as_much_as_a_row():
    settings = {"early_stopping": False, "epochs": 5}
    default, told = (quick(LDBLLRegressor, **settings, **beta).fit(X, y) for beta in ({}, {"beta": 1 / len(y)}))
    np.testing.assert_array_equal(default.predict(NEW), told.predict(NEW))


def test_the_prior_makes_the_derivative_less_certain():
    settings = {"early_stopping": False, "epochs": 100, "hidden_layer_sizes": (16,)}
    plain = quick(BLLRegressor, **settings).fit(X, y)
    wide = quick(LDBLLRegressor, **settings, beta=0.1, derivative_variance=1.0).fit(X, y)
    assert wide.predict_derivative(NEW)[1].mean() > 2 * plain.predict_derivative(NEW)[1].mean()
