from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    RandomizedSearchCV,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import bdkn
from bdkn import BayesianStackingRegressor
from bdkn.errors import InvalidParameterError
from bdkn.metrics import crps, neg_crps, neg_nll, nll
from bdkn.plots import CalibrationDisplay, PITDisplay, WeightsDisplay
from bdkn.predictive import Gaussian, GaussianMixture, StudentT, StudentTMixture, Transformed


class Line(RegressorMixin, BaseEstimator):
    """Least squares on all columns, with a constant spread."""

    def __init__(self, spread: float = 0.5) -> None:
        self.spread = spread

    def fit(self, X, y, sample_weight=None):
        self.coef_ = np.linalg.lstsq(self._design(X), np.asarray(y), rcond=None)[0]
        self.n_fitted_, self.weights_ = len(y), sample_weight
        return self

    def _design(self, X):
        return np.column_stack([np.ones(len(X)), np.asarray(X)])

    def predict_dist(self, X):
        return Gaussian(self._design(X) @ self.coef_, self.spread)

    def predict(self, X):
        return self.predict_dist(X).mean()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    return X, np.exp(0.5 * X[:, 0] + 0.3 * rng.normal(size=120) + 1.0)


def first_column(X):
    return np.asarray(X)[:, 0]


def stack(**options):
    return BayesianStackingRegressor([("column", first_column)], density="student-t", random_state=0, **options)


class TestWrappers:
    def test_each_wrapper_predicts_what_its_regressor_does(self, data):
        X, y = data
        scaled = StandardScaler().fit_transform(X)
        plain, inner = Line().fit(X, y).predict_dist(X), Line().fit(scaled, y).predict_dist(scaled)
        wrapped = {
            "pipeline": (make_pipeline(StandardScaler(), "passthrough", Line()), inner),
            "grid": (GridSearchCV(Line(), {"spread": [0.5]}, scoring=neg_nll), plain),
            "random": (RandomizedSearchCV(Line(), {"spread": [0.5]}, n_iter=1, scoring=neg_nll), plain),
            "halving": (HalvingGridSearchCV(Line(), {"spread": [0.5]}, scoring=neg_nll), plain),
            "frozen": (FrozenEstimator(Line().fit(X, y)), plain),
            "frozen pipeline": (FrozenEstimator(make_pipeline(StandardScaler(), Line()).fit(X, y)), inner),
            "nested": (
                GridSearchCV(make_pipeline(StandardScaler(), make_pipeline(Line())), {"pipeline__line__spread": [0.5]}),
                inner,
            ),
        }
        for name, (estimator, expected) in wrapped.items():
            dist = bdkn.predict_dist(estimator.fit(X, y), X)
            np.testing.assert_allclose(dist.mean(), expected.mean(), err_msg=name)
            np.testing.assert_allclose(bdkn.predict_std(estimator, X), 0.5, err_msg=name)

    def test_feature_elimination(self, data):
        X, y = data

        model = RFE(Line(), n_features_to_select=1, importance_getter=lambda line: line.coef_[1:]).fit(X, y)
        np.testing.assert_allclose(bdkn.predict_dist(model, X).mean(), model.predict(X))

    def test_own_methods_and_functions_agree(self, data):
        X, y = data
        model = stack().fit(X, y)
        np.testing.assert_array_equal(bdkn.predict_interval(model, X, 0.8), model.predict_interval(X, 0.8))
        np.testing.assert_allclose(bdkn.predict_quantiles(model, X, [0.1, 0.6]), model.predict_quantiles(X, [0.1, 0.6]))
        np.testing.assert_array_equal(bdkn.predict_above(model, X, 3.0), model.predict_above(X, 3.0))
        np.testing.assert_array_equal(
            bdkn.expected_cost(model, X, (2.0, 1.0), 3.0), model.expected_cost(X, (2.0, 1.0), 3.0)
        )
        order = bdkn.optimal_order(make_pipeline(model), X, under=2.0, over=1.0)
        np.testing.assert_array_equal(order.quantity, model.optimal_order(X, under=2.0, over=1.0).quantity)

    def test_estimators_that_cannot_predict_distributions_are_named(self, data):
        X, y = data
        with pytest.raises(InvalidParameterError, match=r"must have predict_dist\(X\).*got StandardScaler"):
            bdkn.predict_dist(StandardScaler().fit(X), X)
        search = GridSearchCV(Line(), {"spread": [0.5]}, scoring=neg_nll, refit=False).fit(X, y)
        with pytest.raises(InvalidParameterError, match="must keep its best estimator, refit=True"):
            bdkn.predict_interval(search, X)
        with pytest.raises(InvalidParameterError, match=r"must be fitted.*TransformedTargetRegressor.*call its fit"):
            bdkn.predict_dist(TransformedTargetRegressor(Line(), func=np.log, inverse_func=np.exp), X)

    def test_scorers_and_displays_take_wrapped_estimators(self, data):
        pytest.importorskip("matplotlib")
        X, y = data
        model = TransformedTargetRegressor(
            make_pipeline(StandardScaler(), stack(target="identity")), func=np.log, inverse_func=np.exp
        )
        model.fit(X, y)
        dist = bdkn.predict_dist(model, X)
        assert neg_nll(model, X, y) == pytest.approx(-nll(y, dist))
        assert neg_crps(model, X, y) == pytest.approx(-crps(y, dist))
        np.testing.assert_allclose(
            PITDisplay.from_estimator(model, X, y).data.density, PITDisplay.from_predictions(y, dist).data.density
        )
        assert CalibrationDisplay.from_estimator(model, X, y).data.rows == len(y)
        assert WeightsDisplay.from_estimator(model).data.names == ["column"]


