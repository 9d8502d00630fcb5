"""The base class of all regressors: scikit-learn's interface, and methods that need only predicted distributions."""

from __future__ import annotations

import copy
import inspect
import os
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, ClassVar, Literal, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bdkn.analysis.decisions import (
    CostGiven,
    Order,
    Outcome,
    check_quantiles,
    expected_cost,
    optimal_order,
    probability_above,
)
from bdkn.analysis.explanation import Explanation, explain
from bdkn.analysis.partial_dependence import PartialDependence, partial_dependence
from bdkn.data.encoder import ColumnReport, TableEncoder
from bdkn.data.folds import Seed, seed_sequence
from bdkn.data.training_data import check_targets, r2
from bdkn.ensemble.networks import NetworkEnsemble, NetworkMember, NetworkMembers
from bdkn.ensemble.selection import MemberScores
from bdkn.errors import InvalidParameterError, check_flag, check_number
from bdkn.estimators.files import save_model
from bdkn.estimators.parameters import NETWORK_DOCS, paper_parameters
from bdkn.metrics import crps, nll
from bdkn.networks import Engine
from bdkn.predictive import Predictive
from bdkn.predictive.base import check_draws
from bdkn.typing import Array, FloatArray, IndexArray

Table = Any  # a NumPy array, or a data frame of pandas, polars or pyarrow


