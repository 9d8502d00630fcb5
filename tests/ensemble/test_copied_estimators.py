"""Copies of scikit-learn's regressors predict what the regressors predict."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn import ensemble, gaussian_process, linear_model, neighbors, svm, tree
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process import kernels
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from bdkn.ensemble import copied_models
from bdkn.ensemble.scikit_learn import copy_estimator
from bdkn.errors import InvalidParameterError

TOLERANCE = 1e-12
"""Largest difference of two predictions, relative to the largest prediction."""


def table(seed=0, n=60, p=3, missing=0.0):
    """Return training samples, their positive targets, and more samples, some values of which are equal."""
    rng = np.random.default_rng(seed)
    X, more = rng.normal(size=(n, p)), rng.normal(size=(2 * n, p))
    X[:, 0], more[:, 0] = np.round(X[:, 0], 1), np.round(more[:, 0], 1)
    y = np.exp(0.5 * X[:, 0]) + np.abs(X[:, -1]) + 0.1 * rng.random(n) + 0.1
    for part in (X, more):
        part[rng.random(part.shape) < missing] = np.nan
    return X, y, np.concatenate([X, more])


def assert_close(ours, theirs):
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * np.abs(theirs).max())


def check_same(estimator, X, y, more):
    """Fit an estimator, and hold its copy to it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of solvers that stop early
        estimator.fit(X, y)
    copied = copy_estimator(estimator)
    assert copied is not None
    assert copied.n_features == X.shape[1]
    assert_close(copied.predict(more), estimator.predict(more))
    return copied


growth = st.fixed_dictionaries(
    {},
    optional={
        "max_depth": st.integers(1, 8),  # 1: stumps
        "max_leaf_nodes": st.integers(2, 12),
        "min_samples_leaf": st.integers(1, 9),
        "max_features": st.floats(0.3, 1.0),
    },
)
shape = {"seed": st.integers(0, 10**6), "n": st.integers(2, 80), "p": st.integers(1, 5)}


@given(
    kind=st.sampled_from(
        [
            ensemble.RandomForestRegressor,
            ensemble.ExtraTreesRegressor,
            tree.DecisionTreeRegressor,
            tree.ExtraTreeRegressor,
        ]
    ),
    growth=growth,
    missing=st.sampled_from([0.0, 0.0, 0.1, 0.6]),
    n_trees=st.integers(1, 5),
    **shape,
)
def test_forests_and_trees(kind, growth, missing, n_trees, seed, n, p):
    X, y, more = table(seed, n, p, missing)
    count = {"n_estimators": n_trees} if issubclass(kind, ensemble.BaseEnsemble) else {}
    check_same(kind(**count, **growth, random_state=0), X, y, more)


@given(
    growth=growth,
    loss=st.sampled_from(["squared_error", "absolute_error", "huber", "quantile"]),
    init=st.sampled_from([None, "zero"]),
    **shape,
)
def test_boosting(growth, loss, init, seed, n, p):
    X, y, more = table(seed, n, p)
    boosting = ensemble.GradientBoostingRegressor(
        n_estimators=7, loss=loss, init=init, subsample=0.8, random_state=0, **growth
    )
    check_same(boosting, X, y, more)


@given(
    loss=st.sampled_from(["squared_error", "absolute_error", "poisson", "gamma"]),
    leaves=st.integers(2, 12),
    missing=st.sampled_from([0.0, 0.2]),
    n_categories=st.integers(0, 30),
    **shape,
)
def test_boosting_of_binned_columns(loss, leaves, missing, n_categories, seed, n, p):
    X, y, more = table(seed, n, p, missing)
    categorical = None
    if n_categories:
        rng = np.random.default_rng(seed)
        values = rng.normal(size=n_categories + 1)
        X[:, -1] = values[rng.integers(0, n_categories, len(X))]
        more[:, -1] = values[rng.integers(0, n_categories + 1, len(more))]  # one is not known
        X[rng.random(n) < missing, -1] = np.nan
        y = y + np.sin(30.0 * np.nan_to_num(X[:, -1])) + 1.0
        categorical = [p - 1]
    if p > 1:
        more[0, 0], more[1, 0] = np.inf, -np.inf
    boosting = ensemble.HistGradientBoostingRegressor(
        max_iter=6, loss=loss, max_leaf_nodes=leaves, min_samples_leaf=1, categorical_features=categorical
    )
    check_same(boosting, X, y, more)


