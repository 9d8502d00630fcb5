"""Copied models are stored without pickle, and nothing invalid is made from a file."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import ensemble, gaussian_process, linear_model, neighbors, svm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import kernels
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler

from bdkn.ensemble import copied_models
from bdkn.ensemble.copied_models import make_estimators
from bdkn.ensemble.scikit_learn import copy_estimator
from bdkn.errors import InvalidParameterError, ModelFileError
from bdkn.storage.archive import pack, read, unpack, write
from bdkn.storage.fields import WrongContentError

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
X[:, 2] = rng.integers(0, 5, 60)
Y = np.exp(X[:, 0]) + np.sin(9.0 * X[:, 2]) + 2.0


class Shifted(RegressorMixin, BaseEstimator):
    """A user's own regressor, which can be stored."""

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X, return_std=False):
        mean = self.mean_ + X[:, 0]
        return (mean, np.full(len(X), 0.5)) if return_std else mean

    def to_arrays(self):
        return {"mean": np.array(self.mean_), "a.b": np.arange(3, dtype=np.int16)}

    @classmethod
    def from_arrays(cls, arrays):
        assert arrays["a.b"].tolist() == [0, 1, 2]
        model = cls()
        model.mean_ = float(arrays["mean"])
        return model


process = gaussian_process.GaussianProcessRegressor(
    kernels.ConstantKernel() * kernels.Matern(np.ones(3), nu=np.inf) + kernels.WhiteKernel(), optimizer=None
)
ESTIMATORS = {
    "boosting": ensemble.HistGradientBoostingRegressor(max_iter=4, categorical_features=[2], min_samples_leaf=2),
    "forest": ensemble.RandomForestRegressor(3, random_state=0),
    "linear": linear_model.PoissonRegressor(),
    "bayesian": linear_model.ARDRegression(),
    "process": make_pipeline(StandardScaler(), process),
    "support vectors": svm.SVR(),
    "neighbors": neighbors.KNeighborsRegressor(),
    "pipeline": make_pipeline(SimpleImputer(), MinMaxScaler(clip=True), PolynomialFeatures(2), linear_model.Ridge()),
    "bagging": ensemble.BaggingRegressor(n_estimators=3, max_features=2, random_state=0),
    "voting": ensemble.VotingRegressor([("a", linear_model.Ridge()), ("b", Shifted())]),
    "log": TransformedTargetRegressor(linear_model.Ridge(), func=np.log, inverse_func=np.exp),
    "scaled": TransformedTargetRegressor(linear_model.Ridge(), transformer=StandardScaler()),
    "own": Shifted(),
    "own in a pipeline": make_pipeline(StandardScaler(), Shifted()),
}


def to_stored(model):
    """Return a model as JSON and arrays."""
    arrays = {}
    return pack(model, arrays, "model"), arrays


def from_stored(tree, arrays, member_classes=()):
    return make_estimators(unpack(tree, dict(arrays), "model"), member_classes)


