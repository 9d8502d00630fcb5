"""The heteroscedastic model against dense algebra, quadrature, the paper's model and the deep ensemble."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from designs import fit_tails
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as sp
from scipy.integrate import quad
from scipy.special import gammaln

from bdkn.errors import InvalidParameterError
from bdkn.inference import Combination, Forecast, Prior, Statistics, combine, posterior, published_combination
from bdkn.inference.combination import Tails, features
from bdkn.inference.posterior import Posterior
from bdkn.predictive import GaussianMixture, StudentT


def example(n=40, H=3, seed=0, τ=0.7, β=None, α=0.3, σ=0.5, spread=1.0, heavy=None):
    """Return what members say, targets from the model, and the generator they came from."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, 1))
    means = truth + 0.4 * rng.normal(size=(n, H))
    forecast = Forecast.of(means, 0.3 * np.exp(spread * rng.normal(size=(n, H))))
    β = np.full(H, 1 / H) if β is None else np.asarray(β)
    noise = rng.normal(size=n) if heavy is None else rng.standard_t(heavy, n)
    return forecast, forecast.means @ β + α + σ * np.sqrt(forecast.variance**τ) * noise, rng


def rows_of(forecast, rows):
    return Forecast(forecast.means[rows], forecast.noise[rows], forecast.disagreement[rows])


@st.composite
def cases(draw):
    """Draw a forecast, targets, τ and t."""
    n, H = draw(st.integers(3, 15)), draw(st.integers(1, 4))
    forecast, y, rng = example(n, H, draw(st.integers(0, 2**32 - 1)), spread=draw(st.sampled_from([0.0, 1.0, 2.0])))
    return forecast, y, rng, draw(st.sampled_from([0.0, 0.3, 1.0, 2.0])), draw(st.sampled_from([0.01, 1.0, 30.0]))


class Dense:
    """The same model in function space: y ~ St with covariance C = V + t [Φ,1][Φ,1]ᵀ, after integrating out β and α."""

    def __init__(self, forecast, y, τ, t, counts=None):
        rows = np.repeat(np.arange(len(y)), 1 if counts is None else counts)
        self.forecast, self.τ, self.t = forecast, τ, t
        self.Phi = np.column_stack([forecast.means, np.ones(len(y))])[rows]
        self.C = np.diag(forecast.variance[rows] ** τ) + t * self.Phi @ self.Phi.T
        self.r = y[rows] - forecast.means[rows].mean(axis=1)
        self.a, self.b = len(rows) / 2, self.r @ np.linalg.solve(self.C, self.r) / 2

    def evidence(self):
        logdet = np.linalg.slogdet(self.C)[1]
        return gammaln(self.a) - self.a * np.log(self.b) - logdet / 2 - self.a * np.log(2 * np.pi)

    def predictive(self, forecast):
        φ = np.column_stack([forecast.means, np.ones(len(forecast))])
        K = self.t * φ @ self.Phi.T
        mean = forecast.means.mean(axis=1) + K @ np.linalg.solve(self.C, self.r)
        shape = np.diag(forecast.variance**self.τ) + self.t * φ @ φ.T - K @ np.linalg.solve(self.C, K.T)
        return mean, self.b / self.a * shape


