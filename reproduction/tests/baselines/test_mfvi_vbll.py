"""The variational methods on linear models, where the truth is known."""

import functools

import numpy as np
import pytest
import torch
from sine import quick, table

from bdkn.data.rows import Rows
from bdkn.predictive import GaussianMixture
from bdkn_paper import MFVIRegressor, VBLLRegressor
from bdkn_paper.baselines.feature_map import FeatureMap

MFVIRegressor.load_packages()
VBLLRegressor.load_packages()

import pyro  # noqa: E402

from bdkn_paper.baselines.learners.descent import descend  # noqa: E402
from bdkn_paper.baselines.learners.features import TorchFeatures  # noqa: E402
from bdkn_paper.baselines.learners.mean_field import MeanFieldLearner  # noqa: E402
from bdkn_paper.baselines.learners.variational_last_layer import LastLayerLearner  # noqa: E402
from bdkn_paper.baselines.plan import Plan  # noqa: E402

X, y = table()
NEW, _ = table(8, seed=1)

DOUBLE = torch.empty(0, dtype=torch.float64)
SEED = np.random.SeedSequence(0)


def linear_rows(correlation, n=60):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(n, 2)) @ np.linalg.cholesky([[1, correlation], [correlation, 1]]).T
    return Rows(A, A @ [0.8, -0.5] + 0.3 + 0.2 * rng.normal(size=n))


@pytest.mark.no_cover
@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_mean_field_finds_the_mean_and_the_conditional_variances_of_a_linear_model(correlation):
    """The best diagonal Gaussian for a Gaussian posterior N(m, Λ⁻¹) has mean m and variances 1/Λᵢᵢ."""
    rows, omega = linear_rows(correlation), 4.0
    start = FeatureMap("relu", ((np.zeros((1, 2)), np.zeros(1)),), linear_last=True)
    settings = {"batch_size": None, "prior_scale": omega, "initial_scale": 0.05}
    settings |= {"n_particles": 1, "n_samples": 5000}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        learner = MeanFieldLearner(rows, None, start, DOUBLE, SEED, **settings)
        for rate, epochs in ((0.05, 300), (0.005, 500), (0.0005, 500)):
            descend(learner, Plan(learning_rate=rate, epochs=epochs))
        networks = learner.draws()
    design = np.column_stack([rows.X, np.ones(len(rows.y))])
    precision = np.diag([2 / omega**2, 2 / omega**2, 1]) + design.T @ design / learner.noise
    mean = np.linalg.solve(precision, design.T @ rows.y / learner.noise)
    scale = 1 / np.sqrt(np.diag(precision))
    (W, b) = networks.layers[0]
    draws = np.column_stack([W[:, 0], b])
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.3 * scale.max())
    np.testing.assert_allclose(draws.std(axis=0), scale, rtol=0.1)
    assert np.abs(np.corrcoef(draws.T) - np.eye(3)).max() < 0.06
    assert learner.noise == pytest.approx(0.2**2, rel=0.5)


@pytest.mark.no_cover
def test_the_bound_is_below_the_evidence_and_touches_it_for_one_weight():
    """A diagonal Gaussian can be exactly the posterior of a single weight."""
    rows = Rows(np.zeros((20, 1)), np.random.default_rng(0).normal(1, 0.5, 20))  # the bias alone says something
    start = FeatureMap("relu", ((np.zeros((1, 1)), np.zeros(1)),), linear_last=True)
    settings = {"batch_size": None, "prior_scale": 1.0, "initial_scale": 0.1}
    settings |= {"n_particles": 1, "n_samples": 10}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        learner = MeanFieldLearner(rows, None, start, DOUBLE, SEED, **settings)
        for rate, epochs in ((0.05, 400), (0.003, 400)):
            descend(learner, Plan(learning_rate=rate, epochs=epochs))
        bound = -20 * np.mean([float(loss.detach()) for _ in range(2000) for loss in learner.losses()])
    covariance = learner.noise * np.eye(20) + 1.0
    evidence = (
        -(rows.y @ np.linalg.solve(covariance, rows.y) + np.linalg.slogdet(covariance)[1] + 20 * np.log(2 * np.pi)) / 2
    )
    assert bound == pytest.approx(evidence, abs=0.1)


