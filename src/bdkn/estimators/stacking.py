"""Bayesian stacking: models of any kind as the basis of a Bayesian linear model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Bunch, assert_all_finite, get_tags
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from bdkn.data.folds import Folds, OwnFolds, Splitting, check_cv
from bdkn.data.frames import as_table
from bdkn.data.rows import Rows
from bdkn.data.scaling import TargetScaler
from bdkn.data.target_values import find_values
from bdkn.ensemble.estimators import EstimatorMember
from bdkn.ensemble.held_out import HeldOut
from bdkn.ensemble.provenance import FitProvenance, Seed
from bdkn.ensemble.selection import DEPRECATED, CombinationSettings, sound_members
from bdkn.errors import InvalidParameterError, check_choice, check_n_jobs, check_verbosity
from bdkn.estimators.aggregation import CombiningRegressor
from bdkn.estimators.base import Table
from bdkn.estimators.completion import combine_members
from bdkn.estimators.deep_ensemble import DeepEnsembleRegressor
from bdkn.estimators.defaults import default_estimators
from bdkn.estimators.estimator_fitting import (
    FoldFits,
    FoldFitter,
    Parameters,
    calibrate,
    check_size,
    make_folds,
    predict_by_fold,
    scale_predictions,
    used_rows,
)
from bdkn.estimators.fitted import Combined, FittedStack, Pair
from bdkn.estimators.named_estimators import (
    check_estimators,
    check_refitted,
    fixed_member,
    in_use,
    route_metadata,
    route_parameters,
    set_input_tags,
)
from bdkn.estimators.publication import of_one_state
from bdkn.estimators.serialization import check_savable
from bdkn.estimators.shared_docs import with_shared_docs
from bdkn.inference import Forecast
from bdkn.model.target_choice import TargetSettings
from bdkn.networks.settings import Clock, check_time_limit, get_effort
from bdkn.predictive.links import Link
from bdkn.stages import stage
from bdkn.threads import bounded_threads
from bdkn.typing import FloatArray, IndexArray

Metadata = Mapping[str, Any]

_NOT_FINITE = "predictions for rows left out of training are not finite; look at what it predicts, or drop it"


@with_shared_docs
@dataclass(kw_only=True, eq=False, repr=False)
class BayesianStackingRegressor(_BaseComposition, CombiningRegressor):  # type: ignore[misc]
    """Models of any kind, weighted by their posterior: Student-t predictions in closed form.

    Every member is fitted to all folds but one and predicts the fold left out. These held-out predictions are the basis
    of a Bayesian linear model, whose weights and noise are integrated out in closed form. Standard deviations of
    members that have them enter the noise of a row, unless they are unrelated to the errors on held-out rows; the
    disagreement of all members enters its uncertainty. Where held-out rows tell of another shape than that of a
    Student-t, it is mixed with densities of neighbouring training rows.

    Parameters
    ----------
    estimators : list of (str, estimator) pairs, default=None
        Members and their names. A member is a regressor with ``fit`` and ``predict``; or, used as it is for every fold,
        a fitted ``torch.nn.Module`` or a function: from rows to means, or to a tuple of means and standard deviations.
        If the ``predict`` of a regressor takes ``return_std``, its standard deviations are used, at the end of a
        pipeline too. "drop" in place of a member leaves it out. None: networks, boosting, trees and, with few rows, a
        Gaussian process.
    cv : int, cross-validation splitter, iterable or "prefit", default=5
        Number of random folds (None: 5), which each member has of its own; or, for all members, which rows to train on
        and which to leave out, no row twice; or "prefit": the members are fitted already, to other rows, and are only
        combined on the rows given to ``fit``. Unless ``groups`` are given or a splitter shuffles single rows, as
        ``KFold(shuffle=True)`` does, a fold counts as one group, for the density of predictions, too.
    effort : {"fast", "balanced", "best"}, default="balanced"
        How many members ``estimators=None`` means: "fast" has fewer networks, trained for half as long, one boosting, a
        third of the trees, and no process; "best" twice as many networks and trees.
    time_limit : float or None, default=None
        Seconds that a fit should take. Members are fitted one after the other, those of ``estimators=None`` with the
        networks last. A member whose first fit shows that there is no time for all its folds is left out; a warning
        names it. The first member is always fitted. Which are left out depends on the machine: for results that can be
        repeated, give ``estimators`` and no limit.
    predict_with : {"folds", "refit"}, default="folds"
        What a member predicts with: the average of its fits, one per fold, or one more fit to all rows. If a fold of
        ``cv`` trains on fewer than half of the rows, as those of ``TimeSeriesSplit`` do, it is always the latter.
    <combination_parameters>
    n_jobs : int or None, default=None
        Number of fits to run at once, by joblib; -1 for all cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the folds, and of every member's random states that were left None.
    verbose : int, default=0
        Verbosity of joblib.

    Attributes
    ----------
    members_ : list of EstimatorMember
        The members in use, each with ``predict(X) -> (mean, variance or None)``.
    member_names_ : tuple of str
        Their names; members that diverged or were not selected are missing.
    estimators_ : list
        The fitted estimator of each member in use; if predictions are averaged over folds, the tuple of all.
    named_estimators_ : Bunch
        The same by name, "drop" for those not in use.
    <combination_attributes>
    folds_ : Folds or OwnFolds
        Which rows were left out when; ``folds_.of_member(name)`` are the folds of a member.
    candidates_ : list of (str, estimator) pairs
        The members as they were given or, with ``estimators=None``, chosen.
    target_scaler_ : TargetScaler
        The mean and the scale of the targets, in whose units members are combined.
    <column_attributes>

    See Also
    --------
    BDKNRegressor : The same with networks of its own.

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

    estimators: list[Pair] | None = field(default=None, kw_only=False)
    cv: Any = 5
    predict_with: str = "folds"
    prior_variance: str | float = "evidence"
    tempering: str | float = "evidence"
    tails: str = "loo"
    select_members: bool = True
    target: str = "auto"
    lower: float | None = None
    upper: float | None = None
    density: str = "auto"
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: int = 0
    effort: str = "balanced"
    time_limit: float | None = None
    evidence: str | float = DEPRECATED

    def fit(
        self,
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Fit the members and learn how to combine them.

        Rows that repeat another one, inputs and target, are counted once, with a warning, and rows with equal inputs
        are in the same random fold, unless ``groups``, or row numbers as ``cv``, say which rows belong together.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Rows, which the members receive as they are; with ``cv="prefit"``, rows that none was fitted to.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            How many times each row is counted: a weight of 2 is two observations, a weight of 0 leaves the row out. All
            members must accept it, unless metadata routing determines which receive it.
        groups : array-like of shape (n_samples,), optional
            A label for each row. Rows with the same label are in the same fold, by ``cv`` if that is a splitter.
            ``np.arange(len(y))`` says that every row is an observation of its own. Members that request ``groups`` by
            metadata routing receive it.
        **params
            Metadata for members or for ``cv``, passed on to those that request it by scikit-learn's metadata routing.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        self._check_parameters()
        return self._publish(lambda model: model._fit(model._all_rows(X, y, sample_weight, reset=True), groups, params))

    @of_one_state
    def add_members(
        self,
        estimators: list[Pair],
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Return the regressor with more members; this one does not change.

        Only the new members are fitted, to the rows and with the folds of the fit, which must be given again: the
        result is that of a fit with all members. Members left out or dropped before stay out.

        Parameters
        ----------
        estimators : list of (str, estimator) pairs
            Members to add.
        X : array-like or data frame of shape (n_samples, n_features)
            The training rows of the fit.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            Their weights, if the fit had any.
        groups : array-like of shape (n_samples,), optional
            Their groups, if the fit had any.
        **params
            Metadata as in ``fit``.

        Returns
        -------
        model : BayesianStackingRegressor
            The regressor with more members.
        """
        provenance, state = self._require_provenance(), self.fitted_
        candidates = [*state.candidates, *estimators]
        new = self._copy(state, estimators=candidates)
        new._check_parameters()
        given = self._all_rows(X, y, sample_weight, reset=False)
        added = [pair for pair in in_use(candidates) if pair[0] not in dict(state.candidates)]
        routed = route_parameters(new, added, given.counts, groups, params)
        splitting = Splitting.of(given, groups, self.cv, warn=False)
        provenance.check_same(self, given, splitting.digest())
        splitting = splitting.by_folds(state.folds, self.cv)
        rows, parameters = used_rows(splitting, routed)
        rows = self._as_inputs(rows, splitting.sets, reset=False)
        targets = self._combined.targets
        check_refitted(added, new.cv, targets.link)
        rows = replace(rows, y=targets.link.forward(rows.y))
        fits = new._fit_members(added, rows, parameters, state.folds, provenance.seed)
        members, held_out = calibrate(fits, rows, state.folds, targets)
        members, held_out = [*state.members, *members], self._require_held_out().join(held_out)
        useful, combined = new._select_and_combine(members, held_out, targets, provenance)
        combined = new._completed(combined, rows.X, state.folds.held_out, splitting)
        return new._copy(FittedStack([members[h] for h in useful], combined, candidates, state.folds))

    def _fit(self, rows: Rows, groups: ArrayLike | None = None, metadata: Metadata | None = None) -> FittedStack:
        clock, splitting = Clock.start(self.time_limit or inf), Splitting.of(rows, groups, self.cv)
        provenance = FitProvenance.of(self, rows, splitting.digest())
        pairs = in_use(self.estimators)
        routed = route_parameters(self, pairs, rows.counts, groups, metadata or {})
        folds = make_folds(self.cv, splitting, routed, provenance.seed)
        splitting = splitting.by_folds(folds, self.cv)
        used = self._as_inputs(splitting.used_rows(), splitting.sets, reset=True)
        candidates = self.estimators or default_estimators(
            len(used), used.X.shape[1], weighted=rows.counts is not None, effort=self.effort
        )
        if not pairs:
            pairs = candidates
            routed = route_parameters(self, pairs, rows.counts, groups, metadata or {})
        parameters = used_rows(splitting, routed)[1]
        with stage("choose link"):
            link = self._link(pairs, used)
        targets = TargetScaler.fit(used.y, used.counts, link, find_values(used.y, used.counts))
        used = replace(used, y=link.forward(used.y))
        with stage("train"):
            fits = self._fit_members(pairs, used, parameters, folds, provenance.seed, clock)
        members, held_out = calibrate(fits, used, folds, targets)
        useful, combined = self._select_and_combine(members, held_out, targets, provenance)
        combined = self._completed(combined, used.X, folds.held_out, splitting)
        return FittedStack([members[h] for h in useful], combined, candidates, folds)

    def _link(self, pairs: Sequence[Pair], rows: Rows) -> Link:
        """Return the link of the targets; members that are not fitted here predict the target itself."""
        settings = TargetSettings.of(self)
        if settings.target == "auto" and fixed_member(pairs, self.cv):
            settings = replace(settings, target="identity")
        link = settings.link(rows)
        check_refitted(pairs, self.cv, link)
        return link

    @of_one_state
    def save(self, path: str | os.PathLike[str], *, without_rows: bool = False) -> None:
        """Write the fitted model to one file, which ``bdkn.load`` reads, if all its members are bdkn's own.

        The file holds arrays and JSON, no code, and so no object of another library.

        Parameters
        ----------
        path : str or path-like
            File to write. An existing file is replaced, and keeps its mode; a link stays one.
        without_rows : bool, default=False
            Must be False: a stack predicts with the help of rows that were left out of its fit.
        """
        check_is_fitted(self)
        check_savable(self._stack)
        super().save(path, without_rows=without_rows)

    @property
    def _stack(self) -> FittedStack:
        stack: FittedStack = self._state
        return stack

    @property
    def members_(self) -> list[EstimatorMember]:
        """The members in use, each with ``predict(X) -> (mean, variance or None)``."""
        return self._stack.members

    @property
    def member_names_(self) -> tuple[str, ...]:
        """Names of the members in use."""
        return tuple(member.name for member in self.members_)

    @property
    def candidates_(self) -> list[Pair]:
        """The members as they were given or, with ``estimators=None``, chosen."""
        return self._stack.candidates

    @property
    def folds_(self) -> Folds | OwnFolds:
        """Which rows were left out when."""
        return self._stack.folds

    @property
    def target_scaler_(self) -> TargetScaler:
        """The mean and the scale of the targets."""
        return self._combined.targets

    @property
    def estimators_(self) -> list[Any]:
        """The fitted estimator of each member in use, or the tuple of those of all folds."""
        return [member.models[0] if len(member.models) == 1 else member.models for member in self.members_]

    @property
    @of_one_state
    def named_estimators_(self) -> Bunch:
        """The fitted estimators by name, "drop" for those not in use."""
        fitted = dict(zip(self.member_names_, self.estimators_, strict=True))
        return Bunch(**{name: fitted.get(name, "drop") for name, _ in self.candidates_})

    @property
    def named_estimators(self) -> Bunch:
        """The estimators by name, as they were given."""
        return Bunch(**dict(self.estimators or []))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Return the estimators by name, and their parameters as ``name__parameter``, too.

        Returns
        -------
        params : dict of str to object
            Parameters by name.
        """
        params: dict[str, Any] = self._get_params("estimators", deep=deep)
        return params

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
        self._set_params("estimators", **params)
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which estimators request which metadata that ``fit`` receives.

        Returns
        -------
        router : MetadataRouter
            Requests of the members and of ``cv``.
        """
        return route_metadata(self, in_use(self.estimators), self.cv)

    def __sklearn_tags__(self) -> Any:
        return set_input_tags(super().__sklearn_tags__(), in_use(self.estimators))

    def __sklearn_clone__(self) -> Self:
        new: Self = super().__sklearn_clone__()
        if isinstance(self.cv, str):
            new.estimators = self.estimators  # copies of fitted members would not be fitted
        return new

    def _check_parameters(self) -> None:
        check_estimators(self.estimators, self._validate_names)
        CombinationSettings.of(self)
        check_n_jobs(self.n_jobs)
        check_verbosity(self.verbose)
        get_effort(self.effort)
        check_time_limit(self.time_limit)
        check_choice("predict_with", self.predict_with, ("folds", "refit"))
        if isinstance(self.cv, str):
            check_choice("cv", self.cv, ("prefit",))
            if self.estimators is None:
                raise InvalidParameterError("cv='prefit' combines fitted members: give estimators, or let cv be 5")
        else:
            check_cv(self.cv)

    def _fit_members(
        self,
        pairs: Sequence[Pair],
        rows: Rows,
        parameters: Parameters,
        folds: Folds | OwnFolds,
        root: np.random.SeedSequence,
        clock: Clock | None = None,
    ) -> FoldFits:
        prefit, refit = isinstance(self.cv, str), self.predict_with == "refit" or folds.trains_on_few
        fitter = FoldFitter(rows, parameters, folds, root, prefit=prefit, refit=refit)
        if clock is None or clock.seconds == inf:
            return fitter.fit(pairs, n_jobs=self.n_jobs, verbose=self.verbose)
        # Networks take the longest of the default members.
        ordered = (
            pairs if self.estimators else sorted(pairs, key=lambda pair: isinstance(pair[1], DeepEnsembleRegressor))
        )
        return fitter.fit_within(ordered, clock, n_jobs=self.n_jobs, verbose=self.verbose)

    def _select_and_combine(
        self, members: Sequence[EstimatorMember], held_out: HeldOut, targets: TargetScaler, provenance: FitProvenance
    ) -> tuple[IndexArray, Combined]:
        """Return the numbers of the members that did not diverge and are best together, and their combination."""
        names = [member.name for member in members]
        sound = sound_members(held_out.filled().scores().is_finite, names, _NOT_FINITE)
        return combine_members(held_out, sound, CombinationSettings.of(self), targets, provenance)

    def _only(self, members: IndexArray, combined: Combined) -> Self:
        used = [self.members_[h] for h in members]
        dropped = {*self.member_names_} - {member.name for member in used}
        candidates = [(name, "drop" if name in dropped else model) for name, model in self.candidates_]
        state = replace(self._stack, members=used, candidates=candidates, combined=combined)
        return self._copy(state, estimators=candidates)

    def _member_fit(self) -> dict[str, Any]:
        scores, scale = self._require_held_out().filled().scores(), self._combined.targets.scale
        return {"rmse": scale * scores.rmse, "nll": scores.nll + np.log(scale), **self._target_scores()}

    def _forecast(self, X: Any) -> Forecast:
        return self._require_held_out().pool(*self._by_fold(X))

    def _by_fold(self, X: Any) -> tuple[FloatArray, FloatArray]:
        with stage("predict members"), bounded_threads(X.shape[0]):
            means, stds = predict_by_fold(self.members_, X)
        means, variances = scale_predictions(means, stds, self._combined.targets)
        check_size(self.members_, means)
        return means, variances

    def _takes_frame(self, X: Table, *, reset: bool) -> bool:
        """Return whether the columns of ``X`` are encoded; members that were given receive a frame as it is."""
        return not (reset and self.estimators) and super()._takes_frame(X, reset=reset)

    def _checked(self, X: Table, y: ArrayLike, *, reset: bool) -> tuple[Any, Any]:
        if reset:
            self.__dict__.pop("table_", None)
        if self._takes_frame(X, reset=reset):
            return self._checked_frame(X, y, reset=reset)
        table = as_table(X)
        validate_data(self, table, y, reset=reset, skip_check_array=True)
        with np.errstate(over="ignore", invalid="ignore"):
            targets = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)
        check_consistent_length(table, targets)
        return table, targets

    def _rows(self, X: Table) -> Any:
        check_is_fitted(self)
        if self._takes_frame(X, reset=False):
            return self._require_table().transform(X)
        table = validate_data(self, as_table(X), reset=False, skip_check_array=True)
        if isinstance(table, np.ndarray) and not get_tags(self).input_tags.allow_nan:
            with np.errstate(over="ignore", invalid="ignore"):
                assert_all_finite(table, input_name="X")  # the members in use may all ignore such a column
        return table
