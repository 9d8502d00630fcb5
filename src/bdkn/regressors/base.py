"""What every probabilistic regressor is: scikit-learn's contract, and all that follows from predict_dist."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from bdkn.errors import InvalidParameterError, check_number
from bdkn.metrics import crps, nll
from bdkn.predictive import Predictive
from bdkn.regressors.seeds import Seed, seed_sequence
from bdkn.regressors.state import save_model
from bdkn.typing import Array, FloatArray

Table = Any  # a NumPy array, a pandas or a polars data frame

DTYPES = (np.float64, np.float32)
"""Both are taken as they are; anything else becomes double precision."""


@contextmanager
def unchanged_on_failure(model: object) -> Iterator[None]:
    """Let a fit that fails change nothing, not even which columns are known."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise


class ProbabilisticRegressor(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A regressor that predicts a distribution; a method writes its fit, its predictive and its joint predictions."""

    @abstractmethod
    def _fit(self, X: Array, y: FloatArray, counts: FloatArray | None) -> None:
        """Fit to checked rows, of which row i occurs ``counts[i] > 0`` times (None: once)."""

    @abstractmethod
    def _predictive(self, X: Array) -> Predictive:
        """Return the predictive distribution of checked rows."""

    @abstractmethod
    def _moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        """Return the means (n,) and the covariance (n, n) of the predictions of checked rows."""

    @abstractmethod
    def _joint_draws(self, X: Array, size: int, generator: np.random.Generator) -> FloatArray:
        """Return draws (n, size), each column a joint draw for all checked rows."""

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to the rows of ``X`` and their targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A NumPy array, or a pandas or polars data frame, of finite numbers.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts: a weight of 2 is the row twice, a weight of 0 leaves it out. Weights that sum to
            one would count as a single row: multiply them by the number of rows.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            self._fit(*self._training_rows(X, y, sample_weight))
        return self

    def predict_dist(self, X: Table) -> Predictive:
        """Return the predictive distribution, one a row, with the methods of a ``scipy.stats`` distribution."""
        return self._predictive(self._rows(X))

    @overload
    def predict(
        self, X: Table, return_std: Literal[False] = False, return_cov: Literal[False] = False
    ) -> FloatArray: ...

    @overload
    def predict(
        self, X: Table, return_std: Literal[True], return_cov: Literal[False] = False
    ) -> tuple[FloatArray, FloatArray]: ...

    @overload
    def predict(
        self, X: Table, return_std: Literal[False] = False, *, return_cov: Literal[True]
    ) -> tuple[FloatArray, FloatArray]: ...

    def predict(
        self, X: Table, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean of each row and, if asked, its standard deviation or the covariance of all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        return_std, return_cov : bool
            At most one of them: return ``(mean, std)`` with std of shape (n_samples,), infinite where it does not
            exist, or ``(mean, cov)`` with cov of shape (n_samples, n_samples).

        Returns
        -------
        mean : ndarray of shape (n_samples,), or one of the pairs above
        """
        if return_std and return_cov:
            raise InvalidParameterError("at most one of return_std and return_cov can be asked for; got both")
        rows = self._rows(X)
        if return_cov:
            return self._moments(rows)
        dist = self._predictive(rows)
        return (dist.mean(), dist.std()) if return_std else dist.mean()

    def predict_interval(self, X: Table, coverage: float = 0.9) -> FloatArray:
        """Return the central interval of each row that holds ``coverage`` of its probability, (n_samples, 2)."""
        return np.stack(self.predict_dist(X).interval(coverage), axis=1)

    def predict_quantiles(self, X: Table, alpha: float | Sequence[float] = (0.05, 0.5, 0.95)) -> FloatArray:
        """Return the quantiles of each row at the levels ``alpha``, (n_samples, n_levels)."""
        levels = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
        for level in levels.ravel():
            check_number("each level in alpha", float(level), low=0, high=1)
        return self.predict_dist(X).ppf(levels)

    def sample_y(self, X: Table, n_samples: int = 1, random_state: Seed = 0) -> FloatArray:
        """Return ``n_samples`` joint draws for all rows, (n_rows, n_samples): each column is one possible world.

        The seed is fixed by default, so the same call gives the same draws; ``random_state=None`` gives new ones.
        """
        check_number("n_samples", n_samples, low=1, whole=True)
        generator = np.random.default_rng(seed_sequence(random_state))
        return self._joint_draws(self._rows(X), n_samples, generator)

    def log_score(self, X: Table, y: ArrayLike) -> float:
        """Return the mean log density of the targets, the negative of the NLL; greater is better."""
        return -nll(_targets(y), self.predict_dist(X))

    def crps(self, X: Table, y: ArrayLike) -> float:
        """Return the mean continuous ranked probability score in the units of the target; smaller is better."""
        return crps(_targets(y), self.predict_dist(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, which ``bdkn.load`` reads back to predict the same bits.

        The file holds arrays and JSON, no code. A parameter that is an object is written as what comes nearest: an
        engine as its name, anything else (an engine of your own, a random generator) as the default.
        """
        check_is_fitted(self)
        save_model(self, path)

    def _training_rows(
        self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool = True
    ) -> tuple[Any, FloatArray, FloatArray | None]:
        """Return checked rows that count, their targets, and how often each counts; ``reset`` for those of a fit."""
        rows, targets, counts = self._counted_rows(X, y, sample_weight, reset=reset)
        if counts is None or counts.all():
            return rows, targets, counts
        return rows[counts > 0], targets[counts > 0], counts[counts > 0]

    def _counted_rows(
        self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> tuple[Any, FloatArray, FloatArray | None]:
        """Return checked rows, their targets, and how often each counts, be it zero times."""
        _check_single_output(y)
        rows, targets = self._checked(X, y, reset=reset)
        counts = None if sample_weight is None else _counts(sample_weight, len(targets))
        return rows, np.asarray(targets, dtype=np.float64), counts

    def _checked(self, X: Table, y: ArrayLike, *, reset: bool) -> tuple[Any, Any]:
        """Return rows as the members take them, and targets."""
        rows, targets = validate_data(self, X, y, reset=reset, dtype=DTYPES, y_numeric=True)
        return rows, targets

    def _rows(self, X: Table) -> Array:
        check_is_fitted(self)
        rows: Array = X if self._is_valid(X) else validate_data(self, X, reset=False, dtype=DTYPES)
        return rows

    def _is_valid(self, X: Table) -> bool:
        """Tell whether validation would return ``X`` itself; asking scikit-learn takes as long as predicting a row."""
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype in DTYPES
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and bool(np.isfinite(X).all())
        )


def _check_single_output(y: ArrayLike) -> None:
    shape = np.asarray(y).shape
    if len(shape) > 1 and shape[1] != 1:
        raise InvalidParameterError(
            f"y must hold one target a row, shape (n_samples,); got shape {shape}: fit one regressor a target, "
            "for example with sklearn.multioutput.MultiOutputRegressor"
        )


def _counts(sample_weight: ArrayLike, n: int) -> FloatArray:
    counts: FloatArray = check_array(
        sample_weight, ensure_2d=False, allow_nd=True, dtype=np.float64, input_name="sample_weight"
    )
    if counts.shape != (n,):
        raise InvalidParameterError(f"sample_weight must hold one number a row, shape ({n},); got shape {counts.shape}")
    if counts.min() < 0:
        raise InvalidParameterError(f"sample_weight must be >= 0, as it counts rows; got {counts.min()}")
    with np.errstate(over="ignore"):
        total = counts.sum()
    if not np.isfinite(total):
        raise InvalidParameterError("sample_weight must have a finite sum, as it counts rows; divide it by its mean")
    if 0 < total < n / 10:
        warnings.warn(
            f"sample_weight counts rows, and says that these {n} rows count as {total:.3g}, so predictions will "
            f"be very uncertain; if it was meant relatively, multiply it by {n}/sum(sample_weight)",
            UserWarning,
            stacklevel=5,
        )
    if not total:
        raise InvalidParameterError("Sample weights must contain at least one non-zero number; got only zeros")
    return counts


def _targets(y: ArrayLike) -> FloatArray:
    targets: FloatArray = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
    return targets