class ProbabilisticRegressor(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of regressors that predict a distribution for each row.

    A subclass defines ``_fit``, which returns the fitted model: an immutable object with a ``reader`` that checks
    tables, and a method ``predict(X, joint=False)`` that returns the ``Prediction`` for checked rows. ``fit`` assigns
    it to ``model_`` as its last step, so a fit that fails changes nothing. Methods read ``model_`` only once: a thread
    that predicts during a fit uses either the old model or the new one.
    """

    model_: Any
    _published: ClassVar[Mapping[str, Any] | None] = None
    """Values that ``from_paper`` gives to parameters other than network parameters; None: not a method of the paper."""

    @abstractmethod
    def _fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None) -> object:
        """Check the parameters and the rows, and return the fitted model."""

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
            How many times each row is counted: a weight of 2 counts the row twice, a weight of 0 excludes it. Weights
            that sum to one would count as a single row: multiply them by the number of rows.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        self.model_ = copy.copy(self)._fit(X, y, sample_weight)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def _fitted(self) -> Any:
        """Return the fitted model; raise ``NotFittedError`` if the regressor is not fitted."""
        if "model_" not in vars(self):
            check_is_fitted(self)  # raises the error; too slow to call it before each prediction
        engine = getattr(self, "engine", "fused")
        return self.model_ if engine == "fused" else on_engine(self.model_, engine)

    def _frozen(self) -> Self:
        """Return a shallow copy of the regressor, which does not change if the regressor is fitted again."""
        check_is_fitted(self)
        return copy.copy(self)

    def _predict(self, X: Table, *, joint: bool = False) -> Any:
        """Return the prediction for the rows of a table that the user gave, after checking the table."""
        model = self._fitted()
        return model.predict(model.reader.read(X), joint=joint)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the training table."""
        n: int = self._fitted().reader.n_columns
        return n

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns of the training table; the attribute does not exist if the columns had no names."""
        names: NDArray[Any] | None = self._fitted().reader.names
        if names is None:
            raise AttributeError("feature_names_in_: the columns of the training table had no names")
        return names

    @property
    def table_(self) -> TableEncoder | None:
        """The encoder of the columns of a data frame; None if the training table was an array."""
        encoder: TableEncoder | None = self._fitted().reader.encoder
        return encoder

    @property
    def columns_(self) -> ColumnReport:
        """How each column of the training table was converted to inputs, and why; it prints as a table."""
        reader = self._fitted().reader
        return (
            ColumnReport.of_numbers(range(reader.n_columns))
            if reader.encoder is None
            else ColumnReport.of(reader.encoder)
        )

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
        dist: Predictive = self._predict(X).dist
        return dist

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
        """Predict the mean of each row and, if requested, its standard deviation or the covariance of all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        return_std : bool, default=False
            Return the standard deviations, too; infinite for a distribution without a finite variance.
        return_cov : bool, default=False
            Return the covariance of all rows, too. At most one of ``return_std`` and ``return_cov`` can be True.

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
        prediction = self._predict(X, joint=return_cov)
        if return_cov:
            mean, covariance = prediction.moments()
            return mean, covariance
        dist: Predictive = prediction.dist
        return (dist.mean(), dist.std()) if return_std else dist.mean()

    def predict_interval(self, X: Table, coverage: float = 0.9) -> FloatArray:
        """Predict the central interval of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Probability of each interval: its nominal coverage.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper limits.
        """
        check_number("coverage", coverage, low=0.0, high=1.0)
        interval: FloatArray = self._predict(X).interval(coverage)
        return interval

    def predict_quantiles(self, X: Table, quantiles: float | Sequence[float] = (0.05, 0.5, 0.95)) -> FloatArray:
        """Predict quantiles of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        quantiles : float or sequence of float, default=(0.05, 0.5, 0.95)
            Quantile levels, between 0 and 1.

        Returns
        -------
        values : ndarray of shape (n_samples, n_levels)
            The quantiles.
        """
        found: FloatArray = self._predict(X).quantiles(check_quantiles(quantiles))
        return found

    def predict_above(self, X: Table, threshold: ArrayLike) -> FloatArray:
        """Predict the probability of a target above a threshold.

        The distribution is the same as in ``predict_interval``: if many targets share a value, such as zero, this value
        has a probability of its own.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        threshold : float or array-like
            One threshold for all rows: a number. One per row: an array of shape (n_samples,). Several: a list such as
            ``[1, 2, 3]``, or an array of shape (1, k) or (n_samples, k). A list as long as ``X`` is ambiguous and
            raises an error: write ``[[1, 2, 3]]`` for several thresholds.

        Returns
        -------
        probability : ndarray of shape (n_samples,) or (n_samples, k)
            Probabilities of a target greater than the threshold; of shape (n_samples, k) for several thresholds.
        """
        return probability_above(self._outcome(X), threshold)

    def expected_cost(
        self, X: Table, cost: CostGiven, decision: ArrayLike | None = None, *, tolerance: float = 1e-6
    ) -> FloatArray:
        """Predict the expectation of a cost that depends on the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        cost : callable or (under, over)
            A function ``cost(y)`` of an array of targets, or ``cost(y, decision)``; it may have kinks and jumps. Or a
            pair of unit costs: ``under`` is the cost of each unit by which the target exceeds the decision, ``over`` of
            each unit by which it is below, as numbers or arrays (one per row); the average then has a closed form.
        decision : float or array-like, optional
            The decision, such as a quantity to order: one for all rows, one per row, or several, in the shapes that
            ``threshold`` can have in ``predict_above``.
        tolerance : float, default=1e-6
            Maximum error of the expectation of a function, relative to the expectation of its absolute value.

        Returns
        -------
        cost : ndarray of shape (n_samples,) or (n_samples, k)
            Expected costs; of shape (n_samples, k) for several decisions.
        """
        return expected_cost(self._outcome(X), cost, decision, tolerance)

    def optimal_order(self, X: Table, *, under: ArrayLike, over: ArrayLike) -> Order:
        """Return the order of least expected cost, given the costs of each unit ordered too little and too much.

        It is the quantile of the target at the level under / (under + over): the solution of the newsvendor problem.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        under : float or array of shape (n_samples,)
            Cost of each unit by which the target is above the order, greater than zero.
        over : float or array of shape (n_samples,)
            Cost of each unit by which the target is below the order, greater than zero.

        Returns
        -------
        order : Order
            For each row: ``quantity``, its expected ``cost``, and ``level``; ``to_frame()`` returns a data frame.
        """
        return optimal_order(self._outcome(X), under, over)

    def _outcome(self, X: Table) -> Outcome:
        """Return the distributions on which intervals, probabilities and expected costs of the rows are based."""
        return Outcome(*self._predict(X).point_masses())

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
        """Return Shapley values of the columns: contributions to the predicted mean and the parts of the variance.

        The columns of a background row are replaced by those of the explained row, one after the other. The value of a
        column is the change of the prediction when it is replaced, averaged over orders of the columns and over
        background rows. For each row, ``base`` plus the values of all columns is the prediction, up to rounding.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to explain.
        background : array-like of shape (n_background, n_features), optional
            Rows to compare with, such as training rows, which a model does not keep; by default, the rows of ``X``.
        n_samples : int, optional
            Number of pairs of column orders for each row: a random order and its reverse. By default, as many as take
            about 800 predictions per row (500 if more than 20 rows are explained): with 20 columns, 21 (13) pairs. Each
            pair uses one background row; at most ``n_samples`` of these are drawn, evenly over their predicted means.
            Standard errors fall with the square root of this number.
        max_rows : int or None, default=100
            Maximum number of rows to explain; of more rows, these are drawn at random. None: all rows.
        variance : bool, default=True
            Explain the parts of the variance, too; False is a little faster.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the draws. It is fixed by default, so the same call gives the same values.

        Returns
        -------
        explanation : Explanation
            Values and their standard errors for each row; ``table()`` or ``to_frame()`` shows how much each column
            matters overall, ``row(i)`` what it adds in one row.
        """
        return explain(self._fitted(), X, background, n_samples, max_rows, variance, random_state)

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
        """Return average predictions as a function of one column, which is set to each value of a grid in all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows whose other columns stay as they are.
        column : str or int
            Name of the column, or its number from 0.
        grid : array-like, optional
            Values of the column; by default, quantiles of its values in ``X`` from 1 % to 99 %, or the most frequent
            values if it has few different ones or holds no numbers.
        coverage : float, default=0.9
            Probability of the intervals.
        max_rows : int or None, default=200
            Maximum number of rows to use; of more rows, these are drawn at random. None: all rows.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the draw.

        Returns
        -------
        dependence : PartialDependence
            For each value of the grid: the average of the predicted means, the averages of the interval limits of the
            rows, and an interval for the target of a row drawn at random.
        """
        return partial_dependence(self._fitted(), X, column, grid, coverage, max_rows, random_state)

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
        generator, model = np.random.default_rng(seed_sequence(random_state)), self._fitted()
        rows = model.reader.read(X)
        check_draws("n_samples", rows.shape[0], n_samples)
        drawn: FloatArray = model.predict(rows, joint=True).draws(int(n_samples), generator)
        return drawn

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

    def save(self, path: str | os.PathLike[str], *, without_rows: bool = False) -> None:
        """Write the fitted model to one file, which ``bdkn.load`` reads.

        The file holds arrays and JSON, no code. It also holds targets of training rows. An engine is written as its
        name. Other parameters that JSON cannot hold, such as an engine of your own or a random generator, are written
        as their defaults.

        Parameters
        ----------
        path : str or path-like
            File to write. An existing file is replaced and keeps its permissions; a symbolic link stays a link.
        without_rows : bool, default=False
            Do not write targets of training rows. The loaded model gives the same predictions, but methods that need
            these rows raise an error: intervals with a guarantee, updates, comparing, adding and dropping members.
            Models that predict from training rows cannot be written this way. Up to 1024 rows of standardized inputs
            stay in the file, to compute the distance of new rows from the training rows.
        """
        check_is_fitted(self)
        check_flag("without_rows", without_rows)
        model = self._frozen()
        if without_rows:
            model.model_ = model.model_.without_rows()
        save_model(model, path)

    # Regressors whose members are networks

    @classmethod
    def from_paper(cls, setting: int = 1, dataset: str | None = None, **overrides: Any) -> Self:
        """Return the regressor with the parameters of the paper's experiments.

        Parameters
        ----------
        setting : {1, 2}, default=1
            1: learning rate 0.1 for 40 epochs; 2: learning rate 0.001 for 500 epochs.
        dataset : str, optional
            Name of a data set of the paper; the parameters are the same for all data sets.
        **overrides
            Parameters that get other values, for example ``random_state=0``.

        Returns
        -------
        model : object
            The regressor, not fitted.

        Examples
        --------
        >>> from bdkn import BDKNRegressor, DeepEnsembleRegressor
        >>> BDKNRegressor.from_paper(setting=1).learning_rate, DeepEnsembleRegressor.from_paper(setting=2).epochs
        (0.1, 500)
        """
        if cls._published is None:
            raise InvalidParameterError(f"from_paper needs a regressor of the paper's experiments; got {cls.__name__}")
        return cls(**{**paper_parameters(setting, dataset), **cls._published, **overrides})

    def report(self, X: Table, y: ArrayLike, path: str | os.PathLike[str] | None = None, **options: Any) -> Any:
        """Return an HTML report about the model, evaluated on rows that were not used for training.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to evaluate the model on, not used for training.
        y : array-like of shape (n_samples,)
            Their targets.
        path : str or path-like, optional
            File to write; an existing file is replaced.
        **options
            ``title``, ``target_name``, ``rows`` and ``what_if``, as in ``bdkn.report.write_page``.

        Returns
        -------
        page : bdkn.report.Page
            The report: one HTML page that works offline. Notebooks display it, and its ``save(path)`` writes it.
        """
        pages = import_module("bdkn.report.page")  # imported here, as it imports this module
        if path is not None:
            pages.check_page_file(path)
        page = pages.make_page(self._frozen(), X, y, **options)
        if path is not None:
            page.save(path)
        return page

    @property
    def _networks(self) -> NetworkMembers:
        networks: NetworkMembers = self._fitted().networks
        return networks

    @property
    def ensemble_(self) -> NetworkEnsemble:
        """All networks in use, with the scaling of inputs and targets that they were trained with."""
        return self._networks.ensemble

    @property
    def members_(self) -> list[NetworkMember]:
        """The members in use, each with ``predict(X) -> (mean, variance)`` in the units of the target."""
        return self._networks.ensemble.members

    @property
    def member_names_(self) -> tuple[str, ...]:
        """Names of the members in use; members that diverged or were not selected are missing, without renumbering."""
        names: tuple[str, ...] = self._fitted().members.names
        return names

    @property
    def member_scores_(self) -> MemberScores:
        """Mean squared error and NLL of each member in scaled units.

        They are computed on held-out rows or, if there are none, on the training rows.
        """
        return self._networks.scores

    @property
    def loss_curves_(self) -> tuple[Array, ...]:
        """Training loss per epoch, one array per network in use: first the networks of the first fold, and so on."""
        return self._networks.loss_curves

    @property
    def loss_curve_(self) -> FloatArray:
        """Training loss per epoch, averaged over the networks that were trained for this epoch."""
        return self._networks.loss_curve

    @property
    def validation_curves_(self) -> tuple[Array, ...]:
        """Loss per epoch on the validation rows of each network in use; empty without early stopping."""
        return self._networks.validation_curves

    @property
    def best_epochs_(self) -> IndexArray:
        """For each network in use, the number (from 0) of the epoch whose weights were kept."""
        return self._networks.best_epochs

    @property
    def n_iter_(self) -> int:
        """Largest number of epochs that any network was trained for."""
        return self._networks.n_iter


def on_engine(model: Any, engine: str | Engine) -> Any:
    """Return the fitted model with networks that predict on the device of ``engine``, such as a GPU."""
    if engine == "fused" or not isinstance(getattr(model, "members", None), NetworkMembers):
        return model
    return replace(model, members=replace(model.members, engine=engine))


Class = TypeVar("Class", bound=type)

_KINDS = {
    "NDArray[Any]": "ndarray",
    "FloatArray": "ndarray",
    "IndexArray": "ndarray of int",
    "Array": "ndarray",
    "list[Pair]": "list of (str, estimator) pairs",
    "list[Any]": "list",
    "list[NetworkMember]": "list of NetworkMember",
    "tuple[str, ...]": "tuple of str",
    "tuple[ndarray, ...]": "tuple of ndarray",
    " | ": " or ",
}
"""Type annotations of properties, and the words that replace them in generated docstrings."""


def with_inherited_docs(cls: Class) -> Class:
    """Fill in the placeholders in the docstring of a regressor class, and return the class.

    A line ``<Parameters of Base>`` is replaced by the documented parameters of the class ``Base``, or of networks, with
    the defaults of this class; ``<Attributes>`` by a section of all attributes, from the docstrings of properties.
    """

    def parameters(found: re.Match[str]) -> str:
        base = next((base for base in cls.__mro__ if base.__name__ == found[2]), None)
        text = NETWORK_DOCS if base is None else inspect.cleandoc(base.__doc__ or "")
        part = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w[\w ]*\n-+\n|\Z)", text, flags=re.MULTILINE | re.DOTALL)
        assert part is not None, f"{found[2]} has parameters"
        return textwrap.indent(part[1].rstrip(), found[1])

    text = re.sub(r"^( *)<Parameters of (\w+)>$", parameters, cls.__doc__ or "", flags=re.MULTILINE)
    declared = inspect.signature(cls).parameters
    for name in declared.keys() & vars(cls).get("__annotations__", {}).keys():  # the base may have another default
        default = repr(declared[name].default).replace("'", '"')
        text = re.sub(rf"^( *{name} : .*, default=).*$", rf"\g<1>{default}", text, flags=re.MULTILINE)
    found = {"model_": "object\n    The fitted model, which never changes: an update or another fit replaces it."}
    for base in cls.__mro__[::-1]:
        for name, value in vars(base).items():
            if isinstance(value, property) and name.endswith("_") and base.__module__.startswith("bdkn."):
                kind = value.fget.__annotations__["return"]
                for old, new in _KINDS.items():
                    kind = kind.replace(old, new)
                found[name] = f"{kind}\n{textwrap.indent(inspect.cleandoc(value.__doc__ or ''), '    ')}"
    attributes = "\n".join(["Attributes", "----------", *(f"{name} : {text}" for name, text in found.items())])
    cls.__doc__ = text.replace("    <Attributes>", textwrap.indent(attributes, "    "))
    return cls
