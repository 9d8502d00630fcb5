"""Intervals with a guarantee: from the fits that were made without each row."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from quick import QUICK, grouped
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import bdkn
from bdkn import BayesianStackingRegressor, BDKNRegressor
from bdkn.errors import InvalidParameterError
from bdkn.inference import Prior, Statistics, posterior
from bdkn.inference.combination import features


def noisy(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + (0.1 + 0.3 * np.abs(X[:, 1])) * rng.normal(size=n)


X, y = noisy(200)
NEW, z = noisy(1500, seed=1)
MEMBERS = [("line", LinearRegression()), ("five", KNeighborsRegressor(5)), ("ten", KNeighborsRegressor(10))]


def stack(members=MEMBERS, **params):
    settings = {"random_state": 0, "density": "student-t", "select_members": False, "target": "identity"}
    return BayesianStackingRegressor(members, **grouped(**{**settings, **params}))


@pytest.fixture(scope="module")
def stacked():
    return stack().fit(X, y)


@pytest.fixture(scope="module")
def networks():
    return BDKNRegressor(
        **grouped(
            **{
                **QUICK,
                "early_stopping": False,
                "n_bins": (0, 4),
                "members": ("networks", "linear"),
                "select_members": False,
            }
        )
    ).fit(X, y)


def share_inside(interval, values):
    return np.mean((interval[:, 0] <= values) & (values <= interval[:, 1]))


@pytest.mark.parametrize("kind", ["stacked", "networks"])
@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_coverage_on_new_rows(kind, coverage, request):
    interval = request.getfixturevalue(kind).predict_interval(NEW, coverage, guarantee=True)
    share = share_inside(interval, z)
    assert share >= 2 * coverage - 1
    assert abs(share - coverage) < 0.07


def test_held_out_predictions_are_those_of_the_fits_named(stacked, networks):
    for model in (stacked, networks):
        means, _ = model.model_.members.by_fold(X, model.target_scaler_)
        chosen = np.take_along_axis(means, model.held_out_.fold_of[None].astype(int), axis=0)[0]
        np.testing.assert_allclose(chosen, model.held_out_.means, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_interval_is_the_definition(stacked, is_weighted):
    counts = np.resize([1.0, 3.0], 200) if is_weighted else np.ones(200)
    if is_weighted:
        members = [MEMBERS[0], ("tree", DecisionTreeRegressor(max_depth=3)), ("mean", DummyRegressor())]
        stacked = stack(members, prior_variance=1.0).fit(X, y, sample_weight=counts)
    held_out, combination = stacked.held_out_, stacked.combination_
    forecast, n, τ = held_out.forecast(), len(held_out.y), combination.tempering
    Phi, w = features(forecast.means), forecast.variance**-τ
    means, variances = stacked.model_.members.by_fold(NEW[:3], stacked.target_scaler_)
    known = ~np.isnan(held_out.variances).any(axis=0)
    error = np.average((held_out.means.mean(axis=1) - held_out.y) ** 2, weights=held_out.counts)
    outside = stacked.model_.predict(NEW[:3]).forecast.outside.variance
    unit = combination.tails.scale**2 * combination.posterior.b / combination.posterior.a
    low, high = np.empty((n, 3)), np.empty((n, 3))
    for i in range(n):
        rest, fits = np.arange(n) != i, held_out.fold_of[i]
        stats = Statistics.from_rows(Phi[rest], held_out.y[rest], precision=w[rest], counts=counts[rest])
        β = posterior(stats, Prior.isotropic(4, combination.prior_variance, mean=[1 / 3, 1 / 3, 1 / 3, 0])).mean
        score = np.abs(held_out.y[i] - Phi[i] @ β) * np.sqrt(w[i])
        for j in range(3):
            own = np.array([means[k, j, h] for h, k in enumerate(fits)])
            noise = [variances[fits[h], j, h] for h in np.flatnonzero(known)] or [error]
            width = score * np.sqrt((np.mean(noise) + own.var()) ** τ + outside[j] / unit)
            low[i, j], high[i, j] = own @ β[:-1] + β[-1] - width, own @ β[:-1] + β[-1] + width

    def upper(values):
        order = np.argsort(values)
        return values[order][np.cumsum(counts[order]) >= 0.9 * (counts.sum() + 1)][0]

    expected = np.transpose([[-upper(-low[:, j]) for j in range(3)], [upper(high[:, j]) for j in range(3)]])
    targets = stacked.target_scaler_
    found = stacked.predict_interval(NEW[:3], 0.9, guarantee=True)
    np.testing.assert_allclose(found, targets.mean + targets.scale * expected, rtol=1e-8)


def test_widths_follow_the_noise_and_the_distance(networks):
    width = np.diff(networks.predict_interval(NEW, guarantee=True), axis=1)[:, 0]
    calm, loud = np.abs(NEW[:, 1]) < 0.3, np.abs(NEW[:, 1]) > 1.7
    assert width[loud].mean() > 1.1 * width[calm].mean()
    far = networks.predict_interval(NEW[:5] + 20.0, guarantee=True)
    assert np.diff(far, axis=1).min() > 2.0 * width.max()


def test_shift_makes_intervals_those_of_the_rows_that_matter(stacked):
    own, like = 1.0 * (np.abs(NEW[:, 1]) > 1.2), 1.0 * (np.abs(X[:, 1]) > 1.2)
    loud = own > 0
    plain = stacked.predict_interval(NEW[loud], 0.9, guarantee=True)
    shifted = stacked.predict_interval(NEW[loud], 0.9, guarantee=True, shift=(like, own[loud]))
    assert abs(share_inside(shifted, z[loud]) - 0.9) < 0.07
    assert np.diff(shifted, axis=1).mean() != np.diff(plain, axis=1).mean()
    same = stacked.predict_interval(NEW[:9], 0.9, guarantee=True, shift=(np.ones(200), np.ones(9)))
    np.testing.assert_array_equal(same, stacked.predict_interval(NEW[:9], 0.9, guarantee=True))


def test_a_shift_is_multiplied_by_the_weights_of_the_rows():
    members = [MEMBERS[0], ("tree", DecisionTreeRegressor(max_depth=3))]
    weighted = stack(members).fit(X, y, sample_weight=np.resize([1.0, 5.0], 200))
    plain = weighted.predict_interval(NEW[:9], 0.9, guarantee=True)
    same = weighted.predict_interval(NEW[:9], 0.9, guarantee=True, shift=(np.ones(200), np.ones(9)))
    np.testing.assert_allclose(same, plain, rtol=1e-12)


def test_it_survives_files_and_dropped_members(networks, tmp_path):
    networks.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    expected = networks.predict_interval(NEW, guarantee=True)
    np.testing.assert_array_equal(loaded.predict_interval(NEW, guarantee=True), expected)
    fewer = networks.drop_members(networks.member_names_[-1])
    assert fewer.predict_interval(NEW[:2], guarantee=True).shape == (2, 2)


def test_it_is_refused_while_absorbed_rows_count(networks, tmp_path):
    """Errors on the rows of the fit do not hold for a model that has learned from noisier rows since."""
    louder = z[:600] + 3.0 * np.random.default_rng(2).normal(size=600)
    updated = copy.deepcopy(networks).partial_fit(NEW[:600], louder)
    updated.save(tmp_path / "model.bdkn")
    variants = {
        600: [updated, bdkn.load(tmp_path / "model.bdkn"), copy.deepcopy(networks).merge(updated)],
        400: [copy.deepcopy(updated).forget(NEW[:200], louder[:200])],
        500: [copy.deepcopy(networks).partial_fit(NEW[:500], louder[:500], forgetting=0.5)],
    }
    for n, models in variants.items():
        for model in models:
            with pytest.raises(InvalidParameterError, match=f"absorbed rows since, {n} of which .*call forget"):
                model.predict_interval(NEW, guarantee=True)
            assert np.isfinite(model.predict_interval(NEW[:3])).all()
    np.testing.assert_array_equal(
        updated.forget().predict_interval(NEW, guarantee=True), networks.predict_interval(NEW, guarantee=True)
    )


def test_one_split_and_common_folds_have_intervals_too():
    for model in (stack(cv=KFold(4)), stack(cv="prefit")):
        if model.cv == "prefit":
            model.members = [(name, member.fit(X, y)) for name, member in MEMBERS]
            model.fit(*noisy(100, seed=5))
        else:
            model.fit(X, y)
        assert share_inside(model.predict_interval(NEW, guarantee=True), z) > 0.8


def test_bounds_of_the_target_are_kept():
    positive = np.exp(y)
    model = stack(target="log").fit(X[:15], positive[:15])
    found = model.predict_interval(NEW[:4], 0.99, guarantee=True)
    assert (found[:, 0] == 0.0).all()
    assert np.isposinf(found[:, 1]).all()
    assert (model.predict_interval(NEW, 0.5, guarantee=True)[:, 0] > 0.0).all()


def test_what_is_missing_is_told(stacked):
    refitted = stack(predict_with="refit").fit(X, y)
    with pytest.raises(InvalidParameterError, match="which this model does not keep: fit with predict_with='folds'"):
        refitted.predict_interval(NEW, guarantee=True)
    with pytest.raises(InvalidParameterError, match="shift weighs the rows of intervals with guarantee=True"):
        stacked.predict_interval(NEW, shift=(np.ones(200), np.ones(1500)))
    with pytest.raises(InvalidParameterError, match="for each of the 200 training rows; got shape"):
        stacked.predict_interval(NEW, guarantee=True, shift=(np.ones(3), np.ones(1500)))
    with pytest.raises(InvalidParameterError, match="shift must be a pair of weights"):
        stacked.predict_interval(NEW, guarantee=True, shift=np.ones(3))
    with pytest.raises(InvalidParameterError, match="coverage must be a number"):
        stacked.predict_interval(NEW, 1.5, guarantee=True)