MAPS = {
    "log": ({"func": np.log, "inverse_func": np.exp}, 1.0),
    "log1p": ({"func": np.log1p, "inverse_func": np.expm1}, 1.0),
    "log10": ({"func": np.log10, "inverse_func": lambda z: 10.0**z}, 0.3),
    "log2": ({"func": np.log2, "inverse_func": np.exp2}, 1.0),
    "sqrt": ({"func": np.sqrt, "inverse_func": np.square}, 0.2),
    "arcsinh": ({"func": np.arcsinh, "inverse_func": np.sinh}, 0.5),
    "standard": ({"transformer": StandardScaler()}, 0.5),
    "robust": ({"transformer": RobustScaler()}, 0.5),
    "range": ({"transformer": MinMaxScaler((-1.0, 1.0))}, 0.2),
    "largest": ({"transformer": MaxAbsScaler()}, 0.1),
    "yeo-johnson": ({"transformer": PowerTransformer()}, 0.3),
    "yeo-johnson, not standardized": ({"transformer": PowerTransformer(standardize=False)}, 0.05),
    "box-cox": ({"transformer": PowerTransformer(method="box-cox")}, 0.3),
    "quantiles": ({"transformer": QuantileTransformer(n_quantiles=50, output_distribution="normal")}, 0.5),
    "levels": ({"transformer": QuantileTransformer(n_quantiles=50)}, 0.1),
    "pipeline": ({"transformer": make_pipeline(FunctionTransformer(np.log1p, np.expm1), StandardScaler())}, 0.5),
}