@pytest.mark.parametrize("n_particles", [1, 3])
@pytest.mark.parametrize("batch_size", [None, 7])
def test_the_bound_and_its_gradient_are_pyros(n_particles, batch_size):
    from pyro.infer import Trace_ELBO

    rows, start = Rows(X, y), FeatureMap.draw((3, 4, 1), "tanh", np.random.default_rng(0), linear_last=True)
    settings = {"batch_size": batch_size, "prior_scale": 2.0, "initial_scale": 0.3, "n_samples": 1}
    learner = MeanFieldLearner(rows, None, start, DOUBLE, SEED, n_particles=n_particles, **settings)
    elbo = Trace_ELBO(n_particles, max_plate_nesting=0, vectorize_particles=n_particles > 1)
    batch = next(iter(learner.batches))
    theirs = functools.partial(elbo.differentiable_loss, learner.model, learner.guide, *batch)
    results = []
    for loss in (lambda: -learner.bound(*batch), theirs):
        with torch.random.fork_rng(), pyro.settings.context(module_local_params=True):
            torch.manual_seed(5)
            results.append((value := loss(), torch.autograd.grad(value, learner.parameters())))
    (ours, slopes), (pyros, their_slopes) = results
    assert ours.item() == pytest.approx(pyros.item(), rel=1e-10)
    for our, their in zip(slopes, their_slopes, strict=True):
        torch.testing.assert_close(our, their)


def test_predictions_are_the_mixture_of_the_networks_drawn():
    model = quick(MFVIRegressor, n_samples=7).fit(X, y)
    x, means = model._scaled(NEW), []
    for s in range(7):
        layers = tuple((W[s], b[s]) for W, b in model.networks_.layers)
        means.append(FeatureMap(model.activation, layers, linear_last=True)(x)[:, 0])
    scaler = model.targets_
    by_hand = GaussianMixture(np.transpose(means), np.sqrt(model.variance_)).affine(scaler.scale, scaler.mean)
    dist, at = model.predict_dist(NEW), model.predict(NEW) + 0.1
    assert dist.loc.shape == (8, 7)
    np.testing.assert_allclose(dist.logpdf(at), by_hand.logpdf(at))
    np.testing.assert_allclose(dist.mean(), scaler.mean + scaler.scale * np.mean(means, axis=0))


def test_a_batch_stands_for_all_rows():
    """The mean over all batches of the likelihood's part is that of the whole."""
    rows = Rows(np.zeros((10, 1)), np.arange(10.0))
    start = FeatureMap("relu", ((np.zeros((1, 1)), np.zeros(1)),), linear_last=True)
    losses = {}
    for size in (None, 5):
        learner = MeanFieldLearner(
            rows,
            None,
            start,
            DOUBLE,
            SEED,
            batch_size=size,
            prior_scale=1.0,
            initial_scale=1e-6,
            n_particles=1,
            n_samples=1,
        )
        losses[size] = np.mean([float(loss.detach()) for _ in range(300) for loss in learner.losses()])
    assert losses[5] == pytest.approx(losses[None], abs=0.05)


