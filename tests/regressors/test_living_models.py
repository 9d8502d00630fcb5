"""Fitted models that absorb, forget and exchange rows, and go on working."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from quick import QUICK, grouped, table
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

import bdkn
from bdkn import BayesianStackingRegressor, BDKNRegressor, RowStatistics
from bdkn.errors import InvalidParameterError, ModelFileError
from bdkn.inference import Forecast, Statistics, posterior
from bdkn.inference.combination import features
from bdkn.model.row_memory import MAX_ROWS, RowMemory, row_keys

X, y = table(120)
A, a = table(50, seed=1)
B, b = table(70, seed=2)
NEW, _ = table(30, seed=3)


def near(X):
    return 50 + 3 * np.sin(X[:, 0]) + 0.4 * X[:, 1]


def half(X):
    return 50 + 0.5 * X[:, 1], np.full(len(X), 0.5)


def level(X):
    return np.full(len(X), 51.0)


MEMBERS = [("near", near), ("half", half), ("level", level)]


def stack(**params):
    settings = {"random_state": 0, "select_members": False, "density": "student-t", "target": "identity"}
    return BayesianStackingRegressor(MEMBERS, **grouped(**{**settings, **params}))


@pytest.fixture(scope="module")
def stacked():
    return stack().fit(X, y)


@pytest.fixture(scope="module")
def networks():
    return BDKNRegressor(**grouped(**{**QUICK, "epochs": 20, "early_stopping": False})).fit(X, y)


@pytest.fixture(params=["stack", "networks"])
def model(request):
    return copy.deepcopy(request.getfixturevalue("stacked" if request.param == "stack" else "networks"))


def same(one, two, rtol=1e-10):
    np.testing.assert_allclose(one.predict(NEW), two.predict(NEW), rtol=rtol)
    np.testing.assert_allclose(one.predict_interval(NEW), two.predict_interval(NEW), rtol=rtol)
    np.testing.assert_allclose(one.weights_, two.weights_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.evidence_, two.evidence_, rtol=rtol)
    np.testing.assert_allclose(one.weight_posterior().scale, two.weight_posterior().scale, rtol=1e-8)


def batch_posterior(model, parts):
    """Return the posterior of the held-out rows of the fit and of parts (X, y, counts), all at once."""
    fitted_model = model.model_
    fitted, held_out = fitted_model.updates.absorbed.fitted, fitted_model.held_out
    forecast = held_out.forecast()
    Phi, targets, precision, counts = [forecast.means], [held_out.y], [forecast.variance**-fitted.tempering], []
    counts.append(np.ones(len(held_out.y)))
    for rows, values, c in parts:
        new = model.model_.forecast(rows)
        outside = fitted_model.extrapolation_for(fitted).outside(rows, fitted.spread(new))
        unit = fitted.tails.scale**2 * fitted.posterior.b / fitted.posterior.a
        Phi.append(new.means)
        targets.append(fitted_model.targets.transform(values))
        noise = fitted.averaging**2 * new.variance**fitted.tempering + outside.variance / unit
        precision.append(1.0 / noise)
        counts.append(np.broadcast_to(c, len(values)))
    joined = [np.concatenate(part) for part in (Phi, targets, precision, counts)]
    stats = Statistics.from_rows(features(joined[0]), joined[1], precision=joined[2], counts=joined[3])
    return posterior(stats, fitted.posterior.prior)


def test_partial_fit_is_the_batch_posterior(model):
    model.partial_fit(A, a).partial_fit(B, b, sample_weight=np.full(len(b), 2.0))
    found, expected = model.combination_.posterior, batch_posterior(model, [(A, a, 1.0), (B, b, 2.0)])
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.precision, expected.precision, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose([found.a, found.b], [expected.a, expected.b], rtol=1e-10)
    assert model.combination_.n == len(y) + len(a) + 2 * len(b)


def test_order_and_batches_do_not_matter(model):
    other = copy.deepcopy(model).partial_fit(np.vstack([B, A]), np.concatenate([b, a]))
    same(model.partial_fit(A, a).partial_fit(B, b), other)


def test_forget_is_never_having_seen(model):
    fit = copy.deepcopy(model)
    model.partial_fit(A, a).partial_fit(B, b).forget(A, a)
    same(model, copy.deepcopy(fit).partial_fit(B, b))
    model.forget(B, b)
    same(model, fit)
    model.partial_fit(A, a).forget()
    assert model.updates_ is None
    np.testing.assert_array_equal(model.predict(NEW), fit.predict(NEW))
    np.testing.assert_array_equal(model.predict_interval(NEW), fit.predict_interval(NEW))


def test_rows_are_forgotten_with_the_weight_they_have_left(stacked):
    model = copy.deepcopy(stacked).partial_fit(A, a).partial_fit(B, b, forgetting=0.5).forget(A, a)
    expected = copy.deepcopy(stacked).partial_fit(B, b, forgetting=0.5)
    same(model, expected)


def test_merge_is_one_model_of_all_rows(model, tmp_path):
    here, there = copy.deepcopy(model).partial_fit(A, a), copy.deepcopy(model).partial_fit(B, b)
    there.statistics().save(tmp_path / "there.bdkn")
    told = RowStatistics.load(tmp_path / "there.bdkn")
    assert told.n == len(b)
    assert (tmp_path / "there.bdkn").stat().st_size < 5000
    both = copy.deepcopy(model).partial_fit(A, a).partial_fit(B, b)
    same(copy.deepcopy(here).merge(told), both)
    same(copy.deepcopy(here).merge(there), both)
    same(copy.deepcopy(model).merge(told).merge(here.statistics()), both)
    with pytest.raises(InvalidParameterError, match="have been merged already"):
        here.merge(told).merge(told)


def test_merging_nothing_changes_nothing(stacked):
    model = copy.deepcopy(stacked).merge(stacked)
    same(model, stacked, rtol=1e-14)


def test_other_members_are_not_merged(stacked):
    other = stack(random_state=1).fit(X[:100], y[:100]).partial_fit(A, a)
    with pytest.raises(InvalidParameterError, match="are of other members: start every site with a copy"):
        copy.deepcopy(stacked).merge(other)
    with pytest.raises(InvalidParameterError, match=r"merge takes a regressor with the same members.*got LinearReg"):
        copy.deepcopy(stacked).merge(LinearRegression())


def test_statistics_are_no_model_and_no_model_is_statistics(networks, tmp_path):
    networks.save(tmp_path / "model.bdkn")
    with pytest.raises(ModelFileError, match="holds a BDKNRegressor, no statistics"):
        RowStatistics.load(tmp_path / "model.bdkn")
    copy.deepcopy(networks).partial_fit(A, a).statistics().save(tmp_path / "told.bdkn")
    with pytest.raises(ModelFileError, match="holds a RowStatistics"):
        bdkn.load(tmp_path / "told.bdkn")


def test_a_model_that_was_updated_goes_on(networks, tmp_path):
    model = copy.deepcopy(networks).partial_fit(A, a, forgetting=0.9)
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    same(loaded.partial_fit(B, b).forget(A, a), model.partial_fit(B, b).forget(A, a), rtol=1e-14)
    assert model.predict_var(NEW, decompose=True).keys() >= {"noise", "weights", "outside"}
    assert model.sample_y(NEW, 3).shape == (30, 3)
    assert np.isfinite(model.member_table()["lower"]).all()
    assert model.without_shape().updates_ is not None
    assert model.support(NEW).ratio.shape == (30,)


def test_members_cannot_change_after_an_update(networks):
    model = copy.deepcopy(networks).partial_fit(A, a)
    with pytest.raises(InvalidParameterError, match=r"members cannot be dropped after rows were absorbed.*forget\(\)"):
        model.drop_members(model.member_names_[0])
    with pytest.raises(InvalidParameterError, match="members cannot be added after rows were absorbed"):
        model.add_members(1, X, y)
    assert model.member_names_[0] not in model.forget().drop_members(model.member_names_[0]).member_names_


def test_noise_follows_drift(stacked):
    rng = np.random.default_rng(0)
    slow, fast = copy.deepcopy(stacked), copy.deepcopy(stacked)
    for _ in range(10):
        rows = rng.normal(2, [1, 5, 0.1], (60, 3))
        targets = near(rows) + 3.0 * rng.normal(size=60)
        slow.partial_fit(rows, targets)
        fast.partial_fit(rows, targets, forgetting=0.5)
    assert stacked.noise_variance_ < slow.noise_variance_ < fast.noise_variance_
    inside = [
        np.mean(np.abs(near(rows) - targets) < model.predict(rows, return_std=True)[1]) for model in (stacked, fast)
    ]
    assert inside[0] < 0.5 < inside[1]
    assert fast.combination_.n == pytest.approx(120 / 2**10 + 60 * sum(0.5**k for k in range(10)))


def test_prior_variance_is_chosen_anew_on_demand(stacked):
    kept = copy.deepcopy(stacked).partial_fit(B, b + 10.0, forgetting=0.1)
    chosen = copy.deepcopy(stacked).partial_fit(B, b + 10.0, forgetting=0.1, refit_prior=True)
    assert kept.prior_variance_ == stacked.prior_variance_ != chosen.prior_variance_
    assert chosen.updates_.absorbed.total.n == kept.updates_.absorbed.total.n
    same(chosen.partial_fit(A, a), copy.deepcopy(chosen).forget(A, a).partial_fit(A, a))


def test_it_fits_a_model_that_is_not_fitted():
    first, second = stack().partial_fit(X, y), stack().fit(X, y)
    np.testing.assert_array_equal(first.predict(NEW), second.predict(NEW))


def test_rows_with_weight_zero_are_not_absorbed(stacked):
    weight = np.r_[np.ones(40), np.zeros(10)]
    same(copy.deepcopy(stacked).partial_fit(A, a, weight), copy.deepcopy(stacked).partial_fit(A[:40], a[:40]))


def test_rows_outside_tell_less(stacked):
    far = A + np.array([0.0, 100.0, 0.0])
    wrong = near(far) + 50.0
    model = copy.deepcopy(stacked).partial_fit(far, wrong)
    inside = copy.deepcopy(stacked).partial_fit(A, near(A) + 50.0)
    assert model.noise_variance_ < 0.2 * inside.noise_variance_
    assert (model.support(far).status == "outside").all()


def test_transformed_targets_keep_their_evidence():
    positive = np.exp((y - 50.0) / 3.0)
    members = [("near", LinearRegression()), ("level", LinearRegression(positive=True))]
    model = BayesianStackingRegressor(members, cv=KFold(3), target="log", density="student-t", random_state=0)
    model.fit(X, positive)
    before, values = copy.deepcopy(model), np.exp((a - 50.0) / 3.0)
    model.partial_fit(A, values)
    # The evidence of more rows is that of the fit times that of the new rows, which Jacobians carry to their own units.
    scaled = model.target_scaler_.log_derivative(model.target_scaler_.transform(values)).sum()
    gained = model.combination_.evidence - before.combination_.evidence
    np.testing.assert_allclose(model.evidence_ - before.evidence_, gained + scaled, rtol=1e-10)
    discounted = copy.deepcopy(model).partial_fit(B, np.exp((b - 50.0) / 3.0), forgetting=0.5)
    targets = model.target_scaler_
    of_fit = targets.log_derivative(model.held_out_.y).sum()
    of_last = targets.log_derivative(targets.transform(np.exp((b - 50.0) / 3.0))).sum()
    slopes = 0.5 * (of_fit + scaled) + of_last
    np.testing.assert_allclose(discounted.evidence_ - discounted.combination_.evidence, slopes, rtol=1e-10)
    same(model.forget(A, values), before)
    with pytest.raises(InvalidParameterError, match=r"targets between 0 and inf.*got y\[0\] = -1"):
        model.partial_fit(A[:1], [-1.0])


@pytest.mark.parametrize(
    ("rows", "targets", "weights"),
    [(B, b, None), (A, a + 1.0, None), (A, a, np.full(50, 2.0)), (A[[0, 0]], a[[0, 0]], None)],
)
def test_rows_that_were_never_there_are_refused(stacked, rows, targets, weights):
    model = copy.deepcopy(stacked).partial_fit(A, a)
    with pytest.raises(InvalidParameterError, match="are not among them, the first at position"):
        model.forget(rows, targets, weights)
    same(model, copy.deepcopy(stacked).partial_fit(A, a), rtol=1e-14)


def test_rows_of_a_merged_model_can_be_forgotten_if_they_fit(stacked):
    model = copy.deepcopy(stacked).partial_fit(A, a).merge(copy.deepcopy(stacked).partial_fit(B, b))
    with pytest.raises(InvalidParameterError, match="must be among those that were added"):
        model.forget(A, a + 50.0)
    same(model.forget(B, b), copy.deepcopy(stacked).partial_fit(A, a))


def test_wrong_calls(stacked):
    model = copy.deepcopy(stacked)
    with pytest.raises(InvalidParameterError, match="this model has absorbed none"):
        model.forget(A, a)
    with pytest.raises(InvalidParameterError, match="or neither; got only one of them"):
        model.forget(A)
    with pytest.raises(InvalidParameterError, match="forgetting must be a number > 0 and <= 1; got 0"):
        model.partial_fit(A, a, forgetting=0)
    with pytest.raises(InvalidParameterError, match="refit_prior must be True or False"):
        model.partial_fit(A, a, refit_prior="yes")
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(A[:, :2], a)
    assert model.updates_ is None


def test_the_published_method_is_not_updated():
    model = BDKNRegressor(n_members=2, epochs=2, design="in-sample", random_state=0).fit(X, y)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(InvalidParameterError, match="design='in-sample' has none"):
        model.statistics()


def test_a_failed_update_changes_nothing(stacked):
    model = copy.deepcopy(stacked)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(A, np.where(np.arange(50) == 3, np.nan, a))
    assert model.updates_ is None


def test_keys_tell_rows_apart():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5000, 4))
    assert len(np.unique(row_keys(rows))) == 5000
    assert row_keys(rows[:, ::-1])[0] != row_keys(rows)[0]
    np.testing.assert_array_equal(row_keys(np.array([[0.0, np.nan]])), row_keys(np.array([[-0.0, -np.nan]])))


def test_memory_is_bounded():
    keys = np.arange(MAX_ROWS + 10, dtype=np.uint64)
    memory = RowMemory().add(keys[:MAX_ROWS], np.ones(MAX_ROWS))
    assert memory.is_complete
    memory = memory.add(keys[MAX_ROWS:], np.full(10, 2.0))
    assert (len(memory), memory.is_complete) == (MAX_ROWS, False)
    weights, left = memory.take(keys[[0, MAX_ROWS]], np.array([7.0, 7.0]))
    np.testing.assert_array_equal(weights, [7.0, 2.0])
    assert len(left) == MAX_ROWS - 1


def test_precision_of_rows_is_fixed_by_the_fit(stacked):
    model = copy.deepcopy(stacked)
    forecast = Forecast.of(np.ones((3, 3)), np.full((3, 1), 0.2))
    first = model.partial_fit(A, a).updates_.absorbed.precision(forecast)
    np.testing.assert_array_equal(first, model.partial_fit(B, b).updates_.absorbed.precision(forecast))
