import numpy as np
import pytest
from quick import QUICK, grouped, table
from scipy import stats

from bdkn.estimators import DeepEnsembleRegressor
from bdkn.predictive import Gaussian, GaussianMixture

X, y = table()
NEW, _ = table(30, seed=1)


@pytest.fixture(scope="module")
def model():
    return DeepEnsembleRegressor(**grouped(**QUICK)).fit(X, y)


@pytest.fixture(scope="module")
def members(model):
    return tuple(
        np.column_stack(parts) for parts in zip(*(member.predict(NEW) for member in model.members_), strict=True)
    )


def test_the_mixture_of_the_members(model, members):
    means, variances = members
    dist = model.predict_dist(NEW)
    assert isinstance(dist, GaussianMixture)
    density = stats.norm(means, np.sqrt(variances)).pdf(50.0).mean(axis=1)
    np.testing.assert_allclose(dist.pdf(50.0), density, rtol=1e-10)
    np.testing.assert_allclose(dist.mean(), means.mean(axis=1), rtol=1e-12)


def test_the_gaussian_of_the_same_moments(members):
    means, variances = members
    dist = DeepEnsembleRegressor(**grouped(**QUICK, predictive="gaussian")).fit(X, y).predict_dist(NEW)
    assert isinstance(dist, Gaussian)
    centre = means.mean(axis=1)
    np.testing.assert_allclose(dist.mean(), centre, rtol=1e-12)
    np.testing.assert_allclose(dist.var(), (variances + means**2).mean(axis=1) - centre**2, rtol=1e-8)


@pytest.mark.parametrize("predictive", ["mixture", "gaussian"])
def test_joint_covariance_and_draws_agree_with_the_marginals(predictive, members):
    means, variances = members
    model = DeepEnsembleRegressor(**grouped(**QUICK, predictive=predictive)).fit(X, y)
    mean, cov = model.predict(NEW, return_cov=True)
    np.testing.assert_allclose(cov, np.diag(variances.mean(axis=1)) + np.cov(means, bias=True), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(np.diag(cov), model.predict(NEW, return_std=True)[1] ** 2, rtol=1e-10)
    draws = model.sample_y(NEW, n_samples=20_000, random_state=1)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5 * np.sqrt(np.diag(cov).max() / 20_000))
    np.testing.assert_allclose(np.cov(draws), cov, atol=0.06 * np.diag(cov).max())
    dist = model.predict_dist(NEW)
    for row in range(3):
        assert stats.kstest(draws[row, :4000], lambda v, row=row: dist[[row]].cdf(v[None])[0]).pvalue > 1e-3


def test_a_draw_of_the_mixture_uses_one_network_for_all_rows():
    model = DeepEnsembleRegressor(**grouped(**QUICK, objective="mse")).fit(X, y)
    far = np.repeat(NEW[:1] + 1e3, 200, axis=0)  # far out the networks disagree, and noise is small beside that
    outputs, variances = (np.array([member.predict(far)[i][0] for member in model.members_]) for i in (0, 1))
    assert np.ptp(outputs) > 100 * np.sqrt(variances.max())
    nearest = np.abs(model.sample_y(far, 50)[..., None] - outputs).argmin(axis=-1)
    np.testing.assert_array_equal(nearest, nearest[:1].repeat(200, axis=0))
    assert set(nearest[0]) == {0, 1, 2}


def test_squared_error_leaves_the_mean_squared_error_as_variance():
    counts = np.random.default_rng(0).integers(1, 4, len(y))
    model = DeepEnsembleRegressor(**grouped(**QUICK, objective="mse")).fit(X, y, sample_weight=counts)
    for member in model.members_:
        mean, variance = member.predict(X)
        np.testing.assert_allclose(variance, np.mean(np.repeat((y - mean) ** 2, counts)), rtol=1e-9)


def test_a_warm_up_that_never_ends_counts_as_squared_error():
    always, never = (
        DeepEnsembleRegressor(**grouped(**{**QUICK, "early_stopping": False}, **how))
        .fit(X, y)
        .predict(NEW, return_std=True)
        for how in ({"objective": "nll", "warmup_epochs": 40}, {"objective": "mse"})
    )
    np.testing.assert_array_equal(always, never)


def test_member_table_has_no_weights(model):
    assert list(model.member_table()) == ["member", "rmse", "nll", "epochs", "best_epoch"]
    assert list(model.member_report().member) == ["network 1", "network 2", "network 3"]