@pytest.mark.no_cover
def test_more_draws_a_step_are_the_same_bound_with_less_noise():
    rows, start = Rows(X, y), FeatureMap.draw((3, 4, 1), "tanh", np.random.default_rng(0), linear_last=True)
    losses = {}
    for n in (1, 25):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            settings = {"batch_size": None, "prior_scale": 1.0, "initial_scale": 0.3, "n_samples": 1}
            learner = MeanFieldLearner(rows, None, start, DOUBLE, SEED, n_particles=n, **settings)
            losses[n] = [float(loss.detach()) for _ in range(2500 // n) for loss in learner.losses()]
    error = np.std(losses[1]) / 50
    assert np.mean(losses[25]) == pytest.approx(np.mean(losses[1]), abs=6 * error)
    assert np.std(losses[25]) == pytest.approx(np.std(losses[1]) / 5, rel=0.3)


def last_layer(rows, seed=0, **others):
    features = TorchFeatures(FeatureMap("relu", ()), DOUBLE)
    settings = {"n_features": rows.X.shape[1], "batch_size": None, "parameterization": "dense", "prior_variance": 0.7}
    settings |= {"wishart_scale": 0.5, "dof": 1.0, "initial_noise": 0.3} | others
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LastLayerLearner(rows, None, features, DOUBLE, SEED, **settings)


def evidence(rows, noise, prior_variance):
    covariance = noise * np.eye(len(rows.y)) + prior_variance * rows.X @ rows.X.T
    return (
        -(
            rows.y @ np.linalg.solve(covariance, rows.y)
            + np.linalg.slogdet(covariance)[1]
            + len(rows.y) * np.log(2 * np.pi)
        )
        / 2
    )


def bound(learner, rows):
    """Return the package's bound as one of log p(y), without its prior of the noise."""
    (loss,) = learner.losses()
    noise = learner.frozen().noise
    prior_of_noise = -1.5 * np.log(noise) - learner.head.wishart_scale / (2 * noise)
    constant = rows.X.shape[1] / 2  # of the divergence, which the package leaves out
    return -len(rows.y) * float(loss.detach()) - prior_of_noise + constant


def test_the_bound_of_the_package_is_the_evidence_at_the_exact_posterior():
    rows, learner = linear_rows(0.5), last_layer(linear_rows(0.5))
    precision = np.eye(2) / 0.7 + rows.X.T @ rows.X / 0.3
    covariance = np.linalg.inv(precision)
    root = np.linalg.cholesky(covariance)
    with torch.no_grad():
        learner.head.W_mean.copy_(torch.tensor(covariance @ rows.X.T @ rows.y / 0.3)[None])
        learner.head.W_logdiag.copy_(torch.tensor(np.log(np.diag(root)))[None])
        learner.head.W_offdiag.copy_(torch.tensor(root)[None])
    assert learner.frozen().noise == pytest.approx(0.3)
    np.testing.assert_allclose(learner.frozen().covariance, covariance)
    assert bound(learner, rows) == pytest.approx(evidence(rows, 0.3, 0.7), rel=1e-9)
    with torch.no_grad():
        learner.head.W_mean += 0.1
    assert bound(learner, rows) < evidence(rows, 0.3, 0.7)


@pytest.mark.no_cover
def test_training_reaches_the_exact_posterior_of_a_linear_model():
    rows, learner = linear_rows(0.5), last_layer(linear_rows(0.5))
    for rate, epochs in ((0.05, 600), (0.005, 300)):
        descend(learner, Plan(learning_rate=rate, epochs=epochs))
    found = learner.frozen()
    precision = np.eye(2) / 0.7 + rows.X.T @ rows.X / found.noise
    np.testing.assert_allclose(found.covariance, np.linalg.inv(precision), rtol=0.02, atol=1e-4)
    np.testing.assert_allclose(found.mean, np.linalg.solve(precision, rows.X.T @ rows.y / found.noise), rtol=1e-3)
    assert bound(learner, rows) == pytest.approx(evidence(rows, found.noise, 0.7), abs=0.01)


@pytest.mark.parametrize("parameterization", ["dense", "diagonal"])
def test_predictions_are_the_packages(parameterization):
    rows = linear_rows(0.5)
    learner = last_layer(rows, parameterization=parameterization)
    descend(learner, Plan(learning_rate=0.05, epochs=20))
    with torch.no_grad():
        theirs = learner.head(torch.tensor(rows.X)).predictive
    mean, variance = learner.frozen().moments(rows.X)
    np.testing.assert_allclose(mean, theirs.mean[:, 0])
    np.testing.assert_allclose(variance, theirs.var[:, 0])


@pytest.mark.parametrize("parameterization", ["dense", "diagonal"])
def test_the_loss_and_its_gradient_are_the_packages(parameterization):
    rows = linear_rows(0.5)
    learner = last_layer(rows, parameterization=parameterization, wishart_scale=0.3, dof=2.0)
    (ours,), y = learner.losses(), torch.tensor(rows.y)[:, None]
    theirs = learner.head(torch.tensor(rows.X)).train_loss_fn(y)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)
    slopes = (torch.autograd.grad(loss, learner.parameters()) for loss in (ours, theirs))
    for our, their in zip(*slopes, strict=True):
        torch.testing.assert_close(our, their)


def test_the_noise_starts_where_it_is_told():
    assert last_layer(linear_rows(0.0), initial_noise=0.04).frozen().noise == pytest.approx(0.04)
    drawn = [last_layer(linear_rows(0.0), s, initial_noise=None, wishart_scale=1e-2).frozen().noise for s in range(20)]
    assert max(drawn) / min(drawn) > 1e4  # the package's own start


@pytest.mark.no_cover
def test_the_paper_settings_leave_a_noise_of_one_over_n_on_targets_that_hardly_vary():
    """The package's prior then stands for a sum of squares of one: that is the NLL printed for Naval."""
    A, b = table(300)
    model = VBLLRegressor.from_paper(2, epochs=60, learning_rate=0.01, random_state=0, n_jobs=1).fit(A, 1e-4 * b)
    assert model.noise_variance_ == pytest.approx(1 / 300, rel=0.5)
