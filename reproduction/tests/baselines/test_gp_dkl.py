"""Gaussian processes, on inputs and on features, against dense algebra, scikit-learn and GPyTorch itself."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sine import quick, sine, table
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from bdkn.data.rows import Rows
from bdkn_paper import DKLRegressor, GPRegressor
from bdkn_paper.baselines.conditioned_gp import ConditionedGP
from bdkn_paper.baselines.feature_map import FeatureMap
from bdkn_paper.baselines.learners.descent import Curves, descend
from bdkn_paper.baselines.plan import Plan

GPRegressor.load_packages()  # before GPyTorch is imported here, which warns of its own dependencies

import gpytorch  # noqa: E402
import torch  # noqa: E402

from bdkn_paper.baselines.learners.features import TorchFeatures  # noqa: E402
from bdkn_paper.baselines.learners.gp_learner import GPLearner, negative_log_density  # noqa: E402

X, y = table()
NEW, _ = table(20, seed=1)

DOUBLE = torch.empty(0, dtype=torch.float64)


def kernel(process, A, B):
    apart = (A[:, None] - B) / process.lengthscale
    return process.outputscale * np.exp(-np.sum(apart**2, axis=2) / 2)


@pytest.mark.parametrize("ard", [True, False])
def test_predictions_are_the_textbooks(ard):
    model = quick(GPRegressor, ard=ard).fit(X, y)
    p, x = model.process_, model._scaled(NEW)
    assert p.lengthscale.shape == ((3,) if ard else (1,))
    inverse = np.linalg.inv(kernel(p, p.X, p.X) + p.noise * np.eye(len(y)))
    k = kernel(p, x, p.X)
    mean = p.mean + k @ inverse @ (p.y - p.mean)
    covariance = kernel(p, x, x) - k @ inverse @ k.T + p.noise * np.eye(len(x))
    scaler = model.targets_
    got_mean, got_covariance = model.predict(NEW, return_cov=True)
    np.testing.assert_allclose(got_mean, scaler.mean + scaler.scale * mean)
    np.testing.assert_allclose(got_covariance, scaler.scale**2 * covariance, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.predict_dist(NEW).var(), np.diag(got_covariance))


def test_evidence_and_predictions_are_scikit_learns():
    model = quick(GPRegressor).fit(X, y)
    p = model.process_
    same = ConstantKernel(p.outputscale) * RBF(p.lengthscale) + WhiteKernel(p.noise)
    theirs = GaussianProcessRegressor(same, optimizer=None).fit(p.X, p.y - p.mean)
    learner = GPLearner(Rows(p.X, p.y), None, DOUBLE, np.random.SeedSequence(0), n_scales=3, minimum_noise=1e-6)
    learner.mean.constant.data.fill_(p.mean)
    learner.kernel.outputscale, learner.kernel.base_kernel.lengthscale = p.outputscale, torch.tensor(p.lengthscale)
    learner.likelihood.noise = p.noise
    loss = float(learner.loss(learner.batches.X, learner.batches.y).detach())
    assert -loss * len(y) == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-6)
    mean, std = theirs.predict(model._scaled(NEW), return_std=True)
    ours = p.predictive(model._scaled(NEW))
    np.testing.assert_allclose(ours.mean(), p.mean + mean, rtol=1e-6)
    np.testing.assert_allclose(ours.std(), std, rtol=1e-6)


@pytest.mark.no_cover
def test_no_optimiser_finds_a_better_evidence():
    A, b = sine(60)
    model = GPRegressor(n_jobs=1, epochs=700, tol=None).fit(A, b)
    p = model.process_
    ours = multivariate_normal(np.full(len(b), p.mean), kernel(p, p.X, p.X) + p.noise * np.eye(len(b))).logpdf(p.y)
    start = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(start, n_restarts_optimizer=3, random_state=0).fit(p.X, p.y - p.mean)
    assert ours > theirs.log_marginal_likelihood_value_ - 0.05


def test_the_quick_gradient_is_that_of_gpytorchs_marginal_likelihood():
    class Model(gpytorch.models.ExactGP):
        def __init__(self, X, y, learner):
            super().__init__(X, y, learner.likelihood)
            self.learner = learner

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.learner.mean(x), self.learner.kernel(x))

    rows = Rows(np.random.default_rng(0).normal(size=(30, 2)), np.random.default_rng(1).normal(size=30))
    learner = GPLearner(rows, None, DOUBLE, np.random.SeedSequence(0), n_scales=2, minimum_noise=1e-4)
    A, b = learner.batches.X, learner.batches.y
    model = Model(A, b, learner)
    theirs = -gpytorch.mlls.ExactMarginalLogLikelihood(learner.likelihood, model)(model(A), b)
    ours = learner.loss(A, b)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), rel=1e-10)
    parameters = learner.parameters()
    for mine, other in zip(torch.autograd.grad(ours, parameters), torch.autograd.grad(theirs, parameters), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-10)
    model.eval()
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None].expand(5, 2)
    with torch.no_grad():
        predicted = learner.likelihood.eval()(model(x))
    frozen = learner.frozen().predictive(x.numpy())
    np.testing.assert_allclose(frozen.mean(), predicted.mean.numpy(), rtol=1e-6)
    np.testing.assert_allclose(frozen.var(), predicted.variance.numpy(), rtol=1e-6)


def test_the_log_density_and_its_gradient():
    A = torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    K, r = (A @ A.T + torch.eye(6)).requires_grad_(), torch.arange(6.0, dtype=torch.float64).requires_grad_()
    value = negative_log_density(K, r)
    dense = -torch.distributions.MultivariateNormal(torch.zeros(6, dtype=torch.float64), K).log_prob(r)
    torch.testing.assert_close(value, dense)
    by_K, by_r = torch.autograd.grad(value, (K, r))
    dense_K, dense_r = torch.autograd.grad(dense, (K, r))
    torch.testing.assert_close(by_K, (dense_K + dense_K.T) / 2)  # only a symmetric change keeps K symmetric
    torch.testing.assert_close(by_r, dense_r)


class Played:
    """A learner whose losses are known beforehand."""

    def __init__(self, losses):
        self._losses, self._at = iter(losses), torch.zeros(1, requires_grad=True)

    def parameters(self):
        return [self._at]

    def decayed(self):
        return []

    def losses(self):
        yield next(self._losses) + 0 * self._at.sum()


@pytest.mark.parametrize("window", [1, 3, 11])
def test_the_rule_to_stop_by(window):
    losses = 1 + 0.9 ** np.arange(400.0)
    means = np.convolve(losses, np.ones(window) / window, mode="valid")
    falls = (means[:-window] - means[window:]) / means[:-window]
    expected = 2 * window + int(np.argmax(falls < 1e-4))
    plan = Plan(learning_rate=0.1, epochs=400, window=window, tol=1e-4)
    assert len(descend(Played(losses), plan).losses) == expected
    assert len(descend(Played(losses), Plan(learning_rate=0.1, epochs=50)).losses) == 50


def test_the_best_epoch_is_that_of_the_lowest_score():
    assert Curves([1.0, 1.0, 1.0], {0: 3.0, 1: 2.0, 2: 2.5}).best == 2


def test_single_precision_is_close_to_double():
    double, single = (quick(GPRegressor, dtype=dtype).fit(X, y).predict_dist(NEW) for dtype in ("float64", "float32"))
    np.testing.assert_allclose(single.mean(), double.mean(), rtol=1e-3)
    np.testing.assert_allclose(single.std(), double.std(), rtol=1e-2)


def test_rows_given_twice_do_not_break_a_noise_free_process():
    model = quick(GPRegressor, epochs=200, minimum_noise=1e-12).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert np.isfinite(model.predict_dist(NEW).std()).all()


def learner_of(rows, **others):
    return GPLearner(rows, None, DOUBLE, np.random.SeedSequence(0), n_scales=1, minimum_noise=1e-6, **others)


def test_with_every_row_an_inducing_point_nothing_is_lost():
    A, b = sine(40)
    exact, sparse = learner_of(Rows(A, b)), learner_of(Rows(A, b), n_inducing=40)
    losses = [float(each.loss(each.batches.X, each.batches.y).detach()) for each in (exact, sparse)]
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    x = np.linspace(-3, 3, 9)[:, None]
    ours, theirs = sparse.frozen(), exact.frozen()
    np.testing.assert_allclose(ours.predictive(x).mean(), theirs.predictive(x).mean(), atol=1e-4)
    np.testing.assert_allclose(ours.predictive(x).var(), theirs.predictive(x).var(), atol=1e-4)
    np.testing.assert_allclose(ours.joint(x).cov(), theirs.joint(x).cov(), atol=1e-4)


def test_the_bound_is_gpytorchs_and_below_the_evidence():
    A, b = sine(60)
    learner = learner_of(Rows(A, b), n_inducing=4)
    points = learner.frozen().inducing
    exact = learner_of(Rows(A, b))

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(learner.batches.X, learner.batches.y, learner.likelihood)
            inducing = torch.tensor(points)
            self.kernel = gpytorch.kernels.InducingPointKernel(learner.kernel, inducing, learner.likelihood)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(learner.mean(x), self.kernel(x))

    model = Model()
    theirs = gpytorch.mlls.ExactMarginalLogLikelihood(learner.likelihood, model)(
        model(learner.batches.X), learner.batches.y
    )
    bound = -float(learner.loss(learner.batches.X, learner.batches.y).detach())
    assert bound == pytest.approx(float(theirs.detach()), abs=1e-3)
    assert bound < -float(exact.loss(learner.batches.X, learner.batches.y).detach())


@pytest.mark.parametrize("cls", [GPRegressor, DKLRegressor])
def test_a_few_inducing_points_are_nearly_as_good_as_all_rows(cls):
    A, b = sine(150)
    settings = {"epochs": 150, "learning_rate": 0.05}
    exact, sparse = (quick(cls, **settings, n_inducing=count).fit(A, b) for count in (None, 15))
    assert sparse.process_.inducing.shape == (15, 1 if cls is GPRegressor else 2)
    A_new, b_new = sine(500, seed=1)
    assert sparse.log_score(A_new, b_new) > exact.log_score(A_new, b_new) - 0.1
    np.testing.assert_allclose(sparse.predict(A_new, return_cov=True)[0], sparse.predict(A_new))


class Frozen(TorchFeatures):
    """A linear map that does not learn."""

    def parameters(self):
        return []


def test_on_a_frozen_linear_map_deep_kernel_learning_is_a_process_of_it():
    rng = np.random.default_rng(0)
    rows = Rows(rng.normal(size=(40, 3)), rng.normal(size=40))
    W, b = rng.normal(size=(2, 3)), rng.normal(size=2)
    mapped = Rows(rows.X @ W.T + b, rows.y)
    settings = {"n_scales": 2, "minimum_noise": 1e-6}
    deep = GPLearner(
        rows,
        None,
        DOUBLE,
        np.random.SeedSequence(0),
        features=Frozen(FeatureMap("relu", ((W, b),), linear_last=True), DOUBLE),
        **settings,
    )
    plain = GPLearner(mapped, None, DOUBLE, np.random.SeedSequence(0), **settings)
    plan = Plan(learning_rate=0.05, epochs=30)
    np.testing.assert_allclose(descend(deep, plan).losses, descend(plain, plan).losses, rtol=1e-10)
    z = rng.normal(size=(5, 3)) @ W.T + b
    np.testing.assert_allclose(deep.frozen().predictive(z).mean(), plain.frozen().predictive(z).mean(), rtol=1e-8)


def test_one_batch_of_all_rows_is_the_full_batch():
    whole = quick(DKLRegressor, early_stopping=False).fit(X, y)
    batch = quick(DKLRegressor, early_stopping=False, batch_size=len(y)).fit(X, y)
    np.testing.assert_allclose(batch.predict(NEW), whole.predict(NEW), rtol=1e-6)


@pytest.mark.no_cover
def test_in_mini_batches_the_noise_moves_further():
    noise = {
        size: DKLRegressor.from_paper(2, epochs=20, batch_size=size, random_state=0, n_jobs=1).fit(X, y).noise_variance_
        for size in (None, 5)
    }
    start = np.log(2.0)  # softplus(0), GPyTorch's
    assert abs(noise[None] - start) < 20 * 1e-3
    assert abs(noise[5] - start) > 3 * abs(noise[None] - start)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_as_in_the_paper_the_noise_hardly_moves_whatever_the_units(scale):
    """The levels behind its scores are within ±0.5 of softplus(0) before the softplus, on every data set."""
    model = DKLRegressor.from_paper(2, "yacht", epochs=60, random_state=0, n_jobs=1).fit(X, scale * y)
    low, high = np.log1p(np.exp([-0.061, 0.061]))
    assert low < model.noise_variance_ - 1e-4 < high
    converged = DKLRegressor(epochs=60, random_state=0, n_jobs=1, early_stopping=False).fit(X, scale * y)
    assert converged.noise_variance_ < scale**2 * y.var()


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:1", "mps"])
def test_a_model_fitted_on_a_gpu_predicts_without_one(device):
    model = quick(GPRegressor).fit(X, y)
    moved = ConditionedGP(**{**vars(model.process_), "device": device})
    if not torch.cuda.is_available():
        assert moved.predictive(model._scaled(NEW)).mean().shape == (20,)


@pytest.mark.no_cover
def test_many_inputs_are_learned_from():
    """From GPyTorch's first length scale no two rows of fifty inputs have anything to do with each other."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(200, 50))
    b = A[:, 0] + 0.5 * A[:, 1] + 0.1 * rng.normal(size=200)
    new = rng.normal(size=(100, 50))
    model = GPRegressor(epochs=150, n_jobs=1).fit(A, b)
    assert model.score(new, new[:, 0] + 0.5 * new[:, 1]) > 0.9
    stuck = GPRegressor(epochs=150, initial_lengthscale=np.log(2), n_jobs=1).fit(A, b)
    assert stuck.score(new, new[:, 0] + 0.5 * new[:, 1]) < 0.1


