"""The base class of all regressors: scikit-learn's interface, and every method that follows from ``predict_dist``."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from bdkn.analysis.decisions import (
    CostGiven,
    Order,
    Outcome,
    check_quantiles,
    expected_cost,
    optimal_order,
    probability_above,
)
from bdkn.analysis.explanation import Explanation, explain, moments_of
from bdkn.analysis.partial_dependence import PartialDependence, partial_dependence
from bdkn.data.column_report import ColumnReport, tell_copies
from bdkn.data.encoder import TableEncoder
from bdkn.data.reading import is_frame
from bdkn.data.rows import Rows
from bdkn.data.training_rows import (
    check_counts,
    check_plain_table,
    check_single_output,
    check_size,
    check_targets,
    check_targets_of_frame,
    r2,
    tell_extreme_targets,
)
from bdkn.ensemble.provenance import Seed, seed_sequence
from bdkn.errors import InvalidParameterError, check_flag, check_number, warn_user
from bdkn.estimators.publication import of_one_state, publish, publish_update
from bdkn.estimators.serialization import save_model
from bdkn.estimators.serialization import without_rows as row_free
from bdkn.metrics import crps, nll
from bdkn.predictive import Predictive
from bdkn.predictive.base import check_draws
from bdkn.typing import Array, FloatArray, IndexArray

Table = Any  # a NumPy array, or a data frame of pandas, polars or pyarrow

DTYPES = (np.float64, np.float32)
"""Tables of these types are used as they are; all others are converted to double precision."""


class ProbabilisticRegressor(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of regressors that predict a distribution for each row.

    A subclass defines ``_fit``, which returns the fitted state, and three methods that predict from that state:
    ``_predictive``, ``_moments`` and ``_joint_draws``. The state is one frozen object, ``fitted_``. A fit publishes it
    once, at its end, so that a fit that fails changes nothing, and public methods that read it more than once, or
    attributes beside it, are ``of_one_state``: a thread that predicts during a fit sees the old state or the new one.
    """

    fitted_: Any
    table_: TableEncoder | None = None

    @property
    @of_one_state
    def columns_(self) -> ColumnReport:
        """What each column of the training table became, and why; printed as a table."""
        check_is_fitted(self)
        table = self.table_
        return ColumnReport.of_numbers(range(self.n_features_in_)) if table is None else ColumnReport.of(table)

    @abstractmethod
    def _fit(self, rows: Rows) -> object:
        """Check the parameters, fit to checked rows, each counted more than zero times, and return the fitted state."""

    @abstractmethod
    def _predictive(self, X: Array) -> Predictive:
        """Return the predictive distribution of checked rows."""

    @abstractmethod
    def _moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        """Return the means (n,) and the covariance (n, n) of the predictions of checked rows."""

    @abstractmethod
    def _joint_draws(self, X: Array, size: int, generator: np.random.Generator) -> FloatArray:
        """Return draws (n, size); each column is one joint draw for all checked rows."""

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the regressor to training rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            An array of finite numbers; or a data frame of pandas, polars or pyarrow, with columns of numbers, booleans,
            categories, text, dates and durations, in which values may be missing.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            How many times each row is counted: a weight of 2 is the row twice, a weight of 0 leaves it out. Weights
            that sum to one would count as a single row: multiply them by the number of rows.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        return self._publish(lambda model: model._fit(model._training_rows(X, y, sample_weight)))

    def _publish(self, fit: Callable[[Self], object]) -> Self:
        """Call ``fit`` with a copy of this object, then assign the copy's attributes and the state it returned at once.

        A fit that fails changes nothing, and a thread that predicts meanwhile sees the old state or the new one.
        """
        publish(self, fit)
        return self

    def _publish_update(self, change: Callable[[Self], object]) -> Self:
        """Do the same with a state that depends on the former one, of which no update may be lost."""
        publish_update(self, change)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in vars(self)

    @property
    def _state(self) -> Any:
        """The fitted state; raise NotFittedError, which is an AttributeError, before a fit."""
        if "fitted_" not in vars(self):
            check_is_fitted(self)  # raises; it takes longer than the prediction of a row
        return self.fitted_

    @of_one_state
    def predict_dist(self, X: Table) -> Predictive:
        """Predict the distribution of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        dist : Predictive
            One distribution per row, with the methods of a ``scipy.stats`` distribution: ``mean``, ``std``, ``pdf``,
            ``logpdf``, ``cdf``, ``ppf``, ``interval``, ``rvs``, and ``crps``.
        """
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

    @of_one_state
    def predict(
        self, X: Table, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict the mean of each row and, if requested, its standard deviation or the covariance of all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        return_std : bool, default=False
            Return the standard deviations, too; infinite where a distribution has none.
        return_cov : bool, default=False
            Return the covariance of all rows, too. At most one of the two can be requested.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            Means.
        std : ndarray of shape (n_samples,)
            Standard deviations; only with ``return_std=True``.
        cov : ndarray of shape (n_samples, n_samples)
            Covariance matrix; only with ``return_cov=True``.
        """
        if return_std and return_cov:
            raise InvalidParameterError("at most one of return_std and return_cov can be True; got both")
        rows = self._rows(X)
        if return_cov:
            return self._moments(rows)
        dist = self._predictive(rows)
        return (dist.mean(), dist.std()) if return_std else dist.mean()

    @of_one_state
    def predict_interval(self, X: Table, coverage: float = 0.9) -> FloatArray:
        """Predict the central interval of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Probability that each interval contains.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper ends.
        """
        return np.stack(self.predict_dist(X).interval(coverage), axis=1)

    @of_one_state
    def predict_quantiles(
        self,
        X: Table,
        quantiles: float | Sequence[float] = (0.05, 0.5, 0.95),
        *,
        alpha: float | Sequence[float] | None = None,
    ) -> FloatArray:
        """Predict quantiles of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        quantiles : float or sequence of float, default=(0.05, 0.5, 0.95)
            Quantile levels, between 0 and 1.
        alpha : float or sequence of float, optional
            Former name of ``quantiles``; it will be removed in version 0.3.

        Returns
        -------
        values : ndarray of shape (n_samples, n_levels)
            The quantiles.
        """
        if alpha is not None:
            warn_user("alpha= is now quantiles=, and will be removed in bdkn 0.3", FutureWarning)
            quantiles = alpha
        return self._quantiles(X, check_quantiles(quantiles))

    def _quantiles(self, X: Table, levels: FloatArray) -> FloatArray:
        return self.predict_dist(X).ppf(levels)

    @of_one_state
    def predict_above(self, X: Table, threshold: ArrayLike) -> FloatArray:
        """Predict the probability of a target above a threshold.

        It is that of the distribution of which ``predict_interval`` returns intervals: where many targets share values,
        the probabilities of those values count.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        threshold : float or array-like
            A number for all rows; an array of shape (n_samples,), one for each row; or several, as a list such as
            ``[1, 2, 3]`` or of shape (1, k) or (n_samples, k). A list as long as ``X`` could be either, and is an
            error: ``[[1, 2, 3]]`` is several for any number of rows.

        Returns
        -------
        probability : ndarray of shape (n_samples,) or (n_samples, k)
            Probabilities of a target greater than the threshold; of shape (n_samples, k) for several thresholds.
        """
        return probability_above(self._outcome(X), threshold)

    @of_one_state
    def expected_cost(
        self, X: Table, cost: CostGiven, decision: ArrayLike | None = None, *, tolerance: float = 1e-6
    ) -> FloatArray:
        """Predict the average of a cost that depends on the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        cost : callable or (under, over)
            A function ``cost(y)`` of an array of targets, or ``cost(y, decision)``; it may bend and jump. Or the pair
            of the cost of each unit by which the target is above the decision, and of each unit by which it is below; a
            number, or an array with one for each row. The average of such a cost has a closed form.
        decision : float or array-like, optional
            What was decided: a number, one for each row, or several, in the shapes of ``threshold`` in
            ``predict_above``.
        tolerance : float, default=1e-6
            Error of the average of a function, relative to the average of its absolute value.

        Returns
        -------
        cost : ndarray of shape (n_samples,) or (n_samples, k)
            Average costs; of shape (n_samples, k) for several decisions.
        """
        return expected_cost(self._outcome(X), cost, decision, tolerance)

    @of_one_state
    def optimal_order(self, X: Table, *, under: ArrayLike, over: ArrayLike) -> Order:
        """Return the decision with the least average cost, if each unit too few and too many has its cost.

        It is the quantile of the target at under / (under + over): what a newsvendor orders.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        under : float or array of shape (n_samples,)
            Cost of each unit by which the target is above the order, greater than zero.
        over : float or array of shape (n_samples,)
            Cost of each unit by which it is below, greater than zero.

        Returns
        -------
        order : Order
            ``quantity``, ``cost``, its average cost, and ``level`` of each row; ``to_frame()`` is a table.
        """
        return optimal_order(self._outcome(X), under, over)

    def _outcome(self, X: Table) -> Outcome:
        """Return the distribution whose intervals ``predict_interval`` returns."""
        return self._outcome_of(self._rows(X))

    def _outcome_of(self, X: Array) -> Outcome:
        """Return that distribution for checked rows."""
        return Outcome.of(self._predictive(X))

    def _mean_and_variances(self, X: Array) -> dict[str, FloatArray]:
        """Return "mean" and "variance" of checked rows, and the parts of the variance, if there are any."""
        return moments_of(self._predictive(X))

    def _centres(self, X: Array) -> FloatArray:
        """Return numbers in the order of the means of checked rows, or nearly so; perhaps cheaper than the means."""
        return self._predictive(X).mean()

    @of_one_state
    def explain(
        self,
        X: Table,
        background: Table | None = None,
        *,
        n_samples: int | None = None,
        max_rows: int | None = 100,
        variance: bool = True,
        random_state: Seed = 0,
    ) -> Explanation:
        """Return what each column adds to the mean and to the parts of the variance of predictions.

        The values are Shapley values: what a column adds to a prediction if the columns of a row replace those of a row
        of the background one after the other, averaged over orders of the columns and over the background. For each
        row, ``base`` plus the values of all columns is the prediction, up to rounding.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to explain.
        background : array-like of shape (n_background, n_features), optional
            Rows to compare with, such as training rows; by default, the rows of ``X``. A model keeps no training rows.
        n_samples : int, optional
            Pairs of opposite orders for each row; by default, what about 800 predictions per row allow, and 500 if more
            than 20 rows are explained: 21 and 13 for 20 columns. Each pair takes a row of the background, of which at
            most so many are used: rows drawn evenly over their predicted means. Standard errors fall with the square
            root of this number.
        max_rows : int or None, default=100
            If ``X`` has more rows, so many of them are drawn and explained; None: all are.
        variance : bool, default=True
            Explain the parts of the variance, too; without, it is a little faster.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the draws. It is fixed by default, so the same call gives the same values.

        Returns
        -------
        explanation : Explanation
            Values and their standard errors for each row; ``table()`` or ``to_frame()`` shows how much each column
            matters overall, ``row(i)`` what it adds in one row.
        """
        return explain(self, X, background, n_samples, max_rows, variance, random_state)

    @of_one_state
    def partial_dependence(
        self,
        X: Table,
        column: str | int,
        grid: ArrayLike | None = None,
        *,
        coverage: float = 0.9,
        max_rows: int | None = 200,
        random_state: Seed = 0,
    ) -> PartialDependence:
        """Return how predictions change on average if one column of all rows is set to one value after the other.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows whose other columns stay as they are.
        column : str or int
            Name of the column, or its number from 0.
        grid : array-like, optional
            Values of the column; by default some that it has in ``X``, from the 1 % to the 99 % quantile, or the most
            frequent ones if it has few or holds no numbers.
        coverage : float, default=0.9
            Probability of the intervals.
        max_rows : int or None, default=200
            If ``X`` has more rows, so many of them are drawn and used; None: all are.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the draw.

        Returns
        -------
        dependence : PartialDependence
            For each value of the grid: the average mean, the average ends of the intervals of rows, and the interval
            of the target of a row drawn at random.
        """
        return partial_dependence(self, X, column, grid, coverage, max_rows, random_state)

    @of_one_state
    def sample_y(self, X: Table, n_samples: int = 1, random_state: Seed = 0) -> FloatArray:
        """Draw joint samples of the targets of all rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to predict.
        n_samples : int, default=1
            Number of draws.
        random_state : int, Generator, RandomState or None, default=0
            Seed. It is fixed by default, so the same call gives the same draws; None gives new ones.

        Returns
        -------
        draws : ndarray of shape (n_rows, n_samples)
            Each column is one joint draw for all rows.
        """
        check_number("n_samples", n_samples, low=1, whole=True)
        generator, rows = np.random.default_rng(seed_sequence(random_state)), self._rows(X)
        check_draws("n_samples", rows.shape[0], n_samples)
        return self._joint_draws(rows, int(n_samples), generator)

    def score(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination R² of the predicted means; greater is better, at most 1.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; equal by default.

        Returns
        -------
        score : float
            R².
        """
        return r2(check_targets(y), self.predict(X), sample_weight)

    @of_one_state
    def log_score(self, X: Table, y: ArrayLike) -> float:
        """Return the mean log density of the targets, the negative of the NLL; greater is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Their targets.

        Returns
        -------
        score : float
            Mean log density.
        """
        return -nll(check_targets(y), self.predict_dist(X))

    @of_one_state
    def crps(self, X: Table, y: ArrayLike) -> float:
        """Return the mean continuous ranked probability score in the units of the target; smaller is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Their targets.

        Returns
        -------
        score : float
            Mean score.
        """
        return crps(check_targets(y), self.predict_dist(X))

    @of_one_state
    def save(self, path: str | os.PathLike[str], *, without_rows: bool = False) -> None:
        """Write the fitted model to one file, which ``bdkn.load`` reads.

        The file holds arrays and JSON, no code. A parameter that is an object is written as its nearest plain form: an
        engine as its name, anything else (an engine of your own, a random generator) as the default. It also holds
        targets of training rows, of a Gaussian process inputs, too.

        Parameters
        ----------
        path : str or path-like
            File to write. An existing file is replaced, and keeps its mode; a link stays one.
        without_rows : bool, default=False
            Leave the targets of training rows out. The loaded model predicts the same, but what takes these rows raises
            an error: intervals with a guarantee, updates, comparing, adding and dropping members. Models that predict
            from training rows cannot be written so. Up to 1024 rows of standardized inputs stay, which tell how far a
            new row is from the training rows.
        """
        check_is_fitted(self)
        check_flag("without_rows", without_rows)
        if without_rows:
            self.fitted_ = row_free(self._state)  # of a snapshot: the model itself keeps its rows
        save_model(self, path)

    def _training_rows(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool = True) -> Rows:
        """Return the checked rows that are counted at least once; ``reset`` for the rows of a fit."""
        rows = self._all_rows(X, y, sample_weight, reset=reset)
        used = rows if rows.counts is None or rows.counts.all() else rows[np.flatnonzero(rows.counts)]
        return self._as_inputs(used, reset=reset)

    def _all_rows(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool) -> Rows:
        """Return checked rows, targets and counts, which may be zero; of a data frame, the codes of its columns."""
        check_single_output(y)
        table, targets = self._checked(X, y, reset=reset)
        counts = None if sample_weight is None else check_counts(sample_weight, len(targets))
        with np.errstate(over="ignore"):  # long doubles may be infinite in double precision, which is refused as such
            rows = Rows(table, np.asarray(targets, dtype=np.float64), counts)
        check_size(rows.y)
        if reset:
            tell_extreme_targets(rows)
        return rows

    def _later_rows(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None) -> Rows:
        """Return checked rows that were not in the fit, as inputs, with targets and counts."""
        rows = self._all_rows(X, y, sample_weight, reset=False)
        return rows if self.table_ is None else Rows(self.table_.expand(rows.X), rows.y, rows.counts)

    def _checked(self, X: Table, y: ArrayLike, *, reset: bool) -> tuple[Any, Any]:
        """Return the checked table, of a data frame the codes of its columns, and the checked targets."""
        if reset:
            self.__dict__.pop("table_", None)
        if self._takes_frame(X, reset=reset):
            return self._checked_frame(X, y, reset=reset)
        check_plain_table(X)
        with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums all numbers first, to see if one is nan
            rows, targets = validate_data(self, X, y, reset=reset, dtype=DTYPES, y_numeric=True)
        return rows, targets

    def _takes_frame(self, X: Table, *, reset: bool) -> bool:
        """Return whether the columns of ``X`` are encoded: in a fit those of any frame, then as in the fit."""
        return is_frame(X) if reset else self.table_ is not None and (is_frame(X) or not self.table_.is_plain)

    def _checked_frame(self, X: Table, y: ArrayLike, *, reset: bool) -> tuple[FloatArray, FloatArray]:
        """Return the codes of a frame's columns and the checked targets."""
        targets = check_targets_of_frame(y)
        check_consistent_length(X, targets)
        if reset:
            self.table_ = TableEncoder.fit(X)
            self.n_features_in_ = len(self.table_.names)
            self.__dict__.pop("feature_names_in_", None)
            if all(isinstance(name, str) for name in self.table_.names):
                self.feature_names_in_ = np.array(self.table_.names, dtype=object)
        return self._require_table().code(X), targets

    def _require_table(self) -> TableEncoder:
        """Return the encoder of the training frame."""
        assert self.table_ is not None, "a model that was fitted to a frame has its encoder"
        return self.table_

    def _as_inputs(self, rows: Rows, sets: IndexArray | None = None, *, reset: bool) -> Rows:
        """Return training rows with inputs in place of the codes of a frame; rows of an array are what they are.

        In a fit, statistics of targets are learned; those of a row are computed from rows of other ``sets``.
        """
        if self.table_ is None:
            return rows
        table, inputs = self.table_.learn(rows.X, rows.y, rows.counts, sets)
        if reset:
            self.table_ = table
            tell_copies(table, inputs, rows.y)
        return Rows(inputs, rows.y, rows.counts)

    def _rows(self, X: Table) -> Array:
        check_is_fitted(self)
        if self._takes_frame(X, reset=False):
            return self._require_table().transform(X)
        if self._is_valid(X):
            return X  # type: ignore[no-any-return]
        check_plain_table(X)
        with np.errstate(over="ignore", invalid="ignore"):
            rows: Array = validate_data(self, X, reset=False, dtype=DTYPES)
        return rows

    def _is_valid(self, X: Table) -> bool:
        """Return whether validation would return ``X`` itself; validation takes as long as predicting one row."""
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype in DTYPES
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and bool(np.isfinite(X).all())
        )
