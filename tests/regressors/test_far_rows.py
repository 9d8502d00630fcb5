"""Predictions far from the training rows, and the report about how far rows are."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quick import QUICK, grouped, table
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import bdkn
from bdkn import BayesianStackingRegressor, BDKNRegressor
from bdkn.errors import InvalidParameterError, OutsideDataWarning

X, y = table()
TREES = [("tree", DecisionTreeRegressor(max_depth=4)), ("stump", DecisionTreeRegressor(max_depth=2))]

pytestmark = pytest.mark.filterwarnings("ignore::bdkn.errors.OutsideDataWarning")


@pytest.fixture(scope="module", params=["networks", "hold-out", "trees"])
def model(request):
    made = {
        "networks": BDKNRegressor(**grouped(**QUICK)),
        "hold-out": BDKNRegressor(**grouped(**QUICK, design="hold-out", cv=0.3)),
        "trees": BayesianStackingRegressor(TREES, random_state=0),
    }
    return made[request.param].fit(X, y)


def without(model):
    """Return the regressor without the widening."""
    return model._with_model(replace(model.model_, extrapolation=None))


def test_training_rows_keep_their_predictions_to_the_bit(model):
    widened, plain = model.predict_dist(X), without(model).predict_dist(X)
    np.testing.assert_array_equal(widened.loc, plain.loc)
    np.testing.assert_array_equal(widened.scale, plain.scale)


def test_rows_inside_about_which_members_agree_keep_their_predictions_to_the_bit(model):
    new = np.vstack([table(400, 1)[0], X[:50] + 1e-3])
    widening = model.model_.extrapolation
    inside = (model.support(new).ratio <= 1.0) & (
        model.combination_.spread(model.model_.forecast(new)) <= widening.usual
    )
    assert inside.sum() >= 100
    widened, plain = model.predict_dist(new), without(model).predict_dist(new)
    np.testing.assert_array_equal(widened.scale[inside], plain.scale[inside])
    np.testing.assert_array_equal(widened.loc, plain.loc)
    assert (widened.scale >= plain.scale).all()


@given(seed=st.integers(0, 10_000), exponent=st.floats(1, 4))
@settings(max_examples=20)
def test_intervals_widen_at_least_linearly_along_every_ray(model, seed, exponent):
    ray = np.random.default_rng(seed).normal(size=3) * X.std(axis=0)
    away = 20.0 * 10.0 ** (exponent - 1)
    near, far = model.predict_dist(X.mean(axis=0) + np.outer([away, 10 * away], ray)).scale
    assert far > 9.0 * near
    least = np.sqrt(0.1) * model.model_.extrapolation.slopes.min() * model.target_scaler_.scale
    beyond = model.model_.extrapolation.support.columns.beyond(X.mean(axis=0) + away * ray[None])
    assert near >= least * np.linalg.norm(beyond) * (1 - 1e-9)


def test_joint_draws_spread_as_the_intervals_and_rows_far_apart_are_independent(model):
    center, unit = X.mean(axis=0), X.std(axis=0)
    rows = np.stack([center, center + 40 * unit, center + 41 * unit, center - 40 * unit])
    mean, cov = model.predict(rows, return_cov=True)
    std = model.predict(rows, return_std=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-9)
    correlation = cov / np.outer(std, std)
    assert correlation[1, 2] > 0.99
    assert abs(correlation[1, 3]) < 0.2
    low, high = np.quantile(model.sample_y(rows, 4000), [0.05, 0.95], axis=1)
    np.testing.assert_allclose(high - low, np.diff(model.predict_interval(rows, 0.9))[:, 0], rtol=0.1)
    np.testing.assert_allclose(mean, model.predict(rows), rtol=1e-9)


def test_the_parts_of_the_variance_add_up(model):
    rows = np.vstack([X[:3], X[:3] + 100 * X.std(axis=0)])
    parts, dist = model.predict_var(rows, decompose=True), model.predict_dist(rows)
    np.testing.assert_array_equal(sum(parts.values()), model.predict_var(rows))
    np.testing.assert_allclose(sum(parts.values()), dist.var(), rtol=1e-9)
    np.testing.assert_array_equal(parts["outside"][:3], 0.0)
    assert (parts["outside"][3:] > 0.5 * dist.var()[3:]).all()


def test_the_report(model):
    rows = np.vstack([X[:2], X[0] + [0, 500, 0], X[0] - [0, 0, 9]])
    report = model.support(rows)
    assert report.status.tolist() == ["inside", "inside", "outside", "outside"]
    assert report.column.tolist() == [None, None, 1, 2]
    np.testing.assert_array_equal(report.ratio[:2], 0.0)
    np.testing.assert_array_equal(report.inside, [1.0, 1.0, 0.0, 0.0])
    assert len(report) == 4
    frame = report.to_frame()
    assert list(frame) == ["ratio", "status", "column", "inside"]
    assert frame.status.tolist() == report.status.tolist()


def test_a_gap_is_within_the_range_of_every_column_and_names_of_columns_are_reported():
    x = np.r_[np.linspace(-2, -1, 60), np.linspace(1, 2, 60)]
    frame = pd.DataFrame({"time": x, "flag": np.arange(120) % 2})
    stack = BayesianStackingRegressor([("line", LinearRegression())], random_state=0).fit(frame, x**2)
    report = stack.support(pd.DataFrame({"time": [0.0, -1.5, 9.0], "flag": [0, 1, 0]}))
    assert report.status.tolist() == ["gap", "inside", "outside"]
    assert report.column.tolist() == ["time", None, "time"]


def test_a_changed_constant_column_and_an_unknown_value_are_outside():
    frame = pd.DataFrame({"x": X[:, 0], "site": 7.0, "kind": np.where(X[:, 1] > 2, "a", "b")})
    stack = BayesianStackingRegressor([("first", lambda rows: np.asarray(rows["x"], float))], random_state=0)
    stack.fit(frame, y)
    new = pd.concat([frame[:1], frame[:1].assign(site=8.0), frame[:1].assign(kind="c")])
    report = stack.support(new)
    assert report.status.tolist() == ["inside", "outside", "outside"]
    assert report.column.tolist() == [None, "site", "kind"]
    widths = np.diff(stack.predict_interval(new))[:, 0]
    assert (widths[1:] > widths[0]).all()


def test_a_saved_model_widens_as_before(model, tmp_path):
    far = X[:4] + 30.0
    if isinstance(model, BayesianStackingRegressor):  # save writes no trees of other libraries
        loaded = pickle.loads(pickle.dumps(model))
    else:
        model.save(tmp_path / "model.bdkn")
        loaded = bdkn.load(tmp_path / "model.bdkn")
    np.testing.assert_array_equal(loaded.predict_dist(far).scale, model.predict_dist(far).scale)
    np.testing.assert_array_equal(loaded.support(far).ratio, model.support(far).ratio)


def test_fewer_members_widen_by_their_own_disagreement():
    model = BDKNRegressor(**grouped(**QUICK, select_members=False)).fit(X, y)
    fewer = model.drop_members(model.member_names_[0])
    assert fewer.model_.extrapolation.usual != model.model_.extrapolation.usual
    assert fewer.model_.extrapolation.support is model.model_.extrapolation.support
    assert fewer.predict_dist(X[:1] + 100.0).scale > 3 * fewer.predict_dist(X[:1]).scale


@pytest.mark.no_cover
@pytest.mark.filterwarnings("error")
def test_one_warning_if_many_rows_are_far_away():
    stack = BayesianStackingRegressor([("networks", BDKNRegressor(**grouped(**QUICK))), *TREES], random_state=0).fit(
        X, y
    )
    far = X + 50 * X.std(axis=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stack.predict_interval(far)
    assert [item.category for item in caught] == [OutsideDataWarning]
    with pytest.warns(OutsideDataWarning, match=r"120 of 120 rows are farther from all training rows"):
        stack.predict(far)
    stack.predict(X)
    stack.predict(far[:5])


def test_models_without_a_summary_of_their_rows():
    model = BDKNRegressor(**grouped(**QUICK, design="in-sample")).fit(X, y)
    assert model.model_.extrapolation is None
    np.testing.assert_array_equal(model.predict_var(X, decompose=True)["outside"], 0.0)
    with pytest.raises(InvalidParameterError, match="fit it again with design='cross-fit'"):
        model.support(X)
