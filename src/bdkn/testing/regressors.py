"""Checks that a regressor keeps the contract of this library's regressors."""

from __future__ import annotations

import copy
import pickle
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from bdkn.errors import BDKNError, InvalidParameterError
from bdkn.estimators import ProbabilisticRegressor, load
from bdkn.lazy import lazy
from bdkn.metrics import crps, nll
from bdkn.predictive import Predictive
from bdkn.testing.encoders import require, require_close, require_equal
from bdkn.typing import FloatArray

N_NEW = 12
"""Number of rows that the checks predict."""


@dataclass(frozen=True, eq=False)
class Case:
    """A regressor to check, its training rows, and the fitted copy that most checks share."""

    model: Any
    X: FloatArray
    y: FloatArray

    def unfitted(self) -> Any:
        """Return an unfitted clone of the regressor, with a seed."""
        made = clone(self.model)
        if "random_state" in made.get_params() and made.random_state is None:
            made.set_params(random_state=0)
        return made

    @lazy
    def fitted(self) -> Any:
        """A fitted regressor, which no check may change."""
        return self.unfitted().fit(self.X, self.y)

    @lazy
    def new(self) -> FloatArray:
        """Rows to predict, some of them outside the training rows."""
        return np.asarray(self.X[:N_NEW] + 0.5 * (self.X[:N_NEW] - self.X.mean(axis=0)))

    @lazy
    def dist(self) -> Predictive:
        """The predicted distributions of the new rows."""
        dist: Predictive = self.fitted.predict_dist(self.new)
        return dist

    @property
    def unit(self) -> float:
        """The standard deviation of the targets, by which tolerances are scaled."""
        return float(self.y.std())


def require_same_predictions(found: Any, expected: Any, X: FloatArray, statement: str) -> None:
    """Raise AssertionError unless two regressors give exactly the same predictions."""
    for one, other in zip(found.predict(X, return_cov=True), expected.predict(X, return_cov=True), strict=True):
        require_equal(one, other, statement)
    require_equal(found.predict_interval(X), expected.predict_interval(X), statement)
    require_equal(found.sample_y(X, 2), expected.sample_y(X, 2), statement)


def require_error(
    kind: type[Exception] | tuple[type[Exception], ...], message: str, call: Callable[..., Any], *arguments: Any
) -> None:
    """Raise AssertionError unless the call raises an error of type ``kind`` whose message matches ``message``."""
    name = getattr(call, "__name__", str(call))
    try:
        call(*arguments)
    except kind as error:
        text = "\n".join([str(error), *getattr(error, "__notes__", ())])
        require(re.search(message, text) is not None, f"the error of {name} matches {message!r}; it is {text!r}")
        return
    raise AssertionError(f"this must hold: {name} raises {kind} with {message!r} here")


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def check_predictions(case: Case) -> None:
    """Check shapes, and that moments, quantiles, intervals and scores agree with ``predict_dist``."""
    model, new, dist, n, small = case.fitted, case.new, case.dist, N_NEW, 1e-8 * case.unit
    found: dict[str, tuple[Any, tuple[int, ...]]] = {
        "predict": (model.predict(new), (n,)),
        "predict with return_std": (model.predict(new, return_std=True)[1], (n,)),
        "predict with return_cov": (model.predict(new, return_cov=True)[1], (n, n)),
        "predict_interval": (model.predict_interval(new), (n, 2)),
        "predict_quantiles": (model.predict_quantiles(new, LEVELS), (n, len(LEVELS))),
        "predict_quantiles for one level": (model.predict_quantiles(new, 0.5), (n, 1)),
        "sample_y": (model.sample_y(new, 4), (n, 4)),
    }
    for name, (values, shape) in found.items():
        require(values.shape == shape, f"{name} has shape {shape}")
        require(values.dtype == np.float64, f"{name} is in double precision")
        require(np.isfinite(values).all(), f"{name} is finite for rows like the training rows")
    require(len(dist) == n, "predict_dist has one distribution per row")
    mean, std = model.predict(new, return_std=True)
    require_equal(model.predict(new), mean, "predict has the same means with and without return_std")
    require_equal(dist.mean(), mean, "predict has the means of predict_dist")
    require_equal(dist.std(), std, "predict has the standard deviations of predict_dist")
    require((std > 0).all(), "standard deviations are positive")
    quantiles = model.predict_quantiles(new, LEVELS)
    require_close(quantiles, dist.ppf(LEVELS), "quantiles are those of predict_dist", atol=small)
    require((np.diff(quantiles, axis=1) > 0).all(), "quantiles increase with their level")
    require_close(dist.cdf(quantiles), np.tile(LEVELS, (N_NEW, 1)), "cdf is the inverse of quantiles", atol=1e-6)
    require_close(model.predict_quantiles(new), quantiles[:, [0, 2, 4]], "quantiles have these defaults", atol=small)
    require_close(model.predict_interval(new), quantiles[:, [0, 4]], "an interval has coverage 0.9", atol=small)
    require_close(model.predict_interval(new, 0.5), quantiles[:, [1, 3]], "intervals have their coverage", atol=small)
    y = case.y[:N_NEW]
    require_close(model.log_score(new, y), -nll(y, dist), "log_score is the mean log density", rtol=1e-12)
    require_close(model.crps(new, y), crps(y, dist), "crps is the mean CRPS of predict_dist", rtol=1e-12)
    r2 = 1.0 - np.sum((y - mean) ** 2) / np.sum((y - y.mean()) ** 2)
    require_close(model.score(new, y), r2, "score is the coefficient of determination", rtol=1e-9)