@pytest.fixture(scope="module")
def copies():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: copy_estimator(estimator.fit(X, Y)) for name, estimator in ESTIMATORS.items()}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_model_from_a_file_predicts_the_same_bits(name, copies, tmp_path):
    tree, arrays = to_stored(copies[name])
    write(tmp_path / "model", arrays, {"tree": tree})
    arrays, document = read(tmp_path / "model")
    loaded = from_stored(document["tree"], arrays, member_classes=[Shifted])
    assert loaded.n_features == copies[name].n_features
    for ours, theirs in zip(loaded.predict_mean_std(X), copies[name].predict_mean_std(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def leaves(tree):
    """Yield, with their containers, all values in a JSON tree."""
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key
        if isinstance(value, dict | list):
            yield from leaves(value)


VALUES = (None, True, -1, 0, 2**31, 1e300, float("nan"), float("inf"), "", "exp", [], {}, {"array": "model"})
NUMBERS = (-(2**31), -2, -1, 0, 1, 7, 255, 2**31 - 1, np.nan, np.inf, -np.inf, 1e300, -1e300)


@settings(max_examples=400)
@given(st.data())
@pytest.mark.filterwarnings("ignore")
def test_damaged_content_is_refused_or_predicts(copies, data):
    """Damaged content is refused, or predicts: nothing crashes, runs forever, or raises another error."""
    tree, arrays = to_stored(copies[data.draw(st.sampled_from(sorted(ESTIMATORS)))])
    tree, arrays = copy.deepcopy(tree), {name: array.copy() for name, array in arrays.items()}
    for _ in range(data.draw(st.integers(1, 2))):
        if data.draw(st.booleans()):
            container, key = data.draw(st.sampled_from(list(leaves(tree))))
            container[key] = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
            continue
        name = data.draw(st.sampled_from(sorted(arrays)))
        array = arrays[name]
        change = data.draw(st.sampled_from(["entry", "entry", "entry", "shorter", "type", "axis", "absent"]))
        if change == "entry" and array.size:
            with np.errstate(all="ignore"):
                number = np.array(data.draw(st.sampled_from(NUMBERS))).astype(array.dtype)
            array.flat[data.draw(st.integers(0, array.size - 1))] = number
        elif change == "shorter" and array.ndim:
            arrays[name] = array[:-1].copy()
        elif change == "type":
            arrays[name] = array.astype(np.float32 if array.dtype == np.float64 else np.float64)
        elif change == "axis":
            arrays[name] = array[..., None].copy()
        elif change == "absent":
            del arrays[name]
            break
    try:
        model = from_stored(tree, arrays, member_classes=[Shifted])
        assert model.predict(X[:, : model.n_features or 3]).shape == (60,)
    except (ModelFileError, ValueError):  # the latter: another number of columns, numbers that overflow
        pass


def tree_arrays(**changes):
    """Return a tree with two leaves, and another with one."""
    given = {
        "n_columns": 1,
        "feature": np.array([0, -1, -1, -1], dtype=np.int32),
        "number": np.array([0.5, 1.0, 2.0, 10.0]),
        "right": np.array([2, 0, 0, 0], dtype=np.int32),
        "missing_left": np.zeros(4, dtype=np.bool_),
        "roots": np.array([0, 3], dtype=np.int32),
        "base": 0.0,
        "average": False,
        "single": False,
        "allow_nan": True,
    }
    return copied_models.Trees(**given | changes)


def ints(*values):
    return np.array(values, dtype=np.int32)


def test_trees_without_a_change_predict():
    np.testing.assert_array_equal(tree_arrays().predict([[0.0], [0.5], [1.0], [np.nan]]), [11.0, 11.0, 12.0, 12.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"right": ints(0, 0, 0, 0)}, "children must follow"),  # a cycle
        ({"right": ints(1, 0, 0, 0)}, "children must follow"),  # both children are one
        ({"right": ints(3, 0, 0, 0)}, "children must follow"),  # the root of the next tree
        ({"right": ints(4, 0, 0, 0)}, "children must follow"),
        ({"right": ints(-1, 0, 0, 0)}, "right must not hold numbers below 0"),
        ({"feature": ints(-1, -1, -1, 0), "right": ints(0, 0, 0, 2)}, "children must follow"),
        ({"feature": ints(1, -1, -1, -1)}, "features must be from 0 to 0"),
        ({"feature": ints(-2, -1, -1, -1)}, "feature must not hold numbers below -1"),
        ({"feature": ints(0, -1, -1)}, "number must have shape"),
        ({"number": np.array([0.5, np.nan, 2.0, 10.0])}, "values of leaves must be finite"),
        ({"number": np.array([0.5, 1.0, np.inf, 10.0])}, "values of leaves must be finite"),
        ({"number": np.array([np.nan, 1.0, 2.0, 10.0])}, "thresholds must be numbers"),
        ({"roots": ints(1, 3)}, "roots must be nodes in order"),
        ({"roots": ints(0, 0, 3)}, "roots must be nodes in order"),
        ({"roots": ints(0, 4)}, "roots must be nodes in order"),
        ({"roots": ints()}, "must have T >= 1"),
        ({"n_columns": 2**30}, "n_columns must be from"),
        ({"base": np.inf}, "base must be finite"),
        ({"categorical": ints(0)}, "each categorical column must have categories"),
        ({"categorical": ints(1), "categories": (np.zeros(1),)}, "a column is categorical once"),
        ({"categorical": ints(0, 0), "categories": (np.zeros(1), np.zeros(1))}, "a column is categorical once"),
        ({"categorical": ints(0), "categories": (np.zeros(2),)}, "categories must be sorted"),
        ({"categorical": ints(0), "categories": (np.arange(257.0),)}, "must have at most 256 categories"),
        ({"categorical": ints(0), "categories": (np.zeros(1),)}, "each categorical split must have a bit set"),
        (
            {
                "categorical": ints(0),
                "categories": (np.zeros(1),),
                "bitsets": np.zeros((1, 32), dtype=np.uint8),
                "number": np.array([-2.0, 1.0, 2.0, 10.0]),
            },
            "each categorical split must have a bit set",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_hostile_trees_are_refused(changes, message):
    with pytest.raises(ModelFileError, match=message):
        from_stored(*to_stored(tree_arrays(**changes)))


def test_trees_that_were_not_read_from_a_file_are_checked_before_compiled_code_sees_them():
    with pytest.raises(WrongContentError, match="children must follow"):
        tree_arrays(right=ints(0, 0, 0, 0)).predict([[1.0]])


def check_refused(model, message, /, **changes):
    with pytest.raises(ModelFileError, match=message):
        from_stored(*to_stored(replace(model, **changes)))


def test_other_hostile_models_are_refused(copies):
    bayesian, process, near = copies["bayesian"], copies["process"].model, copies["neighbors"]
    posterior = replace(bayesian.posterior, columns=np.array([0, 1, 3]))
    check_refused(bayesian, "columns must be from 0 to 2", posterior=posterior)
    check_refused(process, "diagonal of L", L=process.L * 0.0)
    check_refused(process, "L must have shape", L=process.L[:-1])
    check_refused(process, "one length scale", kernel=copied_models.Kernel("RBF", np.ones(2)))
    check_refused(process, "must have 2 values; got 1", kernel=copied_models.Kernel("Matern", np.ones(1)))
    check_refused(process, "must have all parts", kernel=copied_models.Kernel("Sum", np.ones(0)))
    check_refused(process, "values must be above zero", kernel=copied_models.Kernel("RBF", np.zeros(1)))
    check_refused(process, "values must be finite", kernel=copied_models.Kernel("RBF", np.array([np.inf])))
    shifted, nested = copied_models.Kernel("sigmoid", np.ones(2)), copied_models.Kernel("linear", np.ones(0))
    check_refused(process, "must have L, or a kernel of support vectors", kernel=shifted)
    check_refused(copies["support vectors"], "must have L, or", kernel=copied_models.Kernel("RBF", np.ones(1)))
    check_refused(shifted, "values must not be below zero", values=-np.ones(2))
    nested = copied_models.Kernel("Sum", np.ones(0), (nested, nested))
    check_refused(process, "parts must be of Gaussian processes", kernel=nested)
    check_refused(process, "name must be one of", kernel=copied_models.Kernel("PairwiseKernel", np.ones(1)))
    check_refused(near, "n_neighbors must be at most 60; got 61", n_neighbors=61)
    check_refused(copies["pipeline"], "columns of the step before", model=copies["linear"])
    scale = copies["scaled"].inverse
    check_refused(copies["log"], "inverse must be one of identity, exp", inverse="eval")
    check_refused(copies["log"], "one column", inverse=copied_models.Scale(*[np.ones(2)] * 4))
    check_refused(copies["scaled"], "divisors must not be zero", inverse=replace(scale, divisor=np.zeros(1)))
    check_refused(copies["scaled"], "low must not exceed high", inverse=replace(scale, low=1.0, high=0.0))
    bagging, voting = copies["bagging"], copies["voting"]
    (chosen,) = bagging.models[0].transforms
    check_refused(bagging.models[0], "factors must be from 0 to 0", transforms=(replace(chosen, n_columns=1),))
    check_refused(
        bagging.models[0], "columns of the step before", transforms=(replace(chosen, factors=ints(0, 1, 2)[:, None]),)
    )
    check_refused(bagging, "each model must have a weight", weights=np.ones(2))
    check_refused(voting, "a weight must be above zero", weights=np.zeros(2))
    check_refused(voting, "the same columns", models=(copies["linear"], tree_arrays()))
    products = copied_models.Products(2, ints(0, 2).reshape(2, 1))
    check_refused(copies["pipeline"], "factors must be from 0 to 1", transforms=(products,))


def test_a_class_is_made_only_if_it_is_given(copies):
    stored = to_stored(copies["own in a pipeline"])
    with pytest.raises(ModelFileError, match=r"class 'Shifted'.*got 0 classes.*give member_classes=\[Shifted\]"):
        from_stored(*stored)
    with pytest.raises(ModelFileError, match="got 2 classes of this name"):
        from_stored(*stored, member_classes=[Shifted, type("Shifted", (), {})])
    alone = copied_models.UserModel("Shifted", {})
    with pytest.raises(InvalidParameterError, match="loaded without its class"):
        alone.predict(X)
    with pytest.raises(ModelFileError, match=r"Shifted.from_arrays must make an estimator.*KeyError"):
        alone.made_by([Shifted])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([1.0], "must return a dict of arrays by name; got a list"),
        ({1: np.ones(1)}, "must return a dict of arrays by name"),
        ({"a": 1.0}, "'a' is float: convert it"),
        ({"a": np.array(["x"])}, "'a' is <U1: convert it"),
        ({"a": np.ones(1, dtype=complex)}, "'a' is complex128: convert it"),
        (None, r"it raised ZeroDivisionError"),
    ],
)
def test_arrays_of_a_users_class_are_checked_when_they_are_copied(arrays, message):
    class Mine(Shifted):
        def to_arrays(self):
            return 1 / 0 if arrays is None else arrays

    with pytest.raises(InvalidParameterError, match=message):
        copy_estimator(Mine().fit(X, Y))


def test_a_users_class_predicts_standard_deviations(copies):
    np.testing.assert_array_equal(copies["own"].predict_mean_std(X)[1], np.full(60, 0.5))
    np.testing.assert_array_equal(copies["own"].predict(X), Y.mean() + X[:, 0])
