"""Methods to compare: those of this library, and those of other libraries that are installed, with usual encoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

from bdkn.errors import InvalidParameterError, check_choice

if TYPE_CHECKING:
    from bdkn.predictive import Gaussian
    from bdkn.typing import FloatArray

Moments = Callable[[Any, Any], tuple[Any, Any]]
"""A function from a fitted model and rows to means and standard deviations."""

Stop = Callable[[Any, Any], dict[str, Any]]
"""A function from rows and targets left out to the arguments of a fit that stops when they are predicted worse."""

_LEAST_ROWS = 50
"""With fewer rows than this none is left out to stop a fit."""

_FEW_VALUES = 12
"""Categories with more values than this are encoded by the mean target of a value."""


@dataclass(frozen=True)
class Method:
    """A method by name: the package that it needs, the most rows that it can be fitted to, and how to make it."""

    title: str
    make: Callable[[int, str], Any]
    package: str = "bdkn"
    most_rows: int | None = None

    @property
    def is_installed(self) -> bool:
        """Whether its package is installed."""
        return find_spec(self.package) is not None


class EncodedPeer:
    """A regressor of another library behind the usual encoders, that predicts Gaussians."""

    def __init__(self, model: Any, moments: Moments, stop: Stop | None = None) -> None:
        self.model, self.moments, self.stop = model, moments, stop

    def fit(self, X: Any, y: FloatArray) -> Self:
        """Fit encoders and model to training rows; a model that is stopped early, to nine tenths of them."""
        self.encoder = usual_encoder(X)
        inputs, validation = self.encoder.fit_transform(plain_frame(X), y), {}
        if self.stop is not None and len(y) >= _LEAST_ROWS:
            from sklearn.model_selection import train_test_split

            inputs, left_X, y, left_y = train_test_split(inputs, y, test_size=0.1, random_state=0)
            validation = self.stop(left_X, left_y)
        self.model.fit(inputs, y, **validation)
        return self

    def predict_dist(self, X: Any) -> Gaussian:
        """Return the Gaussian of each row."""
        import numpy as np

        from bdkn.predictive import Gaussian

        mean, std = self.moments(self.model, self.encoder.transform(plain_frame(X)))
        return Gaussian(np.asarray(mean), np.maximum(np.asarray(std), 1e-9))


class QuantileBoosting:
    """Boosted trees of scikit-learn: one model of the mean, and one for each end of the 90 % interval."""

    def __init__(self, seed: int) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor as Boosting

        self.mean = Boosting(random_state=seed)
        self.ends = [Boosting(loss="quantile", quantile=level, random_state=seed) for level in (0.05, 0.95)]

    def fit(self, X: Any, y: FloatArray) -> Self:
        """Fit the three models."""
        for model in (self.mean, *self.ends):
            model.fit(X, y)
        return self

    def moments(self, X: Any) -> tuple[Any, Any]:
        """Return the mean, and the standard deviation of the Gaussian whose 90 % interval is as wide."""
        lower, upper = (model.predict(X) for model in self.ends)
        return self.mean.predict(X), (upper - lower) / (2 * 1.6448536269514722)


def plain_frame(X: Any) -> Any:
    """Return a data frame in which dates and booleans are numbers, and everything else but numbers is text."""
    import numpy as np
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

    frame = X.copy()
    for name, column in X.items():
        if is_datetime64_any_dtype(column.dtype):
            days = column.to_numpy().astype("datetime64[us]")
            frame[name] = np.where(np.isnat(days), np.nan, days.astype(np.int64) / 86.4e9)
        elif is_bool_dtype(column.dtype) or is_numeric_dtype(column.dtype):
            frame[name] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            frame[name] = column.astype(object).where(column.notna(), "missing").astype(str)
    return frame


def usual_encoder(X: Any) -> Any:
    """Return what is usual before a model: scaling, one input per value of small categories, target means of others."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

    frame = plain_frame(X)
    numbers = [name for name in frame if frame[name].dtype.kind == "f"]
    texts = [name for name in frame if name not in numbers]
    small = [name for name in texts if frame[name].nunique() <= _FEW_VALUES]
    large = [name for name in texts if name not in small]
    scaled = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    targets = TargetEncoder(target_type="continuous", random_state=0)
    parts = [("numbers", scaled, numbers), ("small", hot, small), ("large", targets, large)]
    return ColumnTransformer([part for part in parts if part[2]])


