"""Bayesian deep kernel networks: a Bayesian linear model whose features are predictions of networks or other models."""

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
"""Note of ``member_report`` if equal weights of all members explain the data about as well."""


_REPLACE_LOCK = threading.Lock()
"""Lock for the short moment in which an updated model replaces ``model_``; not held during computations."""


def _holds_rows_out(model: object) -> bool:
    """Return True if fits hold rows out of training; raise ``AttributeError`` if not (``design="in-sample"``)."""
    if getattr(model, "design", None) == "in-sample":
        raise AttributeError(NEEDS_HELD_OUT)
    return True


def _if_rows_are_held_out(method: Method) -> Method:
    """Decorate a method of a regressor so that it does not exist with ``design="in-sample"`` (no held-out rows)."""
    return cast("Method", available_if(_holds_rows_out)(method))


@with_inherited_docs
@dataclass(kw_only=True, eq=False, repr=False)
class BDKNRegressor(ProbabilisticRegressor, _BaseComposition):  # type: ignore[misc]
    """Bayesian deep kernel network: a Bayesian linear model whose features are the predictions of networks.

    H networks are trained independently. Their predictions φ(x) = (φ₁(x), .., φ_H(x)) are the basis of a Bayesian
    linear model y = φ(x)ᵀβ + α + ε, whose weights and noise are integrated out in closed form. By default members are
    cross-fitted: each is trained once for each fold of the rows, on the other folds, and the linear model is fitted to
    the members' predictions for held-out rows. The noise at x has variance σ² v(x)^τ, with v the ensemble's own
    predictive variance. Predictions are Student-t distributions; if it improves the held-out score, they are mixed with
    kernel densities of similar training rows. ``BDKNRegressor.from_paper`` returns the published method.

    Parameters
    ----------
    members : {"networks", "auto"} or list, default="networks"
        The models whose predictions are combined. "networks": networks, with a linear member in tables with at least
        half as many columns as rows; ("networks",) is without, ("networks", "linear") always with it. "auto":
        networks, boosting, trees and, with few rows, a Gaussian process. Or a list of (name, estimator) pairs, in which
        "drop" in place of an estimator omits it: an estimator is a regressor with ``fit`` and ``predict``; or, used as
        it is for every fold, a fitted ``torch.nn.Module`` or a function from rows to means, or to a tuple of means and
        standard deviations. If the ``predict`` of a regressor takes ``return_std``, its standard deviations are used,
        also in the last step of a pipeline. Parameters of networks have no effect on other members.
    <Parameters of networks>
    time_limit : float or None, default=None
        Seconds that a fit should take. The time of all training is estimated from that of a few epochs. If it is too
        long, fewer members are trained, but not fewer than 4, then fewer epochs, but not less than a tenth; a warning
        reports the numbers. Numbers given as ``n_members`` and ``epochs`` are reduced, too. The result equals a fit
        with the reduced numbers, which depend on the machine: for results that can be repeated, set them and no limit.
    design : {"cross-fit", "hold-out", "in-sample"}, default="cross-fit"
        The rows that the linear model is fitted to: every row, as predicted by networks that were not trained on it; a
        single part of the rows, held out of all training; or, as in the paper, the rows the networks were trained on,
        with constant noise, prior mean zero and no constant.
    cv : int, float, cross-validation splitter, iterable or "prefit", default=None
        Folds of a cross-fit: their number (None: 5), a splitter of scikit-learn such as ``GroupKFold()`` or
        ``TimeSeriesSplit()``, or pairs (training row numbers, held-out row numbers), each row held out at most once.
        Random folds differ between members; so do folds of networks by a splitter whose ``random_state`` is None. Rows
        that no fold holds out are used for training only. The rows of a fold are treated as one group, also for
        ``density``, unless ``groups`` are given or the splitter shuffles rows, as ``KFold(shuffle=True)`` does. With
        ``design="hold-out"``, the fraction of the rows that is held out (None: 0.1). With a list of ``members``,
        "prefit": they are fitted already, to other rows, and are only combined on the rows given to ``fit``.
    predict_with : {"folds", "refit"}, default="folds"
        What a member predicts with: the average of its networks of all folds, or one more network trained on all rows.
        Ignored with ``design="in-sample"``, as are all options of ``combination`` except ``prior_variance``.
        If a fold of ``cv`` trains on fewer than half of the rows, as with ``TimeSeriesSplit``, "refit" is always used.
    combination : CombinationOptions or None, default=None
        Options of the linear model: prior variance, tempering, tails and selection of members. None: their defaults.
    target : {"auto", "identity", "log", "logit", "yeo-johnson"}, default="auto"
        The function of the target that is predicted, the link; distributions, means and scores are those of the target
        itself. "log" is for positive targets (or those beyond one bound), "logit" for shares (or between two bounds),
        "yeo-johnson" a power transformation for any skewed target. "auto" chooses by a quick leave-one-out score before
        training, and takes the identity unless another link is clearly better; "logit" only between bounds that are
        given or evident, see ``upper``.
    lower : float or None, default=None
        Lower bound of the target: targets may be equal to it; the predicted probability of lower values is zero. With
        ``target="auto"``, 0 is taken as a lower bound if many targets are 0 and none is negative.
    upper : float or None, default=None
        Upper bound of the target; with ``target="auto"``, 1 if all targets are from 0 to 1, with many at 0 and at 1.
        Give ``lower=0, upper=1`` for other shares: targets between 0 and 1 alone are no evidence of a bound.
    density : {"auto", "student-t"}, default="auto"
        The density of predictions. "auto": a mixture of the Student-t of the linear model and kernel densities of
        similar training rows (neighbours), if it predicts held-out rows clearly better. It needs at least 100 held-out
        rows and numeric columns. "student-t": always the Student-t.

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

        Rows that repeat another row (inputs and target) are counted once, with a warning. Rows with equal inputs are in
        the same fold. Neither applies if ``groups``, or row numbers as ``cv``, define which rows belong together.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features), or row source
            An array of finite numbers; or a data frame of pandas, polars or pyarrow, with columns of numbers, booleans,
            categories, text, dates and durations, in which values may be missing; or a source of rows that need not
            fit into memory: ``ParquetRows``, ``ArrayRows``, ``IteratorRows``, ``DaskRows``, a pyarrow dataset or a Dask
            data frame.
        y : array-like of shape (n_samples,)
            Targets. For a dataset or a Dask data frame: the name of the target column. None for other row sources,
            which contain the targets.
        sample_weight : array-like of shape (n_samples,), optional
            How many times each row is counted: a weight of 2 is two observations, a weight of 0 excludes the row.
            Weights that sum to one would count as a single row: multiply them by the number of rows.
        groups : array-like of shape (n_samples,), optional
            A label for each row. Rows with the same label are in the same fold: for example rows of one patient, if new
            rows will be of other patients. ``np.arange(len(y))`` treats every row as an independent observation.

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
        """Fit and return the model; with a ``former`` model, add members to it (the parameters are checked already)."""
        params = self._checked() if former is None else self
        if metadata and params.has_networks and former is None:
            raise InvalidParameterError(f"fit has no parameter {next(iter(metadata))!r} for networks")
        if params.design == "in-sample":  # the published method
            return fit_published(params, X, y, sample_weight, groups)
        with ExitStack() as files:  # temporary files of encoded rows that do not fit into memory
            if params.has_networks:
                found = cross_fit_networks(params, X, y, sample_weight, groups, files, former)
            else:
                found = cross_fit_estimators(params, X, y, sample_weight, groups, metadata, former)

            # Select the members with the best joint leave-one-out score, and combine them
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

            # Extrapolation variance and kernel density of neighbours; for rows in blocks, the posterior from all rows
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

        Only the new members are trained, on the same rows, which must be given again, with the same folds and with new
        seeds: the result equals a fit with all members at once. Members that were not selected, or were dropped, are
        not used again.

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
            params.members = [*former.members.candidates, *new]  # after loading, the former ones are text
            params._validate_names([name for name, _ in params.members])
        else:
            check_number("n", new, low=1, whole=True)
            params.n_members = former.n_trained + cast(int, new)
            params = params._checked()
        return self._with_model(params._fit(X, y, sample_weight, groups, metadata, former), params)

    def drop_members(self, names: str | Sequence[str]) -> Self:
        """Return the regressor without some of its members; this one does not change.

        No member is fitted again: only the weights are learned again, from the same rows. If predictions are mixed with
        kernel densities of neighbours, the weights of the mixture do not change.

        Parameters
        ----------
        names : str or sequence of str
            Names of the members to drop, from ``member_names_``.

        Returns
        -------
        model : object
            A regressor of the same class. If members are estimators, the dropped ones are "drop" in its ``members``.
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
        """Return a regressor that predicts Student-t distributions instead of mixtures; this one does not change.

        It equals a fit with ``density="student-t"``, and predicts faster.

        Returns
        -------
        model : object
            The regressor without kernel densities of neighbours.
        """
        new = self._with_model(replace(self._fitted(), density=None))
        new.density = "student-t"
        return new

    def _options(self) -> CombinationOptions:
        """Return the options ``combination`` of the linear model, after a check."""
        check_parameters(self, {"combination": COMBINED["combination"]})
        return self.combination or CombinationOptions()

    def _with_model(self, model: FittedModel, params: Self | None = None) -> Self:
        """Return a copy of the regressor with this fitted model and, if given, the parameters of ``params``."""
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
            With ``decompose``: "noise", which remains for known weights; "disagreement" among the members' means for a
            row; "weights", from the uncertainty of the members' weights; and "outside", which is zero for rows no
            farther from training rows than those are from each other, and grows with the distance. If predictions are
            mixed with kernel densities, there is also "shape": the variance of the mixture minus the variance of the
            Student-t, which may be negative. If the target is transformed, its variance is divided in proportion to the
            parts of the variance of the transformed target.
        """
        parts: dict[str, FloatArray] = self._predict(X).variances()
        return parts if decompose else np.asarray(sum(parts.values()))

    def predict_interval(
        self, X: Table, coverage: float = 0.9, *, guarantee: bool = False, shift: Shift | None = None
    ) -> FloatArray:
        """Predict the central interval of each row.

        If many targets share values (``target_values_``), the limits are quantiles of the distribution of
        ``predict_values``: for a discrete target they are possible values, and with point masses a limit may be one of
        these. The probability of such an interval is at least ``coverage``. Otherwise the limits are quantiles of the
        density of ``predict_dist``.

        With ``guarantee=True`` intervals are cross-conformal (CV+): whatever the distribution of the rows, if new rows
        are exchangeable with the training rows, an interval with ``coverage`` 1 - α contains a new target with a
        probability of at least about 1 - 2α, and in practice of about 1 - α. Their widths follow from the errors on
        held-out rows, divided by the members' own standard deviations. The guide on updating describes which
        parts of this are exact.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Probability of each interval: its nominal coverage.
        guarantee : bool, default=False
            Whether to return cross-conformal intervals. They need ``predict_with="folds"``, a model that has absorbed
            no rows since its fit, and at least ``1 / (1 - coverage)`` training rows: with fewer, a limit is infinite or
            a bound of the target.
        shift : pair of array-like, optional
            With ``guarantee=True``: weights of the training rows, in the order of the fit, and of the rows of ``X``. A
            weight is the frequency of such rows among new rows, divided by their frequency among training rows.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper limits.
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
        """Predict the probability of each value that many targets share, such as zero or a rating.

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
            For each value, its probability in each row; ``pandas.DataFrame(probabilities)`` is a table of them.
        """
        model = self._fitted()
        model.check_has_values()
        return cast(ValuePrediction, model.predict(model.reader.read(X))).value_probabilities()

    def value_log_score(self, X: Table, y: ArrayLike) -> float:
        """Return the mean log probability of the targets in ``predict_values``; greater is better.

        It cannot be compared with ``log_score``, the mean log density of ``predict_dist``. With point masses, a target
        that is not one of these values is scored by the log probability of any other value, plus its log density
        among the other values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Their targets.

        Returns
        -------
        score : float
            Mean log probability. A value of a discrete target that is new after n training rows counts as 1 / (n + 1).
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
            For each row: ``ratio``, its distance to the nearest training row, divided by the typical distance between
            training rows; ``status``, "inside" with a ratio of at most 1, else "gap" or, beyond the range of a column,
            "outside"; the ``column`` that differs most; and ``inside``, from 1 for a row inside to 0 far away.
        """
        model = self._fitted()
        return model.support(model.reader.read(X))

    # Updates: rows are added to and removed from the posterior of the weights; members never change

    def _update(self, change: Callable[[FittedModel], FittedModel]) -> Self:
        """Replace ``model_`` by ``change(model_)``; repeat this if another thread has replaced it meanwhile."""
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
        """Update the weights of the members and the noise with new rows; the members are not trained again.

        The result is the same for all rows at once and in batches, in any order. The model keeps only statistics of the
        rows, whose size does not depend on the number of rows. These do not change: the tempering, the tails, the prior
        variance of the weights, the kernel densities, the probabilities of values, and the region of the training rows.
        A new row outside of this region counts less for the weights, and similar rows still count as outside:
        members have not learned from it. A regressor that is not fitted yet is fitted to the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows that were not part of the fit.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            How many times each row is counted; rows with weight 0 are ignored.
        forgetting : float, default=1.0
            Factor by which the weights of all earlier rows, including the rows of the fit, are multiplied, for data
            that drift. It is applied at each call: with batches of m rows, the effect is about the same as using the
            last ``m / (1 - forgetting)`` rows.
        refit_prior : bool, default=False
            Choose the prior variance of the weights again, from all rows, by ``prior_variance`` in ``combination``.

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
                if not self.__sklearn_is_fitted__():  # another thread may have fitted it
                    self.model_ = model
                    return self
        prior_variance = self._options().prior_variance if refit_prior else None

        def absorbed(model: FittedModel) -> FittedModel:
            rows = model.reader.read_rows(X, y, sample_weight).counted()
            return absorb(model, rows, float(forgetting), prior_variance)

        return self._update(absorbed)

    def forget(self, X: Table = None, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Remove the effect of rows that ``partial_fit`` absorbed: of the given rows or, without arguments, of all.

        The result equals a model that never absorbed these rows, up to rounding. A row is removed with its current
        weight, after all forgetting factors. Rows that were not absorbed raise an error. The last 100 000 rows are
        recognised; earlier rows, and rows of merged models, raise an error only if the remaining statistics would be
        impossible. Rows of the fit cannot be removed, as members were trained on them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), optional
            Rows to remove, as they were absorbed; None: all absorbed rows, so that the model is as after its fit.
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
        """Return sufficient statistics of the rows that ``partial_fit`` absorbed since the fit; they contain no rows.

        Returns
        -------
        statistics : RowStatistics
            A small object with ``save`` and ``load``, which ``merge`` of a model with the same members accepts.
        """
        return statistics_of(self._fitted())

    def merge(self, other: Any) -> Self:
        """Add the rows that another model with the same members absorbed, given as statistics.

        For example, hospitals start with copies of one fitted model, absorb their own rows, and exchange
        ``statistics()``. The result equals one model that absorbed all these rows, if no row occurs twice.

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
            The monitor of earlier batches, to which this batch is added. By default a new monitor with the default
            false-alarm rate, for this batch only.

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
        """The Bayesian linear model in scaled units: posterior of (β, α, σ²), tempering τ and tails of predictions."""
        return self._fitted().combination

    @property
    def held_out_(self) -> HeldOut | None:
        """Members' predictions for held-out rows, with targets, in scaled units; None if no rows were held out."""
        model = self._fitted()
        model.check_has_rows()
        return model.held_out

    @property
    def provenance_(self) -> FitProvenance | None:
        """Seed, parameters and hash of the rows of the fit, which ``add_members`` needs; None without held-out rows."""
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
        """Posterior covariance of the weights β; a prior variance σ_β² that is chosen by evidence is integrated out.

        The covariance is infinite with two degrees of freedom or fewer.
        """
        weights = self._weight_posterior()
        return student_t_covariance(weights.df, weights.scale_matrix)

    @property
    def weights_identified_(self) -> bool:
        """True if the data identify the weights: unequal ones have more than three times the evidence of equal ones.

        It is also True for a model with one member, and if the prior variance is not chosen by evidence.
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
        """Squared scale of the noise of the transformed target, at the average variance that members predict."""
        model = self._fitted()
        with np.errstate(over="ignore", under="ignore"):
            return float(np.square(model.targets.scale * model.combination.noise_std))

    @property
    def dof_(self) -> float:
        """Degrees of freedom of all predicted Student-t distributions."""
        return self.combination_.tails.df

    @property
    def prior_variance_(self) -> float:
        """Prior variance σ_β² of the weights, given or chosen, in units of the noise variance."""
        return self.combination_.prior_variance

    @property
    def evidence_(self) -> float:
        """Log marginal likelihood of the targets that the linear model was fitted to, in the units of ``y``."""
        return float(self._fitted().evidence())

    @property
    def link_(self) -> Link:
        """The link: the transformation of the target, such as the logarithm, that members are trained to predict."""
        return self._fitted().targets.link

    @property
    def target_values_(self) -> TargetValues | None:
        """Values of a discrete target, or values that many targets share, with their frequencies; None without any.

        It has ``values``, ``shares`` and ``is_discrete``; ``predict_values`` predicts their probabilities.
        """
        return self._fitted().targets.values

    def weight_posterior(self) -> StudentT:
        """Return the posterior distribution of each member's weight.

        With ``prior_variance="evidence"`` the prior variance of the weights is integrated out: if the data do not
        identify the weights, their intervals are about as wide as the weights are large. With the single prior variance
        that is used for predictions, intervals would be narrower.

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
        """Return a table of the members: name, weight with 95 % credible interval, RMSE, NLL and contribution.

        Returns
        -------
        table : dict of str to list or ndarray
            One column per key. RMSE and NLL are in the units of the target, on held-out rows or, with
            ``design="in-sample"``, on the training rows. The NLL is that of the member's own Gaussian (estimators:
            with calibrated variance). ``loss_without`` is the decrease of the mean leave-one-out log score
            without the member; nan if unknown. If ``weights_identified_`` is False, do not interpret the weights.
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
        """Return the leave-one-out log score and RMSE of combinations of the first 1, 2, .. members.

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
        """Record of the rows that ``partial_fit`` absorbed since the fit; None if there are none."""
        return self._fitted().updates

    @property
    def target_scaler_(self) -> TargetScaler:
        """Transformation of the target to scaled units, in which members are combined: link, mean and scale."""
        return self._fitted().targets

    # Members that are estimators

    @property
    def members_(self) -> list[Any]:
        """The members in use, each with ``predict(X) -> (mean, variance or None)`` in the units of the target."""
        members = self._fitted().members
        return list(members.members) if isinstance(members, EstimatorMembers) else members.ensemble.members

    @property
    def candidates_(self) -> list[Pair]:
        """With a list of members or "auto": the (name, estimator) pairs that were given or chosen."""
        return self._fitted().estimators.candidates

    @property
    def folds_(self) -> Folds | OwnFolds:
        """With a list of members or "auto": cross-validation folds; ``folds_.of_member(name)``: folds of one member."""
        return self._fitted().estimators.folds

    @property
    def estimators_(self) -> list[Any]:
        """Fitted estimator of each member in use; a tuple of estimators if its predictions are averaged over folds.

        The attribute exists only with a list of members or "auto".
        """
        fitted = [
            member.models if member.originals is None else member.originals
            for member in self._fitted().estimators.members
        ]
        return [models[0] if len(models) == 1 else models for models in fitted]

    @property
    def named_estimators_(self) -> Bunch:
        """Fitted estimators by name of the member; "drop" for members that are not in use."""
        frozen = self._frozen()
        fitted = dict(zip(frozen.member_names_, frozen.estimators_, strict=True))
        return Bunch(**{name: fitted.get(name, "drop") for name, _ in frozen.candidates_})

    @property
    def named_estimators(self) -> Bunch:
        """The estimators in the parameter ``members`` by name, without those that are "drop"."""
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
        """Return scikit-learn's metadata routing: which members request which additional arguments of ``fit``.

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
            new.members = self.members  # not copied: copies would not be fitted
        return new


@with_inherited_docs
@dataclass(kw_only=True, eq=False, repr=False)
class BayesianStackingRegressor(BDKNRegressor):
    """Models of any kind, combined by a Bayesian linear model: ``BDKNRegressor`` with other defaults.

    Every member is fitted to all folds but one and predicts the held-out fold. These predictions are the basis of a
    Bayesian linear model, whose weights and noise are integrated out in closed form. Standard deviations that members
    predict determine the noise of a row, unless they are unrelated to the errors on held-out rows; the disagreement
    among members adds to its variance. By default members are "auto", fitted one after the other.

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