@pytest.mark.no_cover
@pytest.mark.parametrize("n_inducing", [None, 20])
def test_in_single_precision_joint_predictions_are_still_a_distribution(n_inducing):
    model = quick(GPRegressor, dtype="float32", n_inducing=n_inducing, epochs=100).fit(X, y)
    drawn = model.sample_y(np.concatenate([NEW, NEW]), 5, random_state=0)
    assert np.isfinite(drawn).all()


def test_bounded_features_are_gpytorchs():
    start = FeatureMap.draw((3, 5, 2), "tanh", np.random.default_rng(0), linear_last=True)
    features = TorchFeatures(start, DOUBLE)
    given = {"features": features, "n_scales": 2, "minimum_noise": 1e-4, "bounded": True}
    learner = GPLearner(Rows(X, y), None, DOUBLE, np.random.SeedSequence(0), **given)
    rows = torch.tensor(2 * (X - X.min(0)) / (X.max(0) - X.min(0)) - 1, dtype=torch.float64)
    torch.testing.assert_close(learner.batches.X, rows, rtol=1e-6, atol=1e-6)
    expected = gpytorch.utils.grid.ScaleToBounds(-1.0, 1.0)(features(rows))
    torch.testing.assert_close(learner.kernel_inputs(rows), expected)
    np.testing.assert_allclose(learner.frozen_features()(X), expected.detach(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(learner.frozen().X, expected.detach(), rtol=1e-5, atol=1e-5)
    loss = learner.loss(learner.batches.X, learner.batches.y)
    (slope,) = torch.autograd.grad(loss, features.layers[-1][1])
    torch.testing.assert_close(slope.sum(), torch.zeros((), dtype=torch.float64))  # a common shift of them is undone


def test_bounded_features_predict():
    model = quick(DKLRegressor, bounded=True).fit(X, y)
    inside = model.features_(model._scaled(X))
    assert (inside.min(), inside.max()) == pytest.approx((-0.95, 0.95))
    assert model.score(X, y) > 0.5
    scaling = gpytorch.utils.grid.ScaleToBounds(-1.0, 1.0)
    scaling(torch.tensor(inside))
    far = model.features_(model._scaled(3 * X))
    np.testing.assert_allclose(
        model.fitted_.kernel_inputs(model._scaled(3 * X)), scaling.eval()(torch.tensor(far)), rtol=1e-6, atol=1e-8
    )
    assert np.abs(far).max() > 1


def test_features_that_are_all_equal_stay_finite():
    model = quick(DKLRegressor, bounded=True).fit(np.ones((20, 2)), y[:20])
    assert np.isfinite(model.predict_dist(np.ones((2, 2))).std()).all()