class TestTransformedTargets:
    @pytest.mark.parametrize(("options", "spread"), MAPS.values(), ids=MAPS)
    def test_quantiles_are_those_of_the_transformer(self, data, options, spread):
        X, y = data
        model = TransformedTargetRegressor(Line(spread), **options).fit(X, y)
        dist, inner = bdkn.predict_dist(model, X), model.regressor_.predict_dist(X)
        levels, ends = np.tile([0.3, 0.5, 0.7], (len(X), 1)), np.array([-np.inf, np.inf])
        if isinstance(dist, Transformed) and not dist._is_whole:  # the inner distribution is truncated
            bounds = np.clip(dist.link.support, -1e60, 1e60)
            ends = model.transformer_.transform(np.where(bounds == 0.0, 1e-300, bounds)[:, None]).ravel()
        low, high = inner.cdf(np.tile(ends, (len(X), 1))).T[:, :, None]
        z = inner.loc[:, None] + spread * norm.ppf(low + levels * (high - low))
        expected = np.column_stack([model.transformer_.inverse_transform(column[:, None]) for column in z.T])
        central = (inner.loc > ends[0]) & (inner.loc < ends[1])
        assert central.sum() > 100
        np.testing.assert_allclose(dist.ppf([0.3, 0.5, 0.7])[central], expected[central], rtol=1e-6)

    @pytest.mark.parametrize(("options", "spread"), MAPS.values(), ids=MAPS)
    def test_densities_integrate_to_the_distribution_function(self, data, options, spread):
        X, y = data
        dist = bdkn.predict_dist(TransformedTargetRegressor(Line(spread), **options).fit(X, y), X)[:5]
        ends = dist.ppf([0.2, 0.8])
        grid = ends[:, :1] + np.linspace(0.0, 1.0, 20001) * (ends[:, 1:] - ends[:, :1])
        np.testing.assert_allclose(np.trapezoid(dist.pdf(grid), grid, axis=1), 0.6, rtol=2e-3)

    def test_the_logarithm_of_a_gaussian_is_the_lognormal(self, data):
        X, y = data
        model = TransformedTargetRegressor(Line(0.4), func=np.log, inverse_func=np.exp).fit(X, y)
        dist, mean = bdkn.predict_dist(model, X), model.regressor_.predict(X)
        np.testing.assert_allclose(dist.mean(), np.exp(mean + 0.08), rtol=1e-5)
        np.testing.assert_allclose(bdkn.predict_above(model, X, 3.0), norm.sf((np.log(3.0) - mean) / 0.4), atol=1e-12)
        np.testing.assert_allclose(bdkn.predict_interval(model, X, 0.5)[:, 1], np.exp(mean + 0.4 * norm.ppf(0.75)))
        assert bdkn.predict_above(model, X, -1.0).min() == 1.0

    def test_shares_by_their_logit(self):
        X = np.linspace(-2.0, 2.0, 60)[:, None]
        y = expit(X[:, 0] + 0.1 * np.random.default_rng(0).normal(size=60))
        model = TransformedTargetRegressor(Line(0.2), func=logit, inverse_func=expit).fit(X, y)
        np.testing.assert_allclose(bdkn.predict_dist(model, X).median(), expit(model.regressor_.predict(X)))

    def test_a_transformed_target_in_a_transformed_target(self, data):
        X, y = data
        inner = TransformedTargetRegressor(Line(0.4), transformer=StandardScaler())
        outer = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(X, y)
        np.testing.assert_allclose(bdkn.predict_dist(outer, X).median(), outer.predict(X))

    def test_values_of_a_discrete_target_stay_values(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 1))
        y = rng.poisson(np.exp(0.5 + 0.4 * X[:, 0])).astype(float)
        model = TransformedTargetRegressor(stack(target="identity"), func=np.log1p, inverse_func=np.expm1).fit(X, y)
        inner = model.regressor_
        assert inner.target_values_.is_discrete
        ends = bdkn.predict_interval(model, X)
        np.testing.assert_allclose(ends, np.round(ends), atol=1e-12)
        np.testing.assert_allclose(bdkn.predict_quantiles(model, X, 0.9), np.expm1(inner.predict_quantiles(X, 0.9)))
        values = inner.predict_values(X)
        np.testing.assert_allclose(
            bdkn.predict_above(model, X, 1.5), sum(p for v, p in values.items() if np.expm1(v) > 1.5), atol=1e-12
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"func": np.negative, "inverse_func": np.negative}, "known to increase.*got func=negative"),
            ({"func": np.log, "inverse_func": np.expm1, "check_inverse": False}, "and its inverse.*inverse_func=expm1"),
            ({"transformer": QuantileTransformer(n_quantiles=50)}, "fewer n_quantiles, or a PowerTransformer"),
        ],
    )
    def test_other_functions_are_refused(self, data, options, message):
        X, y = data
        y = np.round(y, 0) + 1.0 if "transformer" in options else y
        model = TransformedTargetRegressor(Line(), **options).fit(X, y)
        with pytest.raises(InvalidParameterError, match=message):
            bdkn.predict_dist(model, X)

    def test_unknown_transformers_are_refused(self, data):
        class Shift(BaseEstimator):
            def fit(self, y):
                return self

            def transform(self, y):
                return y + 1.0

            def inverse_transform(self, z):
                return z - 1.0

        X, y = data
        model = TransformedTargetRegressor(Line(), transformer=Shift()).fit(X, y)
        with pytest.raises(InvalidParameterError, match=r"needs a transformer that is known to increase: .*got Shift"):
            bdkn.predict_dist(model, X)


