"""Bayesian deep kernel networks: networks, or other models, as the basis of a Bayesian linear model."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter
from sklearn.utils.metaestimators import _BaseComposition, available_if
from sklearn.utils.validation import check_is_fitted

from bdkn.data.folds import Folds, OwnFolds, Seed
from bdkn.data.rows import RowSource, as_frame
from bdkn.data.scaling import TargetScaler, TargetValues
from bdkn.data.training_data import check_targets
from bdkn.ensemble.estimators import EstimatorMembers, Pair
from bdkn.ensemble.provenance import FitProvenance
from bdkn.ensemble.selection import CombinationOptions, HeldOut, select_and_combine
from bdkn.errors import (
    InvalidParameterError,
    check_choice,
    check_flag,
    check_number,
    check_parameters,
    no_extrapolation_warnings,
    shown,
)
from bdkn.estimators.base import ProbabilisticRegressor, Table, on_engine, with_inherited_docs
from bdkn.estimators.fitting import cross_fit_networks
from bdkn.estimators.members import accepted_inputs, check_estimators, cross_fit_estimators, in_use, route_metadata
from bdkn.estimators.paper import fit_published
from bdkn.estimators.parameters import COMBINED, NETWORKS
from bdkn.inference import Combination, WeightPosterior
from bdkn.inference.combination import student_t_covariance
from bdkn.metrics import Monitor, MonitorReport
from bdkn.model.density import NeighbourDensity
from bdkn.model.extrapolation import SupportReport
from bdkn.model.fitted import FittedModel, Updates, ValuePrediction
from bdkn.model.guarantee import Shift, guaranteed_interval
from bdkn.model.updating import NEEDS_HELD_OUT, RowStatistics, absorb, forget, merge_statistics, statistics_of
from bdkn.networks import Engine
from bdkn.networks.settings import TrainingOptions
from bdkn.predictive import StudentT
from bdkn.predictive.links import Link
from bdkn.stages import stage
from bdkn.typing import FloatArray

Method = TypeVar("Method", bound=Callable[..., Any])

WEIGHTS_NOT_IDENTIFIED = "the data do not identify the weights of these members"
"""Note in the report on members if equal weights explain the data as well."""


_REPLACE_LOCK = threading.Lock()
"""Lock that is held while the model of a regressor is compared and replaced, never during a computation."""


def _holds_rows_out(model: object) -> bool:
    """Return True if a fit of the regressor holds rows out; raise AttributeError otherwise."""
    if getattr(model, "design", None) == "in-sample":
        raise AttributeError(NEEDS_HELD_OUT)
    return True


def _if_rows_are_held_out(method: Method) -> Method:
    """Make a method available only if rows are held out of the fit; type checkers see the plain method."""
    return cast("Method", available_if(_holds_rows_out)(method))


@with_inherited_docs
@dataclass(kw_only=True, eq=False, repr=False)
class BDKNRegressor(ProbabilisticRegressor, _BaseComposition):  # type: ignore[misc]
    """Bayesian deep kernel network: Student-t predictions in closed form, fitted to held-out predictions of networks.

    H networks are trained independently. Their predictions φ(x) = (φ₁(x), .., φ_H(x)) are the basis of a Bayesian
    linear model y = φ(x)ᵀβ + α + ε, whose weights and noise are integrated out in closed form. By default members are
    cross-fitted: each is trained once for each fold of the rows, on the other folds, and the linear model is fitted to
    the members' predictions for held-out rows. The noise at x has variance σ² v(x)^τ, with v the ensemble's own
    predictive variance. If that improves the held-out score, predictions are mixed with densities of neighbouring
    training rows. ``BDKNRegressor.from_paper`` is the published method.

    Parameters
    ----------
    members : {"networks", "auto"} or list, default="networks"
        The models whose predictions are combined. "networks": networks, with a linear member in tables with at least
        half as many columns as rows; ("networks",) and ("networks", "linear") fix whether there is one. "auto":
        networks, boosting, trees and, with few rows, a Gaussian process. Or a list of (name, estimator) pairs, in which
        "drop" in place of an estimator omits it: an estimator is a regressor with ``fit`` and ``predict``; or, used as
        it is for every fold, a fitted ``torch.nn.Module`` or a function from rows to means, or to a tuple of means and
        standard deviations. If the ``predict`` of a regressor takes ``return_std``, its standard deviations are used,
        at the end of a pipeline too. Parameters of networks matter for networks only.
    <Parameters of networks>
    time_limit : float or None, default=None
        Seconds that a fit should take. The time of all training is estimated from that of a few epochs. If it is too
        long, fewer members are trained, but not fewer than 4, then fewer epochs, but not less than a tenth; a warning
        names the numbers. Numbers given as ``n_members`` and ``epochs`` are reduced, too. The result is that of a fit
        with the reduced numbers, which depend on the machine: for results that can be repeated, set them and no limit.
    design : {"cross-fit", "hold-out", "in-sample"}, default="cross-fit"
        The rows that the linear model is fitted to: every row, as predicted by networks that were not trained on it; a
        single part of the rows, held out of all training; or, as in the paper, the rows the networks were trained on,
        with constant noise, prior mean zero and no constant.
    cv : int, float, cross-validation splitter, iterable or "prefit", default=None
        Folds of a cross-fit: their number (None: 5), a splitter of scikit-learn such as ``GroupKFold()`` or
        ``TimeSeriesSplit()``, or pairs of row numbers to train on and to hold out, no row twice. Random folds differ
        between members, as do those of a splitter whose ``random_state`` is None, for networks. Rows that no fold holds
        out are used for training only. Unless ``groups`` are given or the splitter shuffles single rows, as
        ``KFold(shuffle=True)`` does, a fold counts as one group, for the density of predictions, too. With
        ``design="hold-out"``, the fraction of the rows that is held out (None: 0.1). With a list of ``members``,
        "prefit": they are fitted already, to other rows, and are only combined on the rows given to ``fit``.
    predict_with : {"folds", "refit"}, default="folds"
        What a member predicts with: the average of its networks of all folds, or one more network trained on all rows.
        Ignored with ``design="in-sample"``, as are all options of ``combination`` but ``prior_variance``.
        If a fold of ``cv`` trains on fewer than half of the rows, as those of ``TimeSeriesSplit`` do, it is always the
        latter.
    combination : CombinationOptions or None, default=None
        Options of the linear model: prior variance, tempering, tails and selection of members. None: their defaults.
    target : {"auto", "identity", "log", "logit", "yeo-johnson"}, default="auto"
        The function of the target that is predicted, the link; distributions, means and scores are those of the target
        itself. "log" is for positive targets (or those beyond one bound), "logit" for shares (or between two bounds),
        "yeo-johnson" a power for any skewed target. "auto" chooses by a quick leave-one-out score before anything is
        trained, and takes the identity unless another link is clearly better; "logit" only between bounds that are
        given or evident, see ``upper``.
    lower : float or None, default=None
        Lower bound of the target, which targets may reach but not exceed; no probability is predicted beyond it. With
        "auto", 0 is also taken for a bound if many targets are 0 and none is less.
    upper : float or None, default=None
        Upper bound of the target, likewise; with "auto", 1 if targets lie between 0 and 1 and many on each of them.
        Give ``lower=0, upper=1`` for other shares: targets between 0 and 1 alone are no evidence of a bound.
    density : {"auto", "student-t"}, default="auto"
        The density of predictions. "auto": a mixture of the Student-t of the linear model and densities of neighbouring
        training rows, if held-out rows are predicted clearly better by it, which takes 100 of them; it needs numeric
        columns and members with held-out rows. "student-t": the Student-t alone.

    <Attributes>

    See Also
    --------
    DeepEnsembleRegressor : The same networks as an equally weighted mixture.

    References
    ----------
    "Efficient Bayesian Deep Ensembles via Analytic Predictive Inference".

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BDKNRegressor
    >>> X = np.linspace(-2, 2, 200)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=200)
    >>> model = BDKNRegressor(epochs=100, learning_rate=0.01, random_state=0).fit(X, y)
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> mean.shape, std.shape
    ((3,), (3,))
    >>> model.predict_interval(X[:3], coverage=0.95).shape
    (3, 2)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    members: str | Sequence[str] | list[Pair] = field(default="networks", kw_only=False)
    n_members: int | str = "auto"
    hidden_layer_sizes: int | Sequence[int] | str = "auto"
    activation: str | Sequence[str] = ("silu", "relu")
    objective: Any = "nll"
    epochs: int | str = "auto"
    learning_rate: float = 3e-3
    weight_decay: float | Sequence[float] = (0.0, 0.0, 0.3, 0.0, 1.0, 0.0)
    n_bins: int | Sequence[int] | str = "auto"
    training: TrainingOptions | None = None
    engine: str | Engine = "fused"
    n_jobs: int | None = -1
    random_state: Seed = None
    verbose: int = 0
    effort: str = "balanced"
    time_limit: float | None = None
    design: str = "cross-fit"
    cv: Any = None
    predict_with: str = "folds"
    combination: CombinationOptions | None = None
    target: str = "auto"
    lower: float | None = None
    upper: float | None = None
    density: str = "auto"

    _published: ClassVar[Mapping[str, Any]] = {
        "members": "networks",
        "design": "in-sample",
        "combination": CombinationOptions(prior_variance="paper"),
        "target": "identity",
    }
    __metadata_request__partial_fit = {"forgetting": UNUSED, "refit_prior": UNUSED}  # noqa: RUF012

    def fit(
        self,
        X: Table | RowSource,
        y: ArrayLike | str | None = None,
        sample_weight: ArrayLike | str | None = None,
        groups: ArrayLike | str | None = None,
        **metadata: Any,
    ) -> Self:
        """Fit the regressor to training rows, in memory or in blocks.

        Rows that repeat another one, inputs and target, are counted once, with a warning, and rows with equal inputs
        are in the same fold, unless ``groups``, or row numbers as ``cv``, define which belong together.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features), or row source
            An array of finite numbers; or a data frame of pandas, polars or pyarrow, with columns of numbers, booleans,
            categories, text, dates and durations, in which values may be missing; or a source of rows that need not
            fit into memory: ``ParquetRows``, ``ArrayRows``, ``IteratorRows``, ``DaskRows``, a pyarrow dataset or a Dask
            data frame.
        y : array-like of shape (n_samples,)
            Targets; of a dataset or a Dask data frame, the name of the column; not given with other row sources, which
            have their targets.
        sample_weight : array-like of shape (n_samples,), optional
            How many times each row is counted: a weight of 2 is two observations, a weight of 0 excludes the row.
            Weights that sum to one would count as a single row: multiply them by the number of rows.
        groups : array-like of shape (n_samples,), optional
            A label for each row. Rows with the same label are in the same fold: rows of one patient, machine or place,
            if new rows will be of others. ``np.arange(len(y))`` makes every row an observation of its own.

        **metadata
            With a list of members: metadata for them or for ``cv``, passed on to those that request it by
            scikit-learn's metadata routing.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        self.model_ = self._fit(X, y, sample_weight, groups, metadata)
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any = None,
        metadata: Mapping[str, Any] = MappingProxyType({}),
        former: FittedModel | None = None,
    ) -> FittedModel:
        """Return the model of a fit; with a ``former`` one, whose parameters were checked, members are added to it."""
        params = self._checked() if former is None else self
        if metadata and params.has_networks and former is None:
            raise InvalidParameterError(f"fit has no parameter {next(iter(metadata))!r} for networks")
        if params.design == "in-sample":  # the published method
            return fit_published(params, X, y, sample_weight, groups)
        with ExitStack() as files:  # of encoded rows, if not all of them fit into memory
            if params.has_networks:
                found = cross_fit_networks(params, X, y, sample_weight, groups, files, former)
            else:
                found = cross_fit_estimators(params, X, y, sample_weight, groups, metadata, former)

            # The members with the best leave-one-out score together, and their combination
            options = params.combination or CombinationOptions()
            with stage("combine"):
                chosen, combination = select_and_combine(found.held_out, found.finite, options, params.n_jobs)
            model = FittedModel.of(
                found.reader,
                found.members,
                chosen,
                combination,
                found.held_out,
                found.targets,
                options,
                found.provenance,
                found.n_trained,
            )

            # Extra variance for extrapolation, densities of neighbours; of rows in blocks, the posterior of all rows
            density = params.density == "auto" and params.design == "cross-fit"
            model = model.with_training_rows(
                found.X, found.held_out_rows, found.sets, density=density, n_jobs=params.n_jobs
            )
            if found.statistics_of_all_rows is not None:
                with stage("predict held-out rows"):
                    model = model.with_all_rows(found.statistics_of_all_rows(model), options.prior_variance)
        return model

    if TYPE_CHECKING:

        def _fitted(self) -> FittedModel: ...

    @property
    def has_networks(self) -> bool:
        """True if the members are networks that this regressor trains."""
        is_auto = isinstance(self.members, str) and self.members == "auto"
        return not (is_auto or isinstance(self.members, list))

    def _checked(self) -> Self:
        """Check the parameters; return a copy, which is not affected by ``set_params`` during the fit."""
        params = copy.copy(self)
        if isinstance(params.cv, Iterator):  # an iterator can be read only once
            params.cv = list(params.cv)
        check_parameters(params, {**COMBINED, **NETWORKS})
        design, cv, names = params.design, params.cv, params.members
        if params.lower is not None and params.upper is not None and not params.lower < params.upper:
            raise InvalidParameterError(f"lower must be < upper; got lower={params.lower} and upper={params.upper}")
        if params.has_networks:
            known = isinstance(names, tuple) and all(name in ("networks", "linear") for name in names)
            if not (isinstance(names, str) and names == "networks") and not (known and "networks" in names):
                raise InvalidParameterError(
                    "members must be 'networks', 'auto', ('networks',), ('networks', 'linear'), or a list of (name, "
                    f"estimator) pairs; got {names!r:.200}"
                )
        else:
            if isinstance(names, list):
                check_estimators(names, self._validate_names)
            if design == "in-sample":
                raise InvalidParameterError(
                    "design='in-sample' is the published method, for networks; other members are combined by rows held "
                    "out of their training: use design='cross-fit' or 'hold-out'"
                )
            if isinstance(cv, str):
                check_choice("cv", cv, ("prefit",))
                if names == "auto":
                    raise InvalidParameterError("cv='prefit' combines fitted members: give them, or let cv be None")
                return params
        if design == "hold-out" and cv is not None:
            name = "cv, the fraction of the rows that design='hold-out' holds out,"
            check_number(name, cv, low=0, high=0.9, strict=True)
        elif design == "cross-fit" and cv is not None:
            if isinstance(cv, str | bytes) or (isinstance(cv, np.ndarray) and cv.ndim == 0):
                raise InvalidParameterError(
                    f"cv must be a number, a splitter or pairs of lists of row numbers; got {shown(cv)}"
                )
            if not (hasattr(cv, "split") or isinstance(cv, Iterable)):
                check_number("cv", cv, low=2, whole=True)
        return params

    def add_members(
        self,
        new: int | list[Pair],
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **metadata: Any,
    ) -> Self:
        """Return the regressor with more members; this one does not change.

        Only the new members are trained, on the rows and with the folds of the fit, which must be given again, and with
        the seeds that follow: the result is that of a fit with all members at once. Members that were not selected, or
        dropped, stay out.

        Parameters
        ----------
        new : int or list of (str, estimator) pairs
            Number of networks to add; or estimators, if the members are estimators.
        X : array-like or data frame of shape (n_samples, n_features)
            The training rows of the fit.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            Their weights, if the fit had any.
        groups : array-like of shape (n_samples,), optional
            Their groups, if the fit had any.
        **metadata
            Metadata as in ``fit``.

        Returns
        -------
        model : BDKNRegressor
            The regressor with more members.
        """
        params, former = copy.copy(self), self._fitted()
        former.required_held_out()
        if isinstance(former.members, EstimatorMembers):
            if not isinstance(new, list):
                raise InvalidParameterError(f"new members must be a list of (name, estimator) pairs; got {shown(new)}")
            params.members = new
            params = params._checked()
            params.members = [*former.members.candidates, *new]  # the former are texts in a model from a file
            params._validate_names([name for name, _ in params.members])
        else:
            check_number("n", new, low=1, whole=True)
            params.n_members = former.n_trained + cast(int, new)
            params = params._checked()
        return self._with_model(params._fit(X, y, sample_weight, groups, metadata, former), params)

    def drop_members(self, names: str | Sequence[str]) -> Self:
        """Return the regressor without some of its members; this one does not change.

        No member is fitted again: only the weights are learned again, from the same rows. If predictions are mixed with
        densities of neighbours, the weights of these stay.

        Parameters
        ----------
        names : str or sequence of str
            Names of the members to drop, from ``member_names_``.

        Returns
        -------
        model : object
            A regressor of the same class. In a stack, these members are "drop" in its ``estimators``.
        """
        model = self._fitted()
        model.required_held_out()
        model.check_not_updated("dropped")
        all_names = model.members.names
        dropped = list(names) if isinstance(names, list | tuple | set | np.ndarray) and np.ndim(names) else [names]
        for name in dropped:
            check_choice("each member to drop", name, all_names)
        kept = np.array([h for h, name in enumerate(all_names) if name not in dropped], dtype=np.intp)
        if not len(kept):
            raise InvalidParameterError(
                f"at least one member must be left of {len(all_names)}; got all of them to drop"
            )
        fewer = model.keep(kept, self._options())
        if not isinstance(fewer.members, EstimatorMembers):
            return self._with_model(fewer)
        unused = {*all_names} - {*fewer.members.names}
        candidates = [(name, "drop" if name in unused else model) for name, model in fewer.members.candidates]
        new = self._with_model(replace(fewer, members=replace(fewer.members, candidates=candidates)))
        new.members = candidates
        return new

    def without_shape(self) -> Self:
        """Return the regressor that predicts Student-t distributions alone; this one does not change.

        It is the result of a fit with ``density="student-t"``, and predicts faster.

        Returns
        -------
        model : object
            The regressor without densities of neighbours.
        """
        new = self._with_model(replace(self._fitted(), density=None))
        new.density = "student-t"
        return new

    def _options(self) -> CombinationOptions:
        """Return the checked options of the linear model."""
        check_parameters(self, {"combination": COMBINED["combination"]})
        return self.combination or CombinationOptions()

    def _with_model(self, model: FittedModel, params: Self | None = None) -> Self:
        """Return a copy with another fitted model and, if they are given, other parameters."""
        new = copy.copy(self if params is None else params)
        if not isinstance(model.members, EstimatorMembers):
            model = replace(model, members=replace(model.members, engine="fused"))
        new.model_ = model
        return new

    @overload
    def predict_var(self, X: Table, *, decompose: Literal[False] = False) -> FloatArray: ...

    @overload
    def predict_var(self, X: Table, *, decompose: Literal[True]) -> dict[str, FloatArray]: ...

    def predict_var(self, X: Table, *, decompose: bool = False) -> FloatArray | dict[str, FloatArray]:
        """Predict the variance of each row, as a whole or in parts.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        decompose : bool, default=False
            Return the parts that add up to the variance.

        Returns
        -------
        variance : ndarray of shape (n_samples,) or dict of str to ndarray
            With ``decompose``: "noise", which remains if everything else is known; "disagreement" of the members about
            the row; "weights", from the uncertainty of the members' weights; and "outside", which is zero for rows no
            farther from training rows than those are from each other, and grows with the distance. If neighbours give
            predictions a shape, there is also "shape": the difference between the variance of the mixture and that of
            the Student-t, which may be negative. If the target is transformed, the variance is divided in proportion to
            the parts of the variance of the transformed target.
        """
        parts: dict[str, FloatArray] = self._predict(X).variances()
        return parts if decompose else np.asarray(sum(parts.values()))

    def predict_interval(
        self, X: Table, coverage: float = 0.9, *, guarantee: bool = False, shift: Shift | None = None
    ) -> FloatArray:
        """Predict the central interval of each row.

        If many targets share values (``target_values_``), the ends are quantiles of the distribution that
        ``predict_values`` describes: for a discrete target they are values of it, and with point masses an end may be
        one of them. Such an interval holds at least the probability ``coverage``. Otherwise the ends are quantiles of
        the density of ``predict_dist``.

        With ``guarantee=True`` intervals are cross-conformal (CV+): whatever the distribution of the rows, if new rows
        are exchangeable with the training rows, an interval with ``coverage`` 1 - α contains a new target with a
        probability of at least about 1 - 2α, and in practice of about 1 - α. They are as wide as the errors on
        held-out rows, in units of the members' own standard deviation. The guide on updating describes which
        parts of this are exact.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Probability that each interval contains.
        guarantee : bool, default=False
            Whether to return cross-conformal intervals. They need ``predict_with="folds"``, a model that has absorbed
            no rows since its fit, and at least ``1 / (1 - coverage)`` training rows: with fewer, an end is infinite or
            a bound of the target.
        shift : pair of array-like, optional
            With ``guarantee=True``: weights of the training rows, in the order of the fit, and of the rows of ``X``. A
            weight is the ratio of the frequency of such rows among new rows to that in training.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper ends.
        """
        if not guarantee:
            if shift is not None:
                raise InvalidParameterError(
                    "shift weighs the rows of intervals with guarantee=True; got guarantee=False"
                )
            return super().predict_interval(X, coverage)
        model = self._fitted()
        return guaranteed_interval(model, model.reader.read(X), coverage, shift)

    def predict_values(self, X: Table) -> dict[float, FloatArray]:
        """Predict the probability of each of the values that many targets share.

        For a discrete target, such as ratings or counts, the probabilities of all values add up to one. With point
        masses, such as zero where many targets are zero, one minus their sum is the probability of any other value.
        Probabilities are calibrated on held-out rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        probabilities : dict of float to ndarray of shape (n_samples,)
            For each value, its probability in each row; ``pandas.DataFrame`` makes a table of it.
        """
        model = self._fitted()
        model.check_has_values()
        return cast(ValuePrediction, model.predict(model.reader.read(X))).value_probabilities()

    def value_log_score(self, X: Table, y: ArrayLike) -> float:
        """Return the mean log probability of the targets' values; greater is better.

        It is the score of ``predict_values`` as ``log_score`` is that of the density, and the two cannot be compared.
        With point masses, a target without one of them is scored by the log probability of any other value plus its log
        density among the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Their targets.

        Returns
        -------
        score : float
            Mean log probability. A value that a discrete target did not have in n training rows counts as 1 / (n + 1).
        """
        model = self._fitted()
        model.check_has_values()
        targets, rows = check_targets(y), model.reader.read(X)
        if len(targets) != len(rows):
            raise InvalidParameterError(
                f"y must hold one value for each of the {len(rows)} predicted rows; got shape {targets.shape}"
            )
        return cast(ValuePrediction, model.predict(rows)).value_log_score(targets)

    def support(self, X: Table) -> SupportReport:
        """Return how far each row is from the training rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to compare.

        Returns
        -------
        report : SupportReport
            For each row: ``ratio``, its distance to the nearest training row over the distance that is typical between
            training rows; ``status``, "inside" with a ratio of at most 1, else "gap" or, beyond the range of a column,
            "outside"; the ``column`` that is responsible; and ``inside``, from 1 for a row inside to 0 far away.
        """
        model = self._fitted()
        return model.support(model.reader.read(X))

    # Updates: rows join and leave the posterior of the weights; members never change

    def _update(self, change: Callable[[FittedModel], FittedModel]) -> Self:
        """Replace the fitted model by a changed one, at once; begin again if another thread was faster."""
        check_is_fitted(self)
        while True:
            before: FittedModel = self.model_
            after = replace(change(on_engine(before, self.engine)), members=before.members)
            with _REPLACE_LOCK:
                if self.model_ is before:
                    self.model_ = after
                    return self

    @_if_rows_are_held_out
    def partial_fit(
        self,
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        forgetting: float = 1.0,
        refit_prior: bool = False,
    ) -> Self:
        """Absorb new rows: update the weights of the members and the noise; members stay as they are.

        The result is that of all rows at once, in any order and any batches. The model keeps statistics of the rows,
        whose size does not depend on their number. Fixed from the fit are the tempering, the tails, the prior variance
        of the weights, the shape of predictions, the probabilities of values, and where the training rows lie: a row
        outside of them stays outside, as members have not learned from it, and counts less for the weights. A model
        that is not fitted is fitted to the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows that were not part of the fit.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            How many times each row is counted; a row with weight 0 is not absorbed.
        forgetting : float, default=1.0
            The factor by which all rows before this call, those of the fit included, count less from now on, for data
            that drift. It holds per call: with batches of m rows, ``forgetting`` is about the same as counting the last
            ``m / (1 - forgetting)`` rows.
        refit_prior : bool, default=False
            Whether to choose the prior variance of the weights again, from all rows, as ``prior_variance`` defines.

        Returns
        -------
        self : object
            The regressor, which has changed.
        """
        check_number("forgetting", forgetting, low=0.0, high=1.0, strict=True)
        check_flag("refit_prior", refit_prior)
        if not self.__sklearn_is_fitted__():
            model = self._fit(X, y, sample_weight)
            with _REPLACE_LOCK:
                if not self.__sklearn_is_fitted__():  # by another thread, meanwhile
                    self.model_ = model
                    return self
        prior_variance = self._options().prior_variance if refit_prior else None

        def absorbed(model: FittedModel) -> FittedModel:
            rows = model.reader.read_rows(X, y, sample_weight).counted()
            return absorb(model, rows, float(forgetting), prior_variance)

        return self._update(absorbed)

    def forget(self, X: Table = None, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Remove rows that ``partial_fit`` absorbed; without rows, all of them.

        The result is that of a model which never absorbed these rows, up to rounding. A row is removed with the weight
        that it counts now, however much was forgotten since. Rows that were not absorbed are refused: the last 100 000
        rows are recognised; others, and rows of models that were merged, are refused if what would remain cannot be the
        statistics of any rows. Rows of the fit cannot be removed, as members were trained on them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), optional
            Rows to remove, as they were absorbed; None: all, which brings back the model as it was fitted.
        y : array-like of shape (n_samples,), optional
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            Their weights, if they had any.

        Returns
        -------
        self : object
            The regressor, which has changed.
        """
        if (X is None) != (y is None):
            raise InvalidParameterError("forget takes rows X with their targets y, or neither; got only one of them")

        def forgotten(model: FittedModel) -> FittedModel:
            if X is None or y is None:
                return forget(model, None)
            return forget(model, model.reader.read_rows(X, y, sample_weight).counted())

        return self._update(forgotten)

    def statistics(self) -> RowStatistics:
        """Return sufficient statistics of the rows absorbed since the fit, without the rows.

        Returns
        -------
        statistics : RowStatistics
            A small object with ``save`` and ``load``, for ``merge`` of a model with the same members.
        """
        return statistics_of(self._fitted())

    def merge(self, other: Any) -> Self:
        """Absorb the rows of another model with the same members, by their statistics.

        Sites start with copies of one fitted model, absorb their own rows, and exchange ``statistics()``. The result is
        that of one model that absorbed the rows of all, as long as no row is in two of them.

        Parameters
        ----------
        other : regressor or RowStatistics
            A regressor from the same fit, or its ``statistics()``.

        Returns
        -------
        self : object
            The regressor, which has changed.
        """
        if isinstance(other, RowStatistics):
            found = other
        elif isinstance(other, BDKNRegressor):
            found = other.statistics()
        else:
            raise InvalidParameterError(
                f"merge takes a regressor with the same members, or its statistics(); got {type(other).__name__}"
            )
        return self._update(lambda model: merge_statistics(model, found))

    def monitor(self, X: Table, y: ArrayLike, monitor: Monitor | None = None) -> MonitorReport:
        """Score a batch of rows before it is absorbed, and report whether predictions are still calibrated.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        y : array-like of shape (n_samples,)
            Their targets.
        monitor : Monitor, optional
            What is known from earlier batches; it is changed. By default a new one, with its default false-alarm rate,
            for this batch alone.

        Returns
        -------
        report : MonitorReport
            Scores, coverage, share of rows outside of the training rows, and whether there is an alarm.
        """
        monitor = Monitor() if monitor is None else monitor
        model, targets = self._fitted(), check_targets(y)
        rows = model.reader.read(X)
        if rows.shape[0] != len(targets):
            raise InvalidParameterError(
                f"y must hold one target for each of the {rows.shape[0]} rows of X; got {len(targets)}"
            )
        with no_extrapolation_warnings():
            prediction = model.predict(rows)
        pit = prediction.pit(targets, np.random.default_rng(monitor.n))
        outside = float("nan") if model.extrapolation is None else np.mean(model.support(rows).status != "inside")
        return monitor.add(targets, prediction.dist, pit=pit, outside=float(outside))

    # The fitted model, for inspection

    @property
    def combination_(self) -> Combination:
        """The linear model: posterior of (β, α, σ²), tempering τ and tails, in scaled units."""
        return self._fitted().combination

    @property
    def held_out_(self) -> HeldOut | None:
        """Predictions of the members in use for held-out rows, with targets, in scaled units; None without any."""
        model = self._fitted()
        model.check_has_rows()
        return model.held_out

    @property
    def provenance_(self) -> FitProvenance | None:
        """Seed, digest of the rows and parameters of a fit, for ``add_members``; None if no rows were held out."""
        return self._fitted().provenance

    @property
    def density_(self) -> NeighbourDensity | None:
        """Mixture of the Student-t and a kernel density of similar training rows; None: predictions are Student-t."""
        return self._fitted().density

    @property
    def weights_(self) -> FloatArray:
        """Posterior mean of the weights β, one per member."""
        return self.combination_.weights

    @property
    def weights_cov_(self) -> FloatArray:
        """Posterior covariance of β, with σ_β² integrated out where it is chosen by evidence.

        It is infinite with two degrees of freedom or fewer.
        """
        weights = self._weight_posterior()
        return student_t_covariance(weights.df, weights.scale_matrix)

    @property
    def weights_identified_(self) -> bool:
        """True if the data identify the weights: unequal ones have more than three times the evidence of equal ones.

        True for a model with one member, and where the prior variance of the weights was given.
        """
        posterior = self._weight_posterior()
        return len(posterior.mean) == 1 or posterior.weights_identified

    @property
    def intercept_(self) -> float:
        """The constant that is added to the weighted predictions of the members, in units of the transformed target."""
        model = self._fitted()
        targets, combination = model.targets, model.combination
        return float(targets.mean * (1.0 - combination.weights.sum()) + targets.scale * combination.constant)

    @property
    def noise_variance_(self) -> float:
        """Squared noise scale of the transformed target for known weights, at the members' average variance."""
        model = self._fitted()
        with np.errstate(over="ignore", under="ignore"):
            return float(np.square(model.targets.scale * model.combination.noise_std))

    @property
    def dof_(self) -> float:
        """Degrees of freedom of every prediction."""
        return self.combination_.tails.df

    @property
    def prior_variance_(self) -> float:
        """The prior variance σ_β² in use."""
        return self.combination_.prior_variance

    @property
    def evidence_(self) -> float:
        """Log marginal likelihood of the targets that the linear model was fitted to, in their own units."""
        return float(self._fitted().evidence())

    @property
    def link_(self) -> Link:
        """The function of the target that is predicted."""
        return self._fitted().targets.link

    @property
    def target_values_(self) -> TargetValues | None:
        """Values of a discrete target, or those that many targets share, with their shares; None if there are none.

        It has ``values``, ``shares`` and ``is_discrete``; ``predict_values`` predicts their probabilities.
        """
        return self._fitted().targets.values

    def weight_posterior(self) -> StudentT:
        """Return the posterior distribution of each member's weight.

        With ``prior_variance="evidence"`` the prior variance of the weights is integrated out: where the data do not
        identify the weights, intervals are about as wide as the weights are large; the chosen one gives narrower ones.

        Returns
        -------
        dist : StudentT
            One distribution per member.
        """
        return self._weight_posterior().marginals()

    def _weight_posterior(self) -> WeightPosterior:
        averaged = self._options().prior_variance == "evidence"
        return self._fitted().weight_posterior(averaged=averaged)

    def member_table(self) -> dict[str, Any]:
        """Return each member's name, weight with its 95 % credible interval, fit, and contribution.

        Returns
        -------
        table : dict of str to list or ndarray
            One column per key. RMSE and NLL are in the units of the target, the NLL that of the member's own Gaussian
            (in a stack, with the variance that is used): on held-out rows or, with ``design="in-sample"``, on the
            training rows. ``loss_without`` is the decrease of the mean leave-one-out log score without the member; nan
            where it is not known. If ``weights_identified_`` is False, do not interpret the weights.
        """
        frozen = self._frozen()
        model = frozen._fitted()
        H, options = len(model.members), self._options()
        lower, upper = frozen.weight_posterior().interval(0.95)
        without = np.full(H, np.nan)
        if model.held_out is not None and H > 1 and not np.isnan(model.combination.score):
            everyone = np.arange(H)
            scores = [model.leave_one_out_scores(np.delete(everyone, h), options)[0] for h in everyone]
            without = model.leave_one_out_scores(everyone, options)[0] - np.array(scores)
        weights = {"member": list(model.members.names), "weight": model.combination.weights}
        return {**weights, "lower": lower, "upper": upper, **model.member_scores(), "loss_without": without}

    def member_report(self) -> Any:
        """Return ``member_table`` as a pandas data frame.

        Returns
        -------
        frame : pandas.DataFrame
            One row per member. ``frame.attrs["note"]`` is a warning if equal weights fit the data as well.
        """
        frozen = self._frozen()
        frame = as_frame(frozen.member_table())
        frame.attrs["note"] = "" if frozen.weights_identified_ else WEIGHTS_NOT_IDENTIFIED
        return frame

    def member_curve(self) -> dict[str, NDArray[Any]]:
        """Return the leave-one-out log score and RMSE with the first 1, 2, .. members.

        Each held-out row is predicted from all others, in the units of the target. Only the weights are fitted again.

        Returns
        -------
        curve : dict of str to ndarray
            Columns ``n_members``, ``log_score`` and ``rmse``.
        """
        model, options = self._fitted(), self._options()
        held_out = model.required_held_out()
        if np.isnan(model.combination.score):
            raise InvalidParameterError(
                "members are compared by predicting each held-out row from the others, which takes two held-out rows; "
                f"got {len(held_out.y)}: add rows, hold out a larger fraction, or cross-fit"
            )
        sizes = np.arange(1, len(model.members) + 1)
        scores = [model.leave_one_out_scores(np.arange(size), options) for size in sizes]
        log_score, rmse = np.transpose(scores)
        return {"n_members": sizes, "log_score": log_score, "rmse": rmse}

    @property
    def n_trained_(self) -> int:
        """Number of members that were trained, in use or not."""
        return self._fitted().n_trained

    @property
    def updates_(self) -> Updates | None:
        """Record of the rows absorbed since the fit; None if there are none."""
        return self._fitted().updates

    @property
    def target_scaler_(self) -> TargetScaler:
        """The mean and the scale of the targets, in whose units members are combined."""
        return self._fitted().targets

    # Members that are estimators

    @property
    def members_(self) -> list[Any]:
        """The members in use, each with ``predict(X) -> (mean, variance or None)`` in the units of the target."""
        members = self._fitted().members
        return list(members.members) if isinstance(members, EstimatorMembers) else members.ensemble.members

    @property
    def candidates_(self) -> list[Pair]:
        """With a list of members or "auto": the members as they were given or chosen."""
        return self._fitted().estimators.candidates

    @property
    def folds_(self) -> Folds | OwnFolds:
        """With a list of members or "auto": cross-validation folds; ``folds_.of_member(name)`` returns those of one."""
        return self._fitted().estimators.folds

    @property
    def estimators_(self) -> list[Any]:
        """The fitted estimator of each member in use or, if predictions are averaged over folds, the tuple of all.

        It is there with a list of members or "auto".
        """
        fitted = [
            member.models if member.originals is None else member.originals
            for member in self._fitted().estimators.members
        ]
        return [models[0] if len(models) == 1 else models for models in fitted]

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted estimators by name, "drop" for those not in use."""
        frozen = self._frozen()
        fitted = dict(zip(frozen.member_names_, frozen.estimators_, strict=True))
        return Bunch(**{name: fitted.get(name, "drop") for name, _ in frozen.candidates_})

    @property
    def named_estimators(self) -> Bunch:
        """The estimators by name, as they were given."""
        return Bunch(**dict(in_use(self.members)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            With a list of members: return the estimators by name, and their parameters as ``name__parameter``, too.

        Returns
        -------
        params : dict of str to object
            Parameters by name.
        """
        if not isinstance(self.members, list):
            return cast("dict[str, Any]", super().get_params(deep=deep))
        return cast("dict[str, Any]", self._get_params("members", deep=deep))

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Parameters
        ----------
        **params
            Parameters; a parameter of an estimator as ``name__parameter``, or an estimator by its name.

        Returns
        -------
        self : object
            The regressor.
        """
        self._set_params("members", **params)
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which estimators request which metadata that ``fit`` receives.

        Returns
        -------
        router : MetadataRouter
            Requests of the members and of ``cv``.
        """
        if not isinstance(self.members, list):
            return super().get_metadata_routing()
        return route_metadata(self, in_use(self.members), self.cv)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.members, list):
            tags.input_tags.allow_nan, tags.input_tags.sparse = accepted_inputs(in_use(self.members))
        return tags

    def __sklearn_clone__(self) -> Self:
        new: Self = super().__sklearn_clone__()
        if isinstance(self.cv, str) and isinstance(self.members, list):
            new.members = self.members  # copies of fitted members would not be fitted
        return new