def _bdkn(seed: int, effort: str) -> Any:
    from bdkn.regressors import BDKNRegressor

    return BDKNRegressor(random_state=seed, effort=effort)


def _stack(seed: int, effort: str) -> Any:
    from bdkn.regressors import BayesianStackingRegressor

    return BayesianStackingRegressor(random_state=seed, effort=effort, n_jobs=-1)


def _deep_ensemble(seed: int, effort: str) -> Any:
    from bdkn.regressors import DeepEnsembleRegressor

    return DeepEnsembleRegressor(random_state=seed, effort=effort)


def _ngboost(seed: int, effort: str) -> Any:
    from ngboost import NGBRegressor

    def moments(model: Any, X: Any) -> tuple[Any, Any]:
        found = model.pred_dist(X)
        return found.loc, found.scale

    def stop(X: Any, y: Any) -> dict[str, Any]:
        return {"X_val": X, "Y_val": y, "early_stopping_rounds": 50}

    return EncodedPeer(NGBRegressor(n_estimators=1000, verbose=False, random_state=seed), moments, stop)


def _catboost(seed: int, effort: str) -> Any:
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty", random_seed=seed, verbose=False, allow_writing_files=False
    )

    def moments(model: Any, X: Any) -> tuple[Any, Any]:
        mean, variance = model.predict(X).T
        return mean, variance**0.5

    def stop(X: Any, y: Any) -> dict[str, Any]:
        return {"eval_set": (X, y), "early_stopping_rounds": 50}

    return EncodedPeer(model, moments, stop)


def _boosting(seed: int, effort: str) -> Any:
    return EncodedPeer(QuantileBoosting(seed), lambda model, X: model.moments(X))


def _process(seed: int, effort: str) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel() * RBF(2.0) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    return EncodedPeer(model, lambda model, X: model.predict(X, return_std=True))


def _ridge(seed: int, effort: str) -> Any:
    from sklearn.linear_model import BayesianRidge

    return EncodedPeer(BayesianRidge(), lambda model, X: model.predict(X, return_std=True))


def _mean(seed: int, effort: str) -> Any:
    from bdkn.report import ConstantGaussian

    return ConstantGaussian()


METHODS = {
    "bdkn": Method("BDKN", _bdkn),
    "stack": Method("Bayesian stack", _stack),
    "deep-ensemble": Method("Deep ensemble", _deep_ensemble),
    "catboost": Method("CatBoost", _catboost, "catboost"),
    "ngboost": Method("NGBoost", _ngboost, "ngboost"),
    "boosting": Method("HistGradientBoosting, quantiles", _boosting, "sklearn"),
    "process": Method("Gaussian process", _process, "sklearn", most_rows=2000),
    "ridge": Method("Bayesian ridge", _ridge, "sklearn"),
    "mean": Method("Mean of the target", _mean),
}


def chosen_methods(names: tuple[str, ...], n_rows: int) -> dict[str, Method]:
    """Return the methods that were asked for, all that can be used if none was; raise if one cannot be used."""
    for name in names:
        check_choice("each of --methods", name, METHODS)
        if not METHODS[name].is_installed:
            raise InvalidParameterError(f"method {name!r} needs {METHODS[name].package}; run: pip install {name}")
    if names:
        return {name: METHODS[name] for name in names}
    return {
        name: method
        for name, method in METHODS.items()
        if method.is_installed and (method.most_rows is None or n_rows <= method.most_rows)
    }