def check_joint(case: Case) -> None:
    """Check that the covariance of all rows, and joint draws, agree with the predicted distribution of each row."""
    model, new, dist, small = case.fitted, case.new, case.dist, 1e-6 * case.unit
    mean, covariance = model.predict(new, return_cov=True)
    require_close(mean, dist.mean(), "return_cov does not change the means", atol=small)
    require_close(np.diag(covariance), dist.std() ** 2, "the covariance's diagonal is the squared std", rtol=1e-5)
    require_close(covariance, covariance.T, "the covariance is symmetric", atol=small**2)
    λ = np.linalg.eigvalsh(covariance)
    require(λ[0] > -1e-8 * λ[-1], "the covariance is positive semi-definite")
    draws = model.sample_y(new, 2000)
    for row in range(3):
        test = stats.kstest(draws[row], lambda values, row=row: dist[[row]].cdf(values[None])[0])
        require(test.pvalue > 1e-4, "the joint draws of a row follow its predictive")
    require_equal(model.sample_y(new, 2), model.sample_y(new, 2, random_state=0), "draws have the seed 0 by default")
    generator = np.random.default_rng(1)
    first, second = (model.sample_y(new, 1, generator) for _ in range(2))
    require(not np.array_equal(first, second), "a generator gives new draws each time")


def check_rows(case: Case) -> None:
    """Check that the prediction of a row does not depend on other rows, and is in the units of the target."""
    model, new, dist, small = case.fitted, case.new, case.dist, 1e-5 * case.unit
    order = np.random.default_rng(0).permutation(N_NEW)
    for rows in (order, order[:1], np.arange(3, 7)):
        mean, std = model.predict(new[rows], return_std=True)
        require_close(mean, dist.mean()[rows], "the mean of a row depends on that row alone", atol=small)
        require_close(std, dist.std()[rows], "the std of a row depends on that row alone", rtol=1e-4)
    require_equal(model.predict(new.tolist()), model.predict(new), "a list gives the same bits as an array")
    scaled = case.unfitted().fit(case.X, 8.0 * case.y + 512.0).predict_dist(case.new)  # without rounding errors
    mean, std = 8.0 * dist.mean() + 512.0, 8.0 * dist.std()
    require_close(scaled.mean(), mean, "means are in the units of the target", atol=8e-3 * case.unit)
    require_close(scaled.std(), std, "standard deviations are in the units of the target", rtol=1e-2)


def check_parameters(case: Case) -> None:
    """Check the constructor, ``get_params``, ``set_params``, ``clone``, and that nothing is predicted before a fit."""
    model = case.unfitted()
    given = model.get_params(deep=False)
    made = type(model)(**given)
    require(_same(made.get_params(deep=False), given), "the constructor keeps its parameters as they are")
    require(_same(model.set_params(**given).get_params(deep=False), given), "set_params sets what get_params returns")
    require(str(clone(model).get_params()) == str(model.get_params()), "a clone has the same parameters")
    require_error(ValueError, "Invalid parameter", lambda: model.set_params(no_such_parameter=1))
    for name in ("predict", "predict_dist", "predict_interval", "predict_quantiles", "sample_y"):
        require_error(NotFittedError, "not fitted", getattr(model, name), case.X)
    for name in ("log_score", "crps", "score"):
        require_error(NotFittedError, "not fitted", getattr(model, name), case.X, case.y)
    if hasattr(model, "save"):
        require_error(NotFittedError, "not fitted", model.save, "not-written.bdkn")


