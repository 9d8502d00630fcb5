"""Checks of a regressor's parameters, fits, copies and files, and of the tables it accepts."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from bdkn.errors import BDKNError
from bdkn.regressors import load
from bdkn.testing.checks import require, require_close
from bdkn.testing.regressor_case import Case, require_error, require_same_predictions
from bdkn.typing import FloatArray


def check_parameters(case: Case) -> None:
    """Check the constructor, ``get_params``, ``set_params`` and ``clone``."""
    model = case.unfitted()
    given = model.get_params(deep=False)
    made = type(model)(**given)
    require(_same(made.get_params(deep=False), given), "the constructor keeps its parameters as they are")
    require(_same(model.set_params(**given).get_params(deep=False), given), "set_params sets what get_params returns")
    require(str(clone(model).get_params()) == str(model.get_params()), "a clone has the same parameters")
    require_error(ValueError, "Invalid parameter", lambda: model.set_params(no_such_parameter=1))


def check_unfitted(case: Case) -> None:
    """Check that nothing is predicted or saved before a fit."""
    model = case.unfitted()
    for name in ("predict", "predict_dist", "predict_interval", "predict_quantiles", "sample_y"):
        require_error(NotFittedError, "not fitted", getattr(model, name), case.X)
    for name in ("log_score", "crps", "score"):
        require_error(NotFittedError, "not fitted", getattr(model, name), case.X, case.y)
    if hasattr(model, "save"):
        require_error(NotFittedError, "not fitted", model.save, "not-written.bdkn")


def check_fit(case: Case) -> None:
    """Check what a fit returns and changes, and that a seed determines it."""
    model = case.unfitted()
    before = model.get_params(deep=False)
    require(model.fit(case.X, case.y) is model, "fit returns self")
    require(_same(model.get_params(deep=False), before), "fit does not change parameters")
    require(model.n_features_in_ == case.X.shape[1], "n_features_in_ is the number of columns")
    attributes = set(vars(model))
    require_same_predictions(model, case.fitted, case.new, "the same seed gives the same bits")
    require(set(vars(model)) == attributes, "predicting sets no attributes")


def check_refit(case: Case) -> None:
    """Check that a second fit, to other rows and columns, does not depend on the first."""
    half = len(case.y) // 2
    again = copy.deepcopy(case.fitted).fit(case.X[:half, :2], case.y[:half])
    first = case.unfitted().fit(case.X[:half, :2], case.y[:half])
    require_same_predictions(again, first, case.new[:, :2], "a second fit does not depend on the first")


def check_failed_fit(case: Case) -> None:
    """Check that a fit that fails, while the table is checked or later, changes nothing."""
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
    """Check copies, pickles and clones of a fitted regressor."""
    for make in (copy.copy, copy.deepcopy, _pickled):
        require_same_predictions(make(case.fitted), case.fitted, case.new, "a copy predicts the same bits")
    require_error(NotFittedError, "not fitted", clone(case.fitted).predict, case.X)
    again = _pickled(case.unfitted()).fit(case.X, case.y)
    require_same_predictions(again, case.fitted, case.new, "a regressor can be pickled before it is fitted")


def check_frames(case: Case) -> None:
    """Check data frames of pandas and polars, as far as they are installed."""
    names = [f"column {j}" for j in range(case.X.shape[1])]
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            _check_frames_of(import_module(library), case, names)


def _check_frames_of(library: Any, case: Case, names: list[str]) -> None:
    frame, new = (library.DataFrame(dict(zip(names, X.T, strict=True))) for X in (case.X, case.new))
    model = case.unfitted().fit(frame, library.Series(case.y))
    require(list(model.feature_names_in_) == names, "feature_names_in_ holds the names of a data frame's columns")
    expected, small = case.fitted.predict_interval(case.new), 1e-6 * case.unit
    require_close(model.predict_interval(new), expected, "a data frame is predicted as an array is", atol=small)
    _check_other_order(model, new, names)
    missing = "feature names should match|must have the columns of the fit"
    require_error(ValueError, missing, model.predict, new[names[1:]])


def _check_other_order(model: Any, new: Any, names: list[str]) -> None:
    try:
        reordered = model.predict(new[names[::-1]])
    except ValueError as error:
        require("feature names should match" in str(error), "columns in another order are found by name, or refused")
    else:
        require_close(reordered, model.predict(new), "columns in another order are found by name, or refused")


def check_bad_tables(case: Case) -> None:
    """Check that tables and targets that cannot be used are refused by an error that names what is wrong."""
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
    """Check that weights count rows, or are refused by a regressor that has none."""
    ones = np.ones(len(case.y))
    if not has_fit_parameter(case.model, "sample_weight"):
        require_error(TypeError, "sample_weight", lambda: case.unfitted().fit(case.X, case.y, sample_weight=ones))
        return
    for message, weight in (("must be >= 0", -ones), ("one number per row", ones[1:]), ("only zeros", 0.0 * ones)):
        require_error(BDKNError, message, case.unfitted().fit, case.X, case.y, weight)
    some = np.arange(len(ones)) % 4 > 0
    left_out = case.unfitted().fit(case.X, case.y, some.astype(np.float64))
    fewer = case.unfitted().fit(case.X[some], case.y[some], ones[some])
    require_same_predictions(left_out, fewer, case.new, "rows of weight zero are left out")


def check_file(case: Case) -> None:
    """Check that a saved model predicts the same bits, or that a regressor that cannot be saved leaves no file."""
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


def _same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Return whether both have the same objects under the same names."""
    return found.keys() == expected.keys() and all(found[name] is expected[name] for name in expected)


def _pickled(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


def _with(X: FloatArray, value: float) -> FloatArray:
    """Return the table with one entry changed."""
    changed = X.copy()
    changed[1, 0] = value
    return changed
