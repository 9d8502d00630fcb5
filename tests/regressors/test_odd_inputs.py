"""Numbers at the edge, and values that are missing or no numbers: the right thing, or an error that names them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from quick import grouped
from sklearn.linear_model import Ridge

from bdkn import BayesianStackingRegressor, BDKNRegressor, CombinationOptions, DeepEnsembleRegressor
from bdkn.errors import DivergedError, InvalidParameterError

QUICK = {"n_members": 2, "epochs": 2, "hidden_layer_sizes": 4, "random_state": 0, "n_jobs": 1}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=40)


def first_column(X):
    return np.asarray(X)[:, 0]


def models():
    members = [("ridge", Ridge()), ("column", first_column)]
    return [
        BDKNRegressor(**grouped(**QUICK, density="student-t")),
        DeepEnsembleRegressor(**grouped(**QUICK)),
        BayesianStackingRegressor(members, random_state=0),
    ]


EACH = pytest.mark.parametrize("model", models(), ids=lambda model: type(model).__name__)


@pytest.fixture(autouse=True)
def _no_arithmetic_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


@EACH
@pytest.mark.parametrize("weight", [1e-300, 5e-324, 1e-9])
def test_weights_that_count_as_no_rows_are_refused(model, weight):
    with pytest.raises(
        InvalidParameterError, match=r"sample_weight counts rows: these 40 rows count as .* nothing can be"
    ):
        model.fit(X, Y, sample_weight=np.full(40, weight))


@EACH
def test_weights_that_count_as_too_many_rows_are_refused(model):
    with pytest.raises(InvalidParameterError, match=r"sample_weight must have a finite sum of at most 1e\+15"):
        model.fit(X, Y, sample_weight=np.full(40, 1e300))


@EACH
def test_some_weights_may_be_tiny(model):
    weights = np.where(np.arange(40) < 20, 1.0, 5e-324)
    assert np.isfinite(model.fit(X, Y, sample_weight=weights).sample_y(X, 2)).all()


@EACH
def test_targets_near_the_largest_number_are_refused_by_row(model):
    with pytest.raises(
        InvalidParameterError, match=r"y must be within ±1e\+\d+; row \d+ is .*: fit to targets in other units"
    ):
        model.fit(X, np.sign(Y) * 1.79e308)


@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(np.float64).max, reason="long doubles are doubles here")
@EACH
def test_long_doubles_beyond_double_precision_are_refused_without_a_warning(model):
    large = np.longdouble("1e4000")
    with pytest.raises(ValueError, match=r"row 3 is inf: fit to targets in other units$|Input y contains infinity"):
        model.fit(X, np.where(np.arange(40) == 3, large, Y))
    with pytest.raises(ValueError, match="Input X contains infinity"):
        model.fit(np.where(np.arange(40)[:, None] == 3, large, X), Y)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        model.fit(X, Y).predict(np.full((1, X.shape[1]), large))


@pytest.mark.parametrize("model", models()[:2], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("unit", [1e-308, 1e300])
def test_the_score_of_targets_in_any_unit(model, unit):
    plain = model.fit(X, Y).score(X, Y)
    assert model.fit(X, unit * Y).score(X, unit * Y) == pytest.approx(plain, abs=1e-4)
    assert np.isfinite(model.predict_interval(X)).all()


@EACH
def test_a_patience_beyond_all_numbers_and_a_coverage_that_is_an_array(model):
    if hasattr(model, "patience"):
        with pytest.raises(
            InvalidParameterError, match=r"patience must be an integer >= 1 and <= 9\.22337e\+18; got 1000"
        ):
            type(model)(**grouped(**{**QUICK, "early_stopping": True, "patience": 10**30})).fit(X, Y)
    model.fit(X, Y)
    with pytest.raises(
        InvalidParameterError, match=r"coverage must be a number >= 0 and <= 1; got array\(\[0\.5, 0\.9\]\)"
    ):
        model.predict_interval(X, np.array([0.5, 0.9]))


MASKED = np.ma.array(X, mask=np.arange(80).reshape(40, 2) == 5)


@EACH
def test_masked_values_dates_and_missing_targets_are_named(model):
    with pytest.raises(InvalidParameterError, match="X must hold a number everywhere; row 2, column 1 is masked"):
        model.fit(MASKED, Y)
    with pytest.raises(InvalidParameterError, match="y must hold a number everywhere; row 3 is masked"):
        model.fit(X, np.ma.array(Y, mask=np.arange(40) == 3))
    with pytest.raises(InvalidParameterError, match="X must hold numbers; got dates"):
        model.fit(np.full((40, 2), np.datetime64("NaT", "D")), Y)
    with pytest.raises(InvalidParameterError, match="sample_weight must hold a number everywhere; row 0 is masked"):
        model.fit(X, Y, np.ma.array(np.ones(40), mask=np.arange(40) == 0))
    model.fit(X, Y)
    with pytest.raises(InvalidParameterError, match="X must hold a number everywhere; row 2, column 1 is masked"):
        model.predict(MASKED)
    with pytest.raises(InvalidParameterError, match="y must hold numbers; got dates"):
        model.log_score(X, np.full(40, np.datetime64("NaT", "D")))


def test_missing_labels_of_every_kind_are_refused():
    pd = pytest.importorskip("pandas")
    labels = np.arange(40) % 4
    for groups in (
        np.ma.array(labels, mask=labels == 1),
        np.where(labels == 1, np.datetime64("NaT"), np.datetime64("2026-01-01")),
        np.array([pd.NA if label == 1 else label for label in labels], dtype=object),
    ):
        with pytest.raises(
            InvalidParameterError, match="groups must hold a label for every row; got nan, None or masked"
        ):
            BDKNRegressor(**grouped(**QUICK)).fit(X, Y, groups=groups)


def test_a_member_that_predicts_beyond_all_squares_is_named():
    model = models()[2].set_params(combination=CombinationOptions(select_members=False), target="identity").fit(X, Y)
    with pytest.raises(DivergedError, match="member 'ridge' must predict numbers of the size of the targets"):
        model.predict(np.full((1, 2), 1e200))


@pytest.mark.parametrize("name", ["epochs", "members", "prior_variance", "n_jobs", "verbose"])
def test_parameters_that_are_arrays_are_refused_by_name(name):
    with pytest.raises(InvalidParameterError, match=name):
        BDKNRegressor(**grouped(**{**QUICK, name: np.array([0.5, 0.9])})).fit(X, Y)


def test_odd_questions_are_refused_by_name():
    model = models()[0].fit(X, Y)
    with pytest.raises(InvalidParameterError, match="background must be a table"):
        model.explain(X, -7)
    with pytest.raises(InvalidParameterError, match="each member to drop must be one of"):
        model.drop_members(1.5)
    with pytest.raises(InvalidParameterError, match=r"grid must be a list of values of the column; got 0\.5"):
        model.partial_dependence(X, 0, 0.5)
    with pytest.raises(
        InvalidParameterError, match=r"quantiles must be a level, or a list of levels; got shape \(1, 1\)"
    ):
        model.predict_quantiles(X, [[0.5]])


@EACH
def test_integers_larger_than_any_float_and_equal_names_are_named(model):
    pd = pytest.importorskip("pandas")
    large = np.array([*Y[:-1].tolist(), 10**400], dtype=object)
    with pytest.raises(InvalidParameterError, match="y must hold numbers of double precision; row 39 is 1000"):
        model.fit(X, large)
    with pytest.raises(InvalidParameterError, match="columns must have different names; got 'a' more than once"):
        model.fit(pd.DataFrame(X, columns=["a", "a"]), Y)


def test_a_member_names_the_column_that_it_cannot_use():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "colour": ["red", "blue"] * 20})
    with pytest.raises(
        InvalidParameterError, match="member 'ridge' cannot be fitted to column 'colour', which holds text"
    ):
        BayesianStackingRegressor([("ridge", Ridge())], random_state=0).fit(frame, Y)


@pytest.mark.parametrize(
    ("name", "value"), [("cv", np.zeros(3)), ("cv", b"x"), ("design", np.array([])), ("upper", 10**400), ("lower", [1])]
)
def test_splits_designs_and_bounds_of_odd_types_are_refused_by_name(name, value):
    with pytest.raises(InvalidParameterError, match=f"{name} must"):
        BDKNRegressor(**grouped(**{**QUICK, name: value})).fit(X, Y)


def test_a_page_takes_finite_targets_and_a_cost_decisions_of_any_size(tmp_path):
    pytest.importorskip("jinja2")
    model = DeepEnsembleRegressor(**grouped(**QUICK)).fit(X, Y)
    with pytest.raises(InvalidParameterError, match="y must be finite; 1 of 40 targets are missing or infinite"):
        model.report(X, np.append(Y[:-1], np.inf))
    with pytest.raises(InvalidParameterError, match="what_if must be True or False"):
        model.report(X, Y, what_if=np.array([0.5, 0.9]))
    with pytest.raises(InvalidParameterError, match="X must hold a number everywhere; row 2, column 1 is masked"):
        model.report(MASKED, Y)
    with pytest.raises(InvalidParameterError, match=r"y must be within ±1e\+150, as the page shows mean squares"):
        model.report(X, 1e200 * Y)
    assert model.explain(X[:2], n_samples=np.int8(2)).values.shape[:2] == (2, 2)
    np.testing.assert_allclose(model.expected_cost(X, (1.0, 0.5), 1e308), 0.5e308)


@pytest.mark.parametrize("name", ["x" * 300 + ".html", "a\0b.html", "missing/page.html", "."])
def test_the_file_of_a_page_is_checked_before_anything_is_computed(tmp_path, name):
    class Never:
        def __getattr__(self, _):
            raise AssertionError("the model was asked")

    from bdkn.report import write_page

    with pytest.raises(InvalidParameterError, match="must be"):
        write_page(Never(), X, Y, tmp_path / name)


def test_numbers_in_extended_precision_and_costs_that_take_no_arrays():
    model = models()[0].fit(X, Y)
    half = np.longdouble("0.5")
    assert np.isfinite(model.partial_dependence(X, 0, coverage=half, max_rows=3).lower).all()
    assert np.isfinite(models()[0].fit(X, Y).partial_fit(X[:3], Y[:3], forgetting=half).predict(X)).all()
    with pytest.raises(InvalidParameterError, match=r"cost must be a function of arrays, .* this one raised TypeError"):
        model.expected_cost(X, int)
    with pytest.raises(InvalidParameterError, match="grid must be a list of values of the column"):
        model.partial_dependence(X, 0, np.array(0.5))