def check_fit(case: Case) -> None:
    """Check that parameters and rows determine the result of a fit, and that a failed fit changes nothing."""
    model = case.unfitted()
    before = model.get_params(deep=False)
    require(model.fit(case.X, case.y) is model, "fit returns self")
    require(_same(model.get_params(deep=False), before), "fit does not change parameters")
    require(model.n_features_in_ == case.X.shape[1], "n_features_in_ is the number of columns")
    attributes = set(vars(model))
    require_same_predictions(model, case.fitted, case.new, "the same seed gives the same bits")
    require(set(vars(model)) == attributes, "predicting sets no attributes")
    half = len(case.y) // 2
    again = copy.deepcopy(case.fitted).fit(case.X[:half, :2], case.y[:half])
    first = case.unfitted().fit(case.X[:half, :2], case.y[:half])
    require_same_predictions(again, first, case.new[:, :2], "a second fit does not depend on the first")
    model, new = copy.deepcopy(case.fitted), case.unfitted()
    missing = np.where(np.arange(len(case.y)) == 3, np.nan, case.y)
    require_error(ValueError, "NaN", model.fit, case.X[:, :1], missing)
    require_same_predictions(model, case.fitted, case.new, "a fit that fails changes nothing")
    if "random_state" in model.get_params():
        model.set_params(random_state=-1)
        require_error(ValueError, "random_state must be", model.fit, case.X[:, :1], case.y)
        require_same_predictions(model, case.fitted, case.new, "a fit that fails changes nothing")
        require(model.n_features_in_ == case.X.shape[1], "a fit that fails changes no attribute")
    require_error(ValueError, "NaN", new.fit, case.X, missing)
    require_error(NotFittedError, "not fitted", new.predict, case.X)


def check_copies(case: Case) -> None:
    """Check copies, pickles and clones of a fitted regressor, and its model file; a failed ``save`` leaves no file."""
    for copied in (copy.copy(case.fitted), copy.deepcopy(case.fitted), pickle.loads(pickle.dumps(case.fitted))):
        require_same_predictions(copied, case.fitted, case.new, "a copy predicts the same bits")
    require_error(NotFittedError, "not fitted", clone(case.fitted).predict, case.X)
    again = pickle.loads(pickle.dumps(case.unfitted())).fit(case.X, case.y)
    require_same_predictions(again, case.fitted, case.new, "a regressor can be pickled before it is fitted")
    if not hasattr(case.fitted, "save"):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bdkn"
        try:
            case.fitted.save(path)
        except BDKNError:
            require(not list(Path(folder).iterdir()), "a regressor that cannot be saved leaves no file")
            return
        loaded = load(path)
    require(type(loaded) is type(case.fitted), "a loaded regressor is of the same class")
    require(loaded.get_params().keys() == case.fitted.get_params().keys(), "a loaded regressor has its parameters")
    require_same_predictions(loaded, case.fitted, case.new, "a loaded regressor predicts the same bits")


def check_frames(case: Case) -> None:
    """Check fits and predictions with data frames of pandas and polars, if these are installed."""
    names = [f"column {j}" for j in range(case.X.shape[1])]
    expected, small = case.fitted.predict_interval(case.new), 1e-6 * case.unit
    for library in (import_module(name) for name in ("pandas", "polars") if find_spec(name) is not None):
        frame, new = (library.DataFrame(dict(zip(names, X.T, strict=True))) for X in (case.X, case.new))
        model = case.unfitted().fit(frame, library.Series(case.y))
        require(list(model.feature_names_in_) == names, "feature_names_in_ holds the names of a data frame's columns")
        require_close(model.predict_interval(new), expected, "a data frame is predicted as an array is", atol=small)
        statement = "columns in another order are found by name, or refused"
        try:
            reordered = model.predict(new[names[::-1]])
        except ValueError as error:
            require("feature names should match" in str(error), statement)
        else:
            require_close(reordered, model.predict(new), statement)
        missing = "feature names should match|must have the columns of the fit"
        require_error(ValueError, missing, model.predict, new[names[1:]])