def test_categories_are_split():
    """Bit sets of many categories are read, in trees after the first as well."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=2000), 3.0 * rng.integers(0, 200, 2000) - 50.0, rng.integers(0, 4, 2000)])
    y = rng.normal(size=200)[((X[:, 1] + 50.0) / 3.0).astype(int)] + X[:, 0] * (X[:, 2] == 1.0)
    boosting = ensemble.HistGradientBoostingRegressor(max_iter=20, categorical_features=[2, 1])
    copied = check_same(boosting, X, y, X)
    assert len(copied.bitsets) > 20
    frame = pd.DataFrame(X).astype({1: "category"})
    check_same(ensemble.HistGradientBoostingRegressor(max_iter=5), frame, y, frame)


def test_categories_that_are_text_are_not_copied():
    frame = pd.DataFrame({"a": pd.Categorical(["x", "y"] * 20)})
    assert copy_estimator(ensemble.HistGradientBoostingRegressor().fit(frame, np.arange(40.0))) is None


LINEAR = [
    linear_model.LinearRegression(),
    linear_model.LinearRegression(fit_intercept=False),
    linear_model.Ridge(),
    linear_model.RidgeCV(),
    linear_model.Lasso(0.01),
    linear_model.LassoCV(cv=3),
    linear_model.LassoLars(0.01),
    linear_model.LassoLarsCV(cv=3),
    linear_model.LassoLarsIC(),
    linear_model.Lars(),
    linear_model.LarsCV(cv=3),
    linear_model.ElasticNet(0.01),
    linear_model.ElasticNetCV(cv=3),
    linear_model.OrthogonalMatchingPursuit(n_nonzero_coefs=1),
    linear_model.OrthogonalMatchingPursuitCV(cv=3),
    linear_model.HuberRegressor(),
    linear_model.TheilSenRegressor(random_state=0),
    linear_model.QuantileRegressor(alpha=0.01),
    linear_model.SGDRegressor(random_state=0),
    linear_model.PoissonRegressor(),
    linear_model.GammaRegressor(),
    linear_model.TweedieRegressor(power=0),
    linear_model.TweedieRegressor(power=1.5),
    linear_model.RANSACRegressor(random_state=0),
    svm.LinearSVR(random_state=0),
    svm.SVR(),
    svm.SVR(kernel="linear", epsilon=0.0),
    svm.SVR(kernel="poly", degree=2, coef0=0.5),
    svm.SVR(kernel="sigmoid", gamma=0.1),
    svm.SVR(epsilon=100.0),
    svm.NuSVR(gamma="auto"),
    neighbors.KNeighborsRegressor(),
    neighbors.KNeighborsRegressor(3, weights="distance", p=1, algorithm="kd_tree"),
    neighbors.KNeighborsRegressor(4, metric="chebyshev", algorithm="brute"),
]


@pytest.mark.parametrize("estimator", LINEAR, ids=str)
@pytest.mark.parametrize("p", [2, 4])
def test_linear_models_support_vectors_and_neighbors(estimator, p):
    X, y, more = table(p=p)
    check_same(estimator, X, y, more)


@pytest.mark.parametrize("kind", [linear_model.BayesianRidge, linear_model.ARDRegression])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_bayesian_linear_models_have_standard_deviations(kind, fit_intercept):
    X, y, more = table(p=4)
    X[:, 2] *= 1e-9  # without influence, and therefore without a weight in one of them
    estimator = kind(fit_intercept=fit_intercept)
    copied = check_same(estimator, X + 3.0, y, more + 3.0)
    assert_close(copied.predict_mean_std(more)[1], estimator.predict(more, return_std=True)[1])


def test_samples_are_not_centered_where_the_version_does_not():
    """Of a version whose standard deviations are those of samples as they are, the copy is the same."""
    X, y, more = table(p=2)

    class Former:
        def predict(self, X, return_std=False):
            std = np.sqrt(np.einsum("ij,jk,ik->i", X, fitted.sigma_, X) + 1.0 / fitted.alpha_)
            return fitted.predict(X), std

        def __getattr__(self, name):
            return getattr(fitted, name)

    fitted = linear_model.BayesianRidge().fit(X + 3.0, y)
    Former.__name__, Former.__module__ = "BayesianRidge", "sklearn"
    copied = copy_estimator(Former())
    assert_close(copied.predict_mean_std(more)[1], Former().predict(more, return_std=True)[1])


covariances = st.recursive(
    st.one_of(
        st.just(kernels.WhiteKernel(0.3)),
        st.builds(kernels.ConstantKernel, st.floats(0.1, 3.0)),
        st.builds(kernels.DotProduct, st.floats(0.1, 3.0)),
        st.builds(kernels.RBF, st.floats(0.3, 3.0)),
        st.builds(lambda a, b: kernels.RBF(np.array([a, b])), st.floats(0.3, 3.0), st.floats(0.3, 3.0)),
        st.builds(kernels.Matern, st.floats(0.3, 3.0), nu=st.sampled_from([0.5, 1.2, 1.5, 2.5, np.inf])),
        st.just(kernels.Matern(np.array([0.7, 2.0]), nu=2.5)),
        st.builds(kernels.RationalQuadratic, st.floats(0.3, 3.0), st.floats(0.3, 3.0)),
    ),
    lambda part: st.one_of(
        st.builds(kernels.Sum, part, part),
        st.builds(kernels.Product, part, part),
        st.builds(kernels.Exponentiation, part, st.sampled_from([1.0, 2.0])),
    ),
    max_leaves=4,
)


@given(kernel=covariances, normalize=st.booleans(), seed=st.integers(0, 99))
def test_gaussian_processes(kernel, normalize, seed):
    X, y, more = table(seed, n=20, p=2)
    process = gaussian_process.GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None, normalize_y=normalize)
    copied = check_same(process, X, y, more)
    mean, std = copied.predict_mean_std(more)
    assert_close(mean, process.predict(more))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # variances below zero
        # A variance is the difference of larger numbers, of which the square root is taken.
        np.testing.assert_allclose(std**2, process.predict(more, return_std=True)[1] ** 2, rtol=1e-9, atol=1e-9)


def test_a_periodic_gaussian_process():
    X, y, more = table(p=1)
    kernel = kernels.ExpSineSquared(0.7, 1.3) + kernels.WhiteKernel(0.1)
    check_same(gaussian_process.GaussianProcessRegressor(kernel, optimizer=None), X, y, more)


def test_blocks_of_rows_do_not_matter(monkeypatch):
    X, y, more = table()
    process = gaussian_process.GaussianProcessRegressor(kernels.RBF() + kernels.WhiteKernel(), optimizer=None)
    forest = ensemble.RandomForestRegressor(3, random_state=0)
    whole = [copy_estimator(model.fit(X, y)).predict_mean_std(more) for model in (process, forest)]
    monkeypatch.setattr(copied_models, "LARGE_CELLS", 7 * len(X))
    monkeypatch.setattr(copied_models, "ROWS_PER_BLOCK", 11)
    parts = [copy_estimator(model).predict_mean_std(more) for model in (process, forest)]
    assert_close(parts[0][0], whole[0][0])
    assert_close(parts[0][1], whole[0][1])
    np.testing.assert_array_equal(parts[1][0], whole[1][0])


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [StandardScaler(with_mean=False), "passthrough"],
        [StandardScaler(with_std=False)],
        [MinMaxScaler((-1, 2))],
        [MinMaxScaler(clip=True)],
        [RobustScaler()],
        [RobustScaler(with_centering=False)],
        [MaxAbsScaler(), PolynomialFeatures(3)],
        [PolynomialFeatures(2, interaction_only=True, include_bias=False), StandardScaler()],
        [SimpleImputer(strategy="median"), PolynomialFeatures((2, 3))],
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "last",
    [ensemble.ExtraTreesRegressor(5, random_state=0), linear_model.Ridge(0.1), linear_model.BayesianRidge()],
    ids=str,
)
def test_pipelines(steps, last):
    X, y, more = table(missing=0.1 if isinstance(steps[0], SimpleImputer) else 0.0)
    pipeline = make_pipeline(*steps, last)
    copied = check_same(pipeline, X, y, more)
    if isinstance(last, linear_model.BayesianRidge):
        assert_close(copied.predict_mean_std(more)[1], pipeline.predict(more, return_std=True)[1])


def test_missing_values_pass_a_scaler():
    X, y, more = table(missing=0.2)
    check_same(make_pipeline(StandardScaler(), ensemble.HistGradientBoostingRegressor()), X, y, more)


@pytest.mark.parametrize(
    "target",
    [
        {},
        {"func": np.log, "inverse_func": np.exp},
        {"func": np.sqrt, "inverse_func": np.square},
        {"transformer": StandardScaler()},
        {"transformer": MinMaxScaler((1, 3))},
        {"transformer": RobustScaler()},
        {"transformer": MaxAbsScaler()},
    ],
    ids=str,
)
def test_transformed_targets(target):
    X, y, more = table()
    check_same(TransformedTargetRegressor(linear_model.Ridge(), **target), X, y, more)


def test_averages_and_searches():
    X, y, more = table(p=5)
    trees = tree.DecisionTreeRegressor(max_depth=3)
    check_same(ensemble.BaggingRegressor(trees, 5, max_features=0.6, random_state=0), X, y, more)
    members = [("ridge", linear_model.Ridge()), ("out", "drop"), ("tree", trees)]
    check_same(ensemble.VotingRegressor(members), X, y, more)
    check_same(ensemble.VotingRegressor(members, weights=[1, 9, 3]), X, y, more)
    check_same(GridSearchCV(linear_model.Ridge(), {"alpha": [0.1, 1.0]}, cv=2), X, y, more)


def test_frames_and_sparse_tables_are_read():
    X, y, more = table()
    forest = ensemble.RandomForestRegressor(3, random_state=0).fit(X, y)
    copied = copy_estimator(forest)
    expected = forest.predict(more)
    more[np.abs(more) < 0.5] = 0.0
    np.testing.assert_array_equal(copied.predict(sparse.csc_matrix(more)), forest.predict(more))
    assert copied.predict(pd.DataFrame(X)).shape == y.shape
    assert (expected != forest.predict(more)).any()


def test_read_only_samples_are_read():
    X, y, more = table()
    copied = copy_estimator(ensemble.HistGradientBoostingRegressor().fit(X, y))
    expected = copied.predict(more)
    more.setflags(write=False)
    np.testing.assert_array_equal(copied.predict(more), expected)


class Subclass(linear_model.Ridge):
    pass


class Own(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


X, Y, _ = table()
TWO = np.column_stack([Y, Y])


@pytest.mark.parametrize(
    "estimator",
    [
        Subclass().fit(X, Y),
        Own(),
        lambda X: X[:, 0],
        linear_model.Ridge,
        linear_model.Ridge(),
        "drop",
        linear_model.Ridge().fit(X, TWO),
        tree.DecisionTreeRegressor().fit(X, TWO),
        neighbors.KNeighborsRegressor().fit(X, TWO),
        gaussian_process.GaussianProcessRegressor(alpha=1.0).fit(X, TWO),
        gaussian_process.GaussianProcessRegressor(kernels.PairwiseKernel(), alpha=1.0).fit(X, Y),
        neighbors.KNeighborsRegressor(weights=np.ones_like).fit(X, Y),
        neighbors.KNeighborsRegressor(metric="canberra").fit(X, Y),
        svm.SVR(kernel=lambda a, b: a @ b.T).fit(X, Y),
        svm.SVR().fit(sparse.csr_matrix(X), Y),
        ensemble.GradientBoostingRegressor(init=linear_model.Ridge()).fit(X, Y),
        make_pipeline(QuantileTransformer(n_quantiles=5), linear_model.Ridge()).fit(X, Y),
        make_pipeline(FunctionTransformer(), linear_model.Ridge()).fit(X, Y),
        make_pipeline(SimpleImputer(add_indicator=True), linear_model.Ridge()).fit(X, Y),
        make_pipeline(SimpleImputer(missing_values=0.0), linear_model.Ridge()).fit(X, Y),
        make_pipeline(StandardScaler(), Own()).fit(X, Y),
        TransformedTargetRegressor(linear_model.Ridge(), func=np.log, inverse_func=lambda y: np.exp(y)).fit(X, Y),
        TransformedTargetRegressor(linear_model.Ridge(), transformer=QuantileTransformer(n_quantiles=5)).fit(X, Y),
        TransformedTargetRegressor(linear_model.Ridge()).fit(X, Y[:, None]),
        DummyRegressor().fit(X, Y),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_what_has_no_copy(estimator):
    assert copy_estimator(estimator) is None


def test_an_imputer_that_drops_columns_has_no_copy():
    with_empty = np.column_stack([X, np.full(len(X), np.nan)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = make_pipeline(SimpleImputer(), linear_model.Ridge()).fit(with_empty, Y)
    assert copy_estimator(pipeline) is None


def test_numbers_that_are_not_finite_are_not_copied():
    ridge = linear_model.Ridge().fit(X, Y)
    ridge.coef_[1] = np.nan
    assert copy_estimator(ridge) is None


def test_attributes_of_another_version_are_not_copied():
    forest = ensemble.HistGradientBoostingRegressor(max_iter=1).fit(X, Y)
    del forest._predictors
    assert copy_estimator(forest) is None


def test_a_copy_does_not_change_with_its_estimator():
    ridge = linear_model.Ridge().fit(X, Y)
    copied, expected = copy_estimator(ridge), ridge.predict(X)
    ridge.coef_ *= 2.0
    np.testing.assert_array_equal(copied.predict(X), expected)


@pytest.mark.parametrize(
    ("estimator", "value"),
    [
        (linear_model.Ridge(), np.nan),
        (ensemble.GradientBoostingRegressor(n_estimators=2), np.nan),
        (ensemble.RandomForestRegressor(2), np.inf),
        (ensemble.RandomForestRegressor(2), 1e300),
        (gaussian_process.GaussianProcessRegressor(alpha=1.0), np.inf),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_samples_that_the_estimator_refuses_are_refused(estimator, value):
    copied, bad = copy_estimator(estimator.fit(X, Y)), X.copy()
    bad[3, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        estimator.predict(bad)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        copied.predict(bad)


def test_another_number_of_columns_is_refused():
    copied = copy_estimator(linear_model.Ridge().fit(X, Y))
    with pytest.raises(InvalidParameterError, match=r"X must have 3 columns, as in fit; got 2"):
        copied.predict(X[:, :2])