class Kinds(Line):
    """Predicts a distribution of another kind in each fold."""

    def predict_dist(self, X):
        mean, n = self._design(X) @ self.coef_, len(X)
        ones = np.ones((n, 1))
        kinds = (
            Gaussian(mean, 0.5),
            StudentT(4.0, mean, 0.5),
            GaussianMixture(np.column_stack([mean, mean + 1.0]), 0.5),
            StudentTMixture(5.0, mean, 0.5, 0.5, -ones, 0.3 * ones, 0.5 * ones),
            Transformed(Gaussian(np.log(np.abs(mean) + 1.0), 0.1), bdkn.predictive.LogLink()),
        )
        return kinds[round(1e6 * abs(self.coef_[0])) % 5]


class TestCrossValidation:
    def test_each_row_is_predicted_by_a_model_without_it(self, data):
        X, y = data
        dist = bdkn.cross_val_predict_dist(Line(), X, y, cv=KFold(4, shuffle=True, random_state=0))
        assert isinstance(dist, Gaussian)
        for train, test in KFold(4, shuffle=True, random_state=0).split(X):
            np.testing.assert_allclose(dist[test].mean(), Line().fit(X[train], y[train]).predict(X[test]))

    def test_any_kinds_are_joined(self, data):
        X, y = data
        dist = bdkn.cross_val_predict_dist(Kinds(), X, y, cv=6)
        kinds = set()
        for train, test in KFold(6).split(X):
            own = Kinds().fit(X[train], y[train]).predict_dist(X[test])
            kinds.add(type(own))
            np.testing.assert_allclose(dist[test].mean(), own.mean())
            np.testing.assert_allclose(dist[test].ppf([0.1, 0.9]), own.ppf([0.1, 0.9]))
            np.testing.assert_allclose(dist.logpdf(y)[test], own.logpdf(y[test]))
            np.testing.assert_allclose(dist.crps(y)[test], own.crps(y[test]))
        assert len(kinds) > 1

    def test_frames_pipelines_groups_and_weights(self, data):
        pandas = pytest.importorskip("pandas")
        X, y = data
        frame, groups = pandas.DataFrame(X, columns=["a", "b"]), np.arange(120) % 7
        model = make_pipeline(StandardScaler(), Line())
        dist = bdkn.cross_val_predict_dist(
            model, frame, y, cv=GroupKFold(3), groups=groups, params={"line__sample_weight": np.ones(120)}
        )
        for train, test in GroupKFold(3).split(X, y, groups):
            expected = make_pipeline(StandardScaler(), Line()).fit(X[train], y[train]).predict(X[test])
            np.testing.assert_allclose(dist[test].mean(), expected)
        assert not hasattr(model[-1], "coef_")

    def test_rows_that_are_never_held_out(self, data):
        with pytest.raises(InvalidParameterError, match=r"of the 120 rows must be held out once.*20 are never"):
            bdkn.cross_val_predict_dist(Line(), *data, cv=TimeSeriesSplit(5))