def check_refusals(case: Case) -> None:
    """Check that invalid arguments, tables and targets raise errors whose messages name what is wrong."""
    model, new = case.fitted, case.new
    require_error(InvalidParameterError, "at most one of return_std and return_cov", model.predict, new, True, True)
    require_error(InvalidParameterError, "coverage must be a number", model.predict_interval, new, 95)
    require_error(InvalidParameterError, "each level in quantiles must be", model.predict_quantiles, new, [0.1, 1.5])
    require_error(InvalidParameterError, "n_samples must be an integer", model.sample_y, new, 0)
    message = f"one value for each of the {N_NEW} predicted rows"
    require_error(InvalidParameterError, message, model.log_score, new, case.y[: N_NEW - 1])
    X, y, allowed = case.X, case.y, get_tags(case.model).input_tags
    refused: list[tuple[str, Any, Any]] = [
        ("one target per row", X, np.column_stack([y, y])),
        ("inconsistent numbers of samples", X, y[:-1]),
        ("infinity", X, np.where(y > np.median(y), np.inf, y)),
        ("Reshape your data", X[:, 0], y),
    ]
    if not allowed.allow_nan:
        refused += [("NaN", _with(X, np.nan), y), ("infinity", _with(X, np.inf), y)]
    if not allowed.sparse:
        refused.append(("[Ss]parse", sparse.csr_matrix(X), y))
    for message, rows, targets in refused:
        require_error((TypeError, ValueError), message, case.unfitted().fit, rows, targets)
    predict, columns = case.fitted.predict, f"is expecting {X.shape[1]} features as input"
    require_error(ValueError, f"X has 1 features, but {type(case.model).__name__} {columns}", predict, X[:, :1])
    require_error(ValueError, "Reshape your data", predict, X[0])
    if not allowed.allow_nan:
        require_error(ValueError, "NaN", predict, _with(X, np.nan))


def check_sample_weight(case: Case) -> None:
    """Check that ``sample_weight`` counts rows, or is refused by a regressor without this parameter."""
    ones = np.ones(len(case.y))
    if not has_fit_parameter(case.model, "sample_weight"):
        require_error(TypeError, "sample_weight", lambda: case.unfitted().fit(case.X, case.y, sample_weight=ones))
        return
    for message, weight in (("must be >= 0", -ones), ("one number per row", ones[1:]), ("only zeros", 0.0 * ones)):
        require_error(BDKNError, message, case.unfitted().fit, case.X, case.y, weight)
    some = np.arange(len(ones)) % 4 > 0
    weighted = case.unfitted().fit(case.X, case.y, some.astype(np.float64))
    fewer = case.unfitted().fit(case.X[some], case.y[some], ones[some])
    require_same_predictions(weighted, fewer, case.new, "rows of weight zero are not used")


def _same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Return whether two mappings have the same keys, with identical objects as values."""
    return found.keys() == expected.keys() and all(found[name] is expected[name] for name in expected)


def _with(X: FloatArray, value: float) -> FloatArray:
    """Return a copy of the table with ``value`` in one cell."""
    changed = X.copy()
    changed[1, 0] = value
    return changed


_CHECKS = (
    check_parameters,
    check_fit,
    check_copies,
    check_predictions,
    check_joint,
    check_rows,
    check_frames,
    check_refusals,
    check_sample_weight,
)


def check_regressor(model: ProbabilisticRegressor, *, X: FloatArray | None = None, y: FloatArray | None = None) -> None:
    """Check that a regressor keeps the contract of this library's regressors.

    The contract goes beyond scikit-learn's, whose ``check_estimator`` should be run, too: all ways to predict agree, a
    fit that fails changes nothing, the same seed gives exactly the same predictions, units of the target and order of
    rows do not matter, data frames keep their names, bad input is refused with a message that names it, and a saved
    model predicts exactly the same. The regressor is fitted about fifteen times.

    Parameters
    ----------
    model : ProbabilisticRegressor
        Regressor with parameters that make its fits fast. It is cloned, not fitted. If its ``random_state`` is None, 0
        is used. It must scale its targets, as all regressors of this library do by default.
    X : ndarray of shape (n_samples, n_features), optional
        Rows to check the regressor on, at least 24 with at least 2 columns; by default 60 rows with 3 columns.
    y : ndarray of shape (n_samples,), optional
        Targets of these rows, which must not be constant.

    Raises
    ------
    AssertionError
        If a check fails; the message is the statement that does not hold.

    Examples
    --------
    >>> from bdkn import DeepEnsembleRegressor
    >>> from bdkn.testing import check_regressor
    >>> check_regressor(DeepEnsembleRegressor(n_members=2, hidden_layer_sizes=8, epochs=5))
    """
    if (X is None) != (y is None):
        raise TypeError("give both X and y, or neither")
    if X is None or y is None:  # rows in different units, and targets that are not scaled
        generator = np.random.default_rng(0)
        X = generator.normal(2.0, [1.0, 5.0, 0.1], (60, 3))
        y = 50.0 + 3.0 * np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * generator.normal(size=60)
    rows, targets = np.array(X, dtype=np.float64), np.array(y, dtype=np.float64)
    for given in (rows, targets):  # a regressor that changes its input fails
        given.flags.writeable = False
    require(len(rows) >= 24 and rows.shape[1] >= 2, "a regressor is checked on at least 24 rows with 2 columns")
    case = Case(model, rows, targets)
    for check in _CHECKS:
        try:
            check(case)
        except AssertionError as error:
            error.add_note(f"{check.__name__} of {type(model).__name__}")
            raise