@with_inherited_docs
@dataclass(kw_only=True, eq=False, repr=False)
class BayesianStackingRegressor(BDKNRegressor):
    """Models of any kind, weighted by their posterior: ``BDKNRegressor`` with other defaults.

    Every member is fitted to all folds but one and predicts the held-out fold. These predictions are the basis of a
    Bayesian linear model, whose weights and noise are integrated out in closed form. Standard deviations of members
    that have them enter the noise of a row, unless they are unrelated to the errors on held-out rows; the disagreement
    of all members enters its uncertainty. By default members are "auto", fitted one after the other.

    Parameters
    ----------
    <Parameters of BDKNRegressor>

    <Attributes>

    See Also
    --------
    BDKNRegressor : The same, with networks by default.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from bdkn import BayesianStackingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (200, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=200)
    >>> members = [("forest", RandomForestRegressor(20)), ("near", KNeighborsRegressor())]
    >>> model = BayesianStackingRegressor(members, random_state=0).fit(X, y)
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> mean.shape, std.shape
    ((3,), (3,))
    >>> model.drop_members("near").member_names_
    ('forest',)
    >>> bool(model.set_params(forest__n_estimators=10).fit(X, y).score(X, y) > 0.9)
    True
    """

    members: str | Sequence[str] | list[Pair] = field(default="auto", kw_only=False)
    n_jobs: int | None = None