@given(cases())
def test_posterior_evidence_and_predictive_against_dense_algebra(case):
    forecast, y, _, τ, t = case
    found = combine(forecast, y, prior_variance=t, tempering=τ, tails="posterior")
    dense, (new, *_) = Dense(forecast, y, τ, t), example(6, forecast.means.shape[1], seed=1)
    assert found.evidence == pytest.approx(dense.evidence(), rel=1e-9, abs=1e-8)
    assert found.posterior.b == pytest.approx(dense.b, rel=1e-8)
    assert (found.n, found.tempering, found.prior_variance) == (len(y), τ, t)
    mean, shape = dense.predictive(new)
    dist = found.predictive(new)
    scale = np.sqrt(np.diag(shape))
    np.testing.assert_allclose(dist.scale, scale, rtol=1e-7)
    np.testing.assert_allclose(dist.loc / scale, mean / scale, atol=1e-7)
    np.testing.assert_allclose(dist.df, len(y))
    if len(y) > 2:
        expected = shape / (1 - 2 / len(y))
        np.testing.assert_allclose(found.covariance(new), expected, rtol=1e-7, atol=1e-7 * np.max(np.diag(expected)))
    H = forecast.means.shape[1]
    np.testing.assert_allclose(
        found.weights, 1 / H + t * (dense.Phi.T @ np.linalg.solve(dense.C, dense.r))[:H], rtol=1e-6, atol=1e-7
    )
    assert found.constant == pytest.approx(t * np.sum(np.linalg.solve(dense.C, dense.r)), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("τ", [0.0, 0.6, 2.0])
def test_the_evidence_is_the_integral_over_weights_constant_and_noise(τ):
    forecast, y, _ = example(4, 1)
    t, (nodes, mass) = 0.05, np.polynomial.hermite_e.hermegauss(100)
    weight = np.multiply.outer(mass, mass) / (2 * np.pi)

    def density(log_σ2):  # against dσ²/σ², which is Jeffreys' prior
        σ2 = np.exp(log_σ2)
        β, α = 1 + np.sqrt(σ2 * t) * nodes[:, None], np.sqrt(σ2 * t) * nodes[None, :]
        mean = β[..., None] * forecast.means[:, 0] + α[..., None]
        likelihood = sp.norm.pdf(y, mean, np.sqrt(σ2 * forecast.variance**τ)).prod(axis=-1)
        return float(np.sum(weight * likelihood))

    integral = quad(density, -8, 16, limit=200)[0]
    found = combine(forecast, y, prior_variance=t, tempering=τ, tails="posterior")
    assert found.evidence == pytest.approx(np.log(integral), abs=1e-5)


@given(cases())
def test_one_row_more_multiplies_the_evidence_by_its_predictive_density(case):
    forecast, y, _, τ, t = case
    options = {"prior_variance": t, "tempering": τ, "tails": "posterior"}
    before, after = combine(rows_of(forecast, slice(-1)), y[:-1], **options), combine(forecast, y, **options)
    step = before.predictive(rows_of(forecast, slice(-1, None))).logpdf(y[-1:])[0]
    assert after.evidence - before.evidence == pytest.approx(step, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("τ", [0.0, 0.5, 2.0])
def test_equal_variances_are_constant_noise(τ):
    forecast, y, _ = example(spread=0.0)
    forecast = replace(forecast, noise=2.5 - forecast.disagreement)  # v = 2.5 on every row
    plain, other = combine(forecast, y, tempering=0.0), combine(forecast, y, tempering=τ)
    assert other.evidence == pytest.approx(plain.evidence, rel=1e-9)
    assert other.noise_std == pytest.approx(plain.noise_std, rel=1e-6)
    np.testing.assert_allclose(other.weights, plain.weights, rtol=1e-6)
    for name in ("loc", "scale", "df"):
        np.testing.assert_allclose(
            getattr(other.predictive(forecast), name), getattr(plain.predictive(forecast), name), rtol=1e-6
        )


class TestThePapersModel:
    def test_plain_is_its_posterior_and_looks_at_no_variance(self):
        forecast, y, _ = example()
        stats = Statistics.from_rows(forecast.means, y)
        found, post = published_combination([(forecast.means, y)], 0.7), posterior(stats, Prior.isotropic(3, 0.7))
        for seen in (forecast, replace(forecast, noise=7 * forecast.noise)):
            dist, expected = found.predictive(seen), post.predictive(seen.means)
            for name in ("df", "loc", "scale"):
                np.testing.assert_array_equal(getattr(dist, name), getattr(expected, name))
        assert (found.tempering, found.intercept, found.constant) == (0.0, False, 0.0)
        np.testing.assert_array_equal(found.weights, post.mean)
        assert found.noise_std == pytest.approx(np.sqrt(post.b / post.a), rel=1e-14)
        parts = found.variance(forecast)
        np.testing.assert_array_equal(parts["disagreement"], 0.0)
        np.testing.assert_allclose(parts["noise"], post.b / (post.a - 1), rtol=1e-12)

    def test_without_tempering_combine_is_that_model_of_the_residuals_of_equal_weights(self):
        forecast, y, _ = example()
        new, *_ = example(7, seed=1)
        found = combine(forecast, y, prior_variance=0.7, tempering=0.0, tails="posterior")
        equal = forecast.means.mean(axis=1)
        paper = published_combination([(features(forecast.means), y - equal)], 0.7)
        assert found.evidence == pytest.approx(paper.evidence, rel=1e-12)
        asked = replace(new, means=features(new.means))
        dist, expected = found.predictive(new), paper.predictive(asked)
        np.testing.assert_allclose(dist.loc, new.means.mean(axis=1) + expected.loc, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(dist.scale, expected.scale, rtol=1e-10)
        assert dist.df[0] == expected.df[0]
        np.testing.assert_allclose(found.covariance(new), paper.covariance(asked), rtol=1e-9, atol=1e-12)


def test_with_tempering_one_equal_weights_and_unit_noise_it_is_the_deep_ensemble():
    rng = np.random.default_rng(0)
    means, variances, H, sure = rng.normal(size=(9, 4)), rng.uniform(0.1, 2.0, (9, 4)), 4, 1e14
    certain = Posterior(
        np.append(np.full(H, 1 / H), 0.0), 1e12 * np.eye(H + 1), sure, sure, Prior.isotropic(H + 1, 1.0)
    )
    ours = Combination(certain, 1.0, np.nan, np.nan, 1.0, 1.0, Tails(2 * sure, 1.0), intercept=True)
    dist, gaussian = (
        ours.predictive(Forecast.of(means, variances)),
        GaussianMixture(means, np.sqrt(variances)).moment_matched(),
    )
    np.testing.assert_allclose(dist.mean(), gaussian.mean(), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(dist.var(), gaussian.var(), rtol=1e-12)
    np.testing.assert_allclose(dist.cdf(0.7), gaussian.cdf(0.7), rtol=1e-10)
    parts = ours.variance(Forecast.of(means, variances))
    np.testing.assert_allclose(parts["noise"], variances.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(parts["disagreement"], means.var(axis=1), rtol=1e-12)


class TestTempering:
    @given(
        st.integers(0, 2**32 - 1), st.integers(3, 60), st.sampled_from([0.0, 0.7, 1.0, 3.0]), st.sampled_from([None, 2])
    )
    def test_no_other_power_is_more_probable(self, seed, n, τ, heavy):
        """Where the posterior of τ has one peak: with few rows it may have two; the search finds one or an end."""
        forecast, y, _ = example(n, 2, seed, τ=τ, heavy=heavy)
        found = combine(forecast, y, tails="posterior")
        assert 0.0 <= found.tempering <= 2.0
        powers = np.linspace(0, 2, 51)
        grid = [combine(forecast, y, tempering=other, tails="posterior").evidence - 3.0 * other for other in powers]
        falls = np.diff(grid) < 0.0
        assume(not np.any(falls[:-1] & ~falls[1:]))
        assert found.evidence - 3.0 * found.tempering >= max(grid) - 1e-3

    @pytest.mark.no_cover
    def test_a_few_rows_do_not_decide_for_a_power(self):
        """Rows with constant noise whose members claim otherwise: by evidence alone some power is often best."""
        powers = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            means = rng.normal(size=(12, 1)) + 0.1 * rng.normal(size=(12, 3))
            forecast = Forecast.of(means, np.exp(rng.normal(size=(12, 3))))
            powers.append(combine(forecast, means.mean(axis=1) + 0.5 * rng.normal(size=12)).tempering)
        assert np.mean(np.array(powers) > 0.0) <= 0.1

    def test_power_weights_constant_and_noise_are_found_again(self):
        forecast, y, _ = example(5000, τ=0.7, β=[0.7, 0.2, 0.0], α=0.3, σ=0.5)
        found = combine(forecast, y)
        assert found.tempering == pytest.approx(0.7, abs=0.06)
        spread = np.sqrt(np.diag(found.posterior.covariance))
        np.testing.assert_array_less(np.abs(found.weights - [0.7, 0.2, 0.0]), 4 * spread[:3])
        assert abs(found.constant - 0.3) < 4 * spread[3]
        assert spread.max() < 0.03
        assert found.noise_std == pytest.approx(0.5 * np.sqrt(np.mean(forecast.variance**0.7)), rel=0.05)

    @pytest.mark.parametrize(("τ", "end"), [(-2.0, 0.0), (4.0, 2.0)])
    def test_powers_beyond_the_range_end_at_its_ends(self, τ, end):
        forecast, y, _ = example(500, τ=τ)
        assert combine(forecast, y).tempering == end

    def test_members_without_information_about_noise_are_ignored(self):
        forecast, y, rng = example(3000, τ=0.0)
        assert combine(replace(forecast, noise=rng.permutation(forecast.noise)), y).tempering < 0.1


class TestTails:
    def test_tails_are_chosen_by_leave_one_out(self):
        forecast, y, _ = example(200, heavy=3)
        found = combine(forecast, y, tempering=0.5)
        held_out = found.posterior.leave_one_out(features(forecast.means), y, forecast.variance**-0.5)
        assert found.tails == fit_tails(held_out, y)
        others = StudentT(found.tails.df, held_out.loc, found.tails.scale * held_out.scale)
        assert found.score == pytest.approx(np.mean(others.logpdf(y)), rel=1e-12)
        assert found.score > np.mean(held_out.logpdf(y))

    def test_heavy_tails_are_found_and_light_ones_left(self):
        heavy, light = (combine(*example(3000, heavy=df)[:2]).tails for df in (4, None))
        assert heavy.df == pytest.approx(4, abs=1)
        assert light.df > 20
        assert light.scale == pytest.approx(1.0, abs=0.05)

    def test_those_of_the_posterior_are_scored_as_they_are(self):
        forecast, y, _ = example()
        found = combine(forecast, y, tails="posterior", tempering=0.5)
        assert found.tails == Tails(40.0, 1.0)
        held_out = found.posterior.leave_one_out(features(forecast.means), y, forecast.variance**-0.5)
        assert found.score == pytest.approx(np.mean(held_out.logpdf(y)), rel=1e-12)
        assert found.score < combine(forecast, y, tempering=0.5).score
        assert np.isnan(combine(*example(1)[:2]).score)


@given(cases(), st.sampled_from(["loo", "posterior"]))
def test_the_parts_add_up_to_the_predictive_variance(case, tails):
    forecast, y, _, τ, t = case
    found, (new, *_) = (
        combine(forecast, y, prior_variance=t, tempering=τ, tails=tails),
        example(6, forecast.means.shape[1], 1),
    )
    parts = found.variance(new)
    assert parts.keys() == {"noise", "disagreement", "weights", "outside"}
    for part in parts.values():
        assert (part >= 0).all()
    total, var = sum(parts.values()), found.predictive(new).var()
    np.testing.assert_allclose(total, var, rtol=1e-12)
    np.testing.assert_allclose(np.diag(found.covariance(new)), var, rtol=1e-12)
    if τ > 0 and np.isfinite(var).all():
        ratio = new.disagreement / new.variance
        np.testing.assert_allclose(parts["disagreement"], ratio * (parts["disagreement"] + parts["noise"]), atol=1e-12)


@pytest.mark.parametrize("tails", ["loo", "posterior"])
def test_draws_are_joint_and_each_row_has_its_predictive(tails):
    forecast, y, _ = example(12, heavy=3)
    new, *_ = example(5, seed=1)
    new = replace(new, means=3 * new.means, noise=0.2 * new.noise, disagreement=0.2 * new.disagreement)
    found = combine(forecast, y, prior_variance=1.0, tempering=0.7, tails=tails)
    draws = found.draw(new, 20_000, np.random.default_rng(0))
    dist = found.predictive(new)
    assert draws.shape == (5, 20_000)
    for row in range(5):
        assert sp.kstest(draws[row], sp.t(dist.df[row], dist.loc[row], dist.scale[row]).cdf).pvalue > 1e-3
    # Kendall's rank correlation of an elliptical distribution is (2/π) arcsin ρ, and no change of tails changes it.
    shape = found.posterior.joint(features(new.means), new.variance**0.7).shape
    ρ = shape / np.sqrt(np.outer(np.diag(shape), np.diag(shape)))
    assert np.abs(ρ - np.eye(5)).max() > 0.3
    for i, j in zip(*np.triu_indices(5, 1), strict=True):
        assert sp.kendalltau(draws[i, :8000], draws[j, :8000])[0] == pytest.approx(
            2 / np.pi * np.arcsin(ρ[i, j]), abs=0.03
        )
    if tails == "posterior":
        cov = found.covariance(new)
        np.testing.assert_allclose(np.corrcoef(draws), cov / np.sqrt(np.outer(np.diag(cov), np.diag(cov))), atol=0.03)


def test_counts_are_repetitions():
    forecast, y, rng = example(50, heavy=4)
    counts = rng.integers(1, 4, 50)
    rows = np.repeat(np.arange(50), counts)
    counted, repeated = combine(forecast, y, counts), combine(rows_of(forecast, rows), y[rows])
    assert counted.n == repeated.n == counts.sum()
    for name in ("evidence", "tempering", "noise_level", "noise_std", "prior_variance", "score", "constant"):
        assert getattr(counted, name) == pytest.approx(getattr(repeated, name), rel=1e-4)
    np.testing.assert_allclose(counted.weights, repeated.weights, rtol=1e-6)
    assert (counted.tails.df, counted.tails.scale) == pytest.approx((repeated.tails.df, repeated.tails.scale), rel=1e-3)


def test_rows_in_any_order_are_the_same():
    forecast, y, rng = example(50)
    order = rng.permutation(50)
    one, other = combine(forecast, y), combine(rows_of(forecast, order), y[order])
    np.testing.assert_allclose(other.predictive(forecast).scale, one.predictive(forecast).scale, rtol=1e-6)
    np.testing.assert_allclose(other.predictive(forecast).loc, one.predictive(forecast).loc, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("tails", ["loo", "posterior"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_with_two_degrees_of_freedom_or_fewer_there_is_no_variance(n, tails):
    forecast, y, _ = example(n)
    found = combine(forecast, y, tails=tails)
    df = found.predictive(forecast).df[0]
    assert df == n if tails == "posterior" else df <= n
    assert np.isfinite(found.predictive(forecast).interval(0.9)).all()
    assert np.isfinite(found.draw(forecast, 5, np.random.default_rng(0))).all()
    var, finite = found.predictive(forecast).var(), df > 2
    assert np.isfinite(var).all() == finite
    np.testing.assert_allclose(sum(found.variance(forecast).values()), var, rtol=1e-12)
    np.testing.assert_allclose(np.diag(found.covariance(forecast)), var, rtol=1e-12)


@pytest.mark.parametrize("tails", ["loo", "posterior"])
@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_targets_that_are_the_mean_of_the_members_are_certain(slope, tails):
    y = slope * np.arange(10.0)
    forecast = Forecast.of(y[:, None] * [0.5, 1.5], np.exp(np.linspace(-1, 1, 10))[:, None])
    found = combine(forecast, y, tails=tails)
    dist = found.predictive(forecast)
    rounding = 1e-13 * max(y.max(), 1.0)
    np.testing.assert_allclose(dist.loc, y, atol=rounding)
    np.testing.assert_allclose(dist.scale, 0.0, atol=rounding)
    draws = found.draw(forecast, 3, np.random.default_rng(0))
    np.testing.assert_allclose(draws, np.tile(y[:, None], 3), atol=10 * rounding)
    for part in found.variance(forecast).values():
        np.testing.assert_allclose(part, 0.0, atol=rounding**2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tails": "heavy"}, "tails must be one of 'loo', 'posterior'; got 'heavy'"),
        ({"tempering": "best"}, "tempering must be one of 'evidence'; got 'best'"),
        ({"tempering": 2.5}, "tempering must be a number >= 0 and <= 2; got 2.5"),
        ({"tempering": -0.1}, "tempering must be a number >= 0 and <= 2; got -0.1"),
        ({"prior_variance": 0.0}, "prior variance must be a number > 0; got 0.0"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(InvalidParameterError, match=message):
        combine(*example()[:2], **given)


@pytest.mark.no_cover
@pytest.mark.parametrize("folds", [5, 10, 50])
def test_members_that_predict_a_mean_do_not_reveal_held_out_rows(folds):
    """Out of fold they predict the mean of the other rows, an exact falling function of the held-out rows."""
    covered = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y, new, fold_of = rng.normal(size=50), rng.normal(size=200), np.arange(50) % folds
        forecast = np.array([y[fold_of != fold].mean() for fold in fold_of])[:, None]
        fitted = combine(Forecast.of(forecast, np.ones((50, 1))), y)
        lower, upper = fitted.predictive(Forecast.of(np.full((1, 1), y.mean()), np.ones((1, 1)))).interval(0.9)
        covered.append(np.mean((lower < new) & (new < upper)))
    assert 0.86 < np.mean(covered) < 0.94


def test_no_weight_has_a_wider_prior_than_one():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(6000, 3))
    fitted = combine(Forecast.of(means, np.ones((6000, 3))), means @ [30.0, -20.0, 5.0] + 0.1 * rng.normal(size=6000))
    post = fitted.posterior
    assert fitted.prior_variance * post.b / post.a == pytest.approx(1.0, rel=1e-6)


class TestAveraging:
    """Members that in predictions are means of several fits."""

    @staticmethod
    def case(noise=0.5, seed=0):
        rng = np.random.default_rng(seed)
        fits = rng.normal(size=(3, 30, 1)) + 0.3 * rng.normal(size=(3, 30, 4))  # K, n, H
        fits = fits.mean(axis=0) + 0.2 * rng.normal(size=(3, 30, 4))
        y = fits.mean(axis=(0, 2)) + noise * rng.normal(size=30)
        forecast = Forecast.of(fits[0], np.full((30, 4), 0.1))
        return combine(forecast, y), forecast, fits, y

    def test_what_it_saves_is_what_single_fits_err_more_than_their_means(self):
        plain, forecast, fits, y = self.case()
        K, H = len(fits), fits.shape[2]
        β, α = plain.weights, plain.constant
        chosen = np.array([[fits[k[h], :, h] for h in range(H)] for k in np.ndindex(*(K,) * H)])  # all K^H choices
        single = ((np.einsum("chn,h->cn", chosen, β) + α - y) ** 2).mean(axis=0)
        saved = single - (fits.mean(axis=0) @ β + α - y) ** 2
        scale = plain.predictive(forecast).scale
        share = np.minimum(saved / scale**2, 0.8).mean()
        assert 0.001 < share < 0.8
        averaged = plain.averaged(forecast, fits.var(axis=0))
        assert averaged.averaging == pytest.approx(np.sqrt(1 - share), rel=1e-9)

    @pytest.mark.no_cover
    def test_only_the_scale_of_predictions_changes(self):
        plain, forecast, fits, y = self.case()
        narrow = plain.averaged(forecast, fits.var(axis=0))
        wide, dist = plain.predictive(forecast), narrow.predictive(forecast)
        np.testing.assert_array_equal(dist.loc, wide.loc)
        np.testing.assert_allclose(dist.scale, narrow.averaging * wide.scale, rtol=1e-14)
        np.testing.assert_array_equal(narrow.leave_one_out(forecast, y).scale, plain.leave_one_out(forecast, y).scale)
        assert narrow.score == plain.score
        assert narrow.noise_std == pytest.approx(narrow.averaging * plain.noise_std, rel=1e-14)
        np.testing.assert_allclose(sum(narrow.variance(forecast).values()), dist.var(), rtol=1e-10)
        np.testing.assert_allclose(np.diag(narrow.covariance(forecast)), dist.var(), rtol=1e-10)
        draws = narrow.draw(forecast, 20_000, np.random.default_rng(0))
        np.testing.assert_allclose(np.quantile(draws, 0.9, axis=1), dist.ppf(0.9), atol=0.05 * dist.scale.max())

    def test_a_new_row_is_not_part_of_the_mean_of_the_targets(self):
        """Errors about the mean of n rows, of one of them and of a new one: their ratio by simulation."""
        plain, _, _, y = self.case()
        wide = plain.for_new_rows(y)
        z = np.random.default_rng(0).normal(size=(100_000, 31))
        about = z - z[:, :30].mean(axis=1, keepdims=True)
        assert wide.averaging == pytest.approx(about[:, 30].std() / about[:, 0].std(), rel=0.01)
        assert wide.score == plain.score
        assert replace(plain, n=1.0).for_new_rows(y).averaging == 1.0

    @given(st.integers(2, 40), st.floats(-6.0, 2.0))
    def test_the_spread_of_the_targets_counts_as_some_rows(self, n, log_level):
        plain, _, _, y = self.case()
        level, spread, rows = np.exp(log_level), y.var(), 81 / n**3
        unit = np.sqrt(level) / plain.noise_std
        found = replace(plain, n=float(n), tails=replace(plain.tails, scale=unit * plain.tails.scale)).for_new_rows(y)
        expected = (n * level + rows * max(spread, level)) / (n + rows) * (n + 1) / (n - 1)
        assert found.noise_std**2 == pytest.approx(expected, rel=1e-9)

    def test_single_fits_save_nothing_and_rows_count(self):
        plain, forecast, fits, _ = self.case()
        assert plain.averaged(forecast, np.zeros((30, 4))).averaging == 1.0
        rows = np.repeat(np.arange(30), counts := np.random.default_rng(1).integers(0, 3, 30))
        again = Forecast(forecast.means[rows], forecast.noise[rows], forecast.disagreement[rows])
        spread = fits.var(axis=0)
        one, other = plain.averaged(forecast, spread, counts), plain.averaged(again, spread[rows])
        assert one.averaging == pytest.approx(other.averaging, rel=1e-12)

    def test_however_far_fits_are_apart_something_is_left(self):
        plain, forecast, fits, _ = self.case()
        assert plain.averaged(forecast, 1e6 + fits.var(axis=0)).averaging == pytest.approx(np.sqrt(0.2))
        exact = combine(forecast, forecast.means.mean(axis=1))
        assert 0.0 < exact.averaged(forecast, fits.var(axis=0)).averaging <= 1.0
