"""Bayesian stacking: models of any kind as the basis of a Bayesian linear model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.utils import Bunch, assert_all_finite, get_tags
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from bdkn.errors import DivergedError, InvalidParameterError, check_choice, check_number
from bdkn.inference import Combination, Forecast
from bdkn.members import EstimatorMember, Folds, HeldOut, OwnFolds, TargetScaler, digest
from bdkn.networks import MIN_VARIANCE
from bdkn.regressors.base import Table, unchanged_on_failure
from bdkn.regressors.combining import CombiningRegressor
from bdkn.regressors.composition import NamedEstimators, Pair
from bdkn.regressors.defaults import default_estimators
from bdkn.regressors.fold_fits import FoldFits, FoldFitter, RawRows, is_refitted
from bdkn.regressors.origin import Origin
from bdkn.regressors.screening import sound_members
from bdkn.regressors.seeds import Seed, seed_sequence
from bdkn.regressors.state import is_own
from bdkn.typing import FloatArray

Params = Mapping[str, Any]

_NOT_FINITE = "predictions of rows left out of training are not finite; look at what it predicts, or drop it"


@dataclass(kw_only=True, eq=False, repr=False)
class BayesianStackingRegressor(NamedEstimators, CombiningRegressor):
    """Models of any kind, weighted by their posterior: Student-t predictions in closed form.

    Every member is fitted to all folds but one and asked about the fold left out. What the members say there is the
    basis of a Bayesian linear model, whose weights and noise are integrated out in closed form. Members that know a
    standard deviation say with it how noisy a row is, unless it turns out to tell nothing about their errors on rows
    left out; all say by their disagreement how uncertain it is.

    Parameters
    ----------
    estimators : list of (str, estimator) pairs, default=None
        Members and their names. A member is a regressor with ``fit`` and ``predict``; or, used as it is for every fold,
        a fitted ``torch.nn.Module`` or a function: from rows to means, or to a tuple of means and standard deviations.
        A regressor whose ``predict`` takes ``return_std`` is asked for it, at the end of a pipeline too. "drop" in
        place of a member leaves it out. None: networks, boosting, trees and, with few rows, a Gaussian process.
    cv : int, cross-validation splitter, iterable or "prefit", default=5
        Number of random folds (None: 5), which each member has of its own; or, for all members, which rows to train on
        and which to leave out, no row twice; or "prefit": the members are fitted already, to other rows, and are only
        combined on those given to ``fit``.
    predict_with : {"folds", "refit"}, default="folds"
        Predict with the average of a member's fits, one of each fold, or with one more fit to all rows.
    evidence : {"exact", "paper"} or float, default="exact"
        How the prior variance σ_β² of the weights is chosen: as the best by marginal likelihood, as in the paper (a few
        steps of an optimiser from 1), or as the number given.
    tempering : {"evidence"} or float, default="evidence"
        The power τ of the members' own variance that the noise variance is proportional to: as the best by marginal
        likelihood, or a number between 0, the same noise everywhere, and 2.
    tails : {"loo", "posterior"}, default="loo"
        Degrees of freedom and scale of predictions: as score best leaving one row out, or as the posterior has them.
    select_members : bool, default=True
        Use those members with which the leave-one-out log score is best, of all, all but the most harmful one, and so
        on; or all.
    n_jobs : int or None, default=None
        Fits to run at once, by joblib; -1 for all cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the folds, and of every member's random states that were left None.
    verbose : int, default=0
        How much joblib tells about the fits.

    Attributes
    ----------
    members_ : list of EstimatorMember
        The members in use, each with ``predict(X) -> (mean, variance or None)``.
    member_names_ : tuple of str
        Their names; members that diverged or were not selected are missing.
    estimators_ : list
        The fitted estimator of each member in use; where predictions are averaged over folds, the tuple of all.
    named_estimators_ : Bunch
        The same by name, "drop" for those not in use.
    weights_ : ndarray of shape (n_members,)
        Posterior mean of β.
    weights_cov_ : ndarray of shape (n_members, n_members)
        Posterior covariance of β; infinite where none exists, with two degrees of freedom or fewer.
    intercept_ : float
        What is added to the weighted predictions of the members.
    noise_ : float
        Variance of the noise, in squared units of the target, where the members' own variance is average.
    dof_ : float
        Degrees of freedom of every prediction.
    prior_scale_ : float
        The prior variance σ_β² in use.
    evidence_ : float
        Log marginal likelihood of the targets, in their own units.
    combination_ : Combination
        How the members are combined, in units of targets of mean 0 and standard deviation 1.
    held_out_ : HeldOut
        What the members in use say about rows left out of their training, in the same units.
    folds_ : Folds or OwnFolds
        Which rows were left out when; ``folds_.of_member(name)`` are the folds of a member.
    candidates_ : list of (str, estimator) pairs
        The members as they were given or, with ``estimators=None``, chosen.
    target_scaler_ : TargetScaler
        The mean and the scale of the targets, in whose units members are combined.
    origin_ : Origin
        The seed, the digest of the rows and the parameters of the fit, for ``add_members``.
    n_features_in_ : int
        Columns of ``X``.
    feature_names_in_ : ndarray of str
        Their names, where ``X`` had names.

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
    evidence: str | float = "exact"
    tempering: str | float = "evidence"
    tails: str = "loo"
    select_members: bool = True
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: int = 0

    members_: list[EstimatorMember] = field(init=False)
    candidates_: list[Pair] = field(init=False)
    combination_: Combination = field(init=False)
    held_out_: HeldOut | None = field(init=False)
    folds_: Folds | OwnFolds = field(init=False)
    origin_: Origin = field(init=False)
    target_scaler_: TargetScaler = field(init=False)

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Fit the members and learn how to combine them.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Rows, which the members are given as they are; with ``cv="prefit"``, rows that none was fitted to.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts: a weight of 2 is the row twice, a weight of 0 leaves it out. All members must
            take it, unless metadata routing says which are given it.
        **params
            Metadata for members or for ``cv``, passed on to those that request it by scikit-learn's metadata routing.

        Returns
        -------
        self
        """
        self._check_parameters()
        with unchanged_on_failure(self):
            self._fit(*self._counted_rows(X, y, sample_weight, reset=True), params)
        return self

    def add_members(
        self,
        estimators: list[Pair],
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Return the regressor with more members; this one stays as it is.

        Only the new ones are fitted, on the rows and the folds of the fit, which must be given again: the result is
        that of a fit with all of them. Members left out or dropped before stay out.
        """
        held_out, folds = self._judged(), self.folds_
        new = self._copy(estimators=[*self.candidates_, *estimators])
        new._check_parameters()
        checked, targets, counts = self._counted_rows(X, y, sample_weight, reset=False)
        added = [pair for pair in new._in_use() if pair[0] not in dict(self.candidates_)]
        rows = RawRows(checked, targets, counts, new._routed(added, counts, params)).that_count()
        self.origin_.check(digest(checked, targets, counts), self._making())
        fits = new._fitted(added, rows, folds, self.origin_.seed)
        members, said = _judged(fits, rows, folds, self._targets)
        learned = new._put_together([*self.members_, *members], held_out.join(said))
        new.__dict__.update(candidates_=new.estimators, **learned)
        return new

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, which ``bdkn.load`` reads back, if all its members are bdkn's own.

        The file holds arrays and JSON, no code, and so no object of another library.
        """
        check_is_fitted(self)
        _check_savable(self)
        super().save(path)

    @property
    def member_names_(self) -> tuple[str, ...]:
        """Names of the members in use."""
        return tuple(member.name for member in self.members_)

    @property
    def estimators_(self) -> list[Any]:
        """The fitted estimator of each member in use, or the tuple of those of all folds."""
        return [member.models[0] if len(member.models) == 1 else member.models for member in self.members_]

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted estimators by name, "drop" for those not in use."""
        fitted = dict(zip(self.member_names_, self.estimators_, strict=True))
        return Bunch(**{name: fitted.get(name, "drop") for name, _ in self.candidates_})

    def __sklearn_is_fitted__(self) -> bool:
        return "combination_" in vars(self)

    def __sklearn_clone__(self) -> Self:
        new: Self = super().__sklearn_clone__()
        if isinstance(self.cv, str):
            new.estimators = self.estimators  # copies of fitted members would not be fitted
        return new

    def _check_parameters(self) -> None:
        self._check_estimators()
        self._check_combining()
        check_choice("predict_with", self.predict_with, ("folds", "refit"))
        if isinstance(self.cv, str):
            check_choice("cv", self.cv, ("prefit",))
            if self.estimators is None:
                raise InvalidParameterError("cv='prefit' combines fitted members: give estimators, or let cv be 5")
        elif self._own_folds:
            check_number("cv", self._cv, low=2, whole=True)

    def _fit(self, X: Any, y: FloatArray, counts: FloatArray | None, params: Params | None = None) -> None:
        root = seed_sequence(self.random_state)
        candidates = self.estimators or default_estimators(len(y), X.shape[1], weighted=counts is not None)
        pairs = self._in_use() or candidates
        given = RawRows(X, y, counts, self._routed(pairs, counts, params or {}))
        rows, folds = given.that_count(), self._folds(given, root)
        fits, targets = self._fitted(pairs, rows, folds, root), TargetScaler.fit(rows.y, rows.counts)
        self.__dict__.update(
            candidates_=candidates,
            folds_=folds,
            origin_=Origin(root.entropy, digest(X, y, counts), self._making()),
            target_scaler_=targets,
            **self._put_together(*_judged(fits, rows, folds, targets)),
        )

    def _fitted(
        self, pairs: Sequence[Pair], rows: RawRows, folds: Folds | OwnFolds, root: np.random.SeedSequence
    ) -> FoldFits:
        prefit, refit = isinstance(self.cv, str), self.predict_with == "refit"
        fitter = FoldFitter(rows, folds, root, prefit=prefit, refit=refit)
        return fitter.fit(pairs, n_jobs=self.n_jobs, verbose=self.verbose)

    @property
    def _cv(self) -> Any:
        """What ``cv`` says, None being scikit-learn's five folds."""
        return 5 if self.cv is None else self.cv

    @property
    def _own_folds(self) -> bool:
        """Whether ``cv`` is a number of folds; not if it says which rows are left out."""
        return not (hasattr(self.cv, "split") or isinstance(self.cv, Iterable))

    def _folds(self, given: RawRows, root: np.random.SeedSequence) -> Folds | OwnFolds:
        """Return which of the rows that count are left out when."""
        there = given.counting
        if isinstance(self.cv, str):
            return Folds.everything(len(there))
        if len(there) < 2:
            raise InvalidParameterError(
                f"members are judged on rows left out of their training, which takes at least 2 rows; got "
                f"n_samples={len(there)}: add rows, or give fitted members and cv='prefit'"
            )
        if self._own_folds:
            return OwnFolds(len(there), self._cv, root.entropy)
        splitter = getattr(self.cv, "split", None)
        splits = splitter(given.X, given.y, **given.params.get("cv", {})) if splitter else self.cv
        return Folds.of(len(given), splits).only(there)

    def _routed(self, pairs: Sequence[Pair], counts: FloatArray | None, params: Params) -> dict[str, Params]:
        """Return what each member's ``fit`` is given besides rows and targets and, under "cv", what splitting is."""
        if get_config()["enable_metadata_routing"] and self.estimators is not None:
            routed = process_routing(self, "fit", sample_weight=counts, **params)
            return {"cv": routed.get("cv", Bunch(split={})).split} | {
                name: routed[name].fit for name, _ in pairs if name in routed
            }
        if params:
            raise InvalidParameterError(
                f"fit can pass {', '.join(params)} on only with sklearn.set_config(enable_metadata_routing=True) and "
                "members that request it; got it without"
            )
        if counts is None or isinstance(self.cv, str):
            return {}
        fitted = [(name, model) for name, model in pairs if is_refitted(model)]
        for name, model in fitted:
            if not has_fit_parameter(model, "sample_weight"):
                raise InvalidParameterError(
                    f"every member's fit must take sample_weight; {name!r}, a {type(model).__name__}, does not: drop "
                    "it, or sklearn.set_config(enable_metadata_routing=True) and say of every member, and of every "
                    "step of a Pipeline, whether it is given it: set_fit_request(sample_weight=True) or False"
                )
        return {name: {"sample_weight": counts} for name, _ in fitted}

    def _put_together(self, members: list[EstimatorMember], held_out: HeldOut) -> dict[str, Any]:
        """Return the fitted attributes: those members that are fit for it, combined."""
        names = [member.name for member in members]
        sound = sound_members(held_out.scores(), np.ones(len(names), dtype=bool), names, _NOT_FINITE)
        useful, combination = self._selected(held_out[sound])
        kept = sound[useful]
        return {"members_": [members[h] for h in kept], "held_out_": held_out[kept], "combination_": combination}

    def _only(self, members: NDArray[np.intp]) -> dict[str, Any]:
        used = [self.members_[h] for h in members]
        gone = {*self.member_names_} - {member.name for member in used}
        pairs = [(name, "drop" if name in gone else model) for name, model in self.candidates_]
        return {"members_": used, "candidates_": pairs, "estimators": pairs}

    def _member_fit(self) -> dict[str, Any]:
        scores, scale = self._judged().scores(), self._targets.scale
        return {"rmse": scale * scores.rmse, "nll": scores.nll + np.log(scale)}

    def _forecast(self, X: Any) -> Forecast:
        said = [member.by_fold(X) for member in self.members_]
        K = max(len(means) for means, _ in said)
        means, stds = np.full((2, K, X.shape[0], len(said)), np.nan)
        for h, (mean, std) in enumerate(said):
            means[..., h] = mean
            stds[..., h] = np.nan if std is None else std
            if not (np.isfinite(mean).all() and (std is None or np.isfinite(std).all())):
                raise DivergedError(
                    f"member {self.member_names_[h]!r} must predict finite numbers; it does not on one of these rows: "
                    "check them, or use drop_members"
                )
        return self._judged().together(*_scaled(means, stds, self._targets))

    @property
    def _targets(self) -> TargetScaler:
        return self.target_scaler_

    def _checked(self, X: Table, y: ArrayLike, *, reset: bool) -> tuple[Any, Any]:
        table = _table(X)
        validate_data(self, table, y, reset=reset, skip_check_array=True)
        targets = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)
        check_consistent_length(table, targets)
        return table, targets

    def _rows(self, X: Table) -> Any:
        check_is_fitted(self)
        table = validate_data(self, _table(X), reset=False, skip_check_array=True)
        if isinstance(table, np.ndarray) and not get_tags(self).input_tags.allow_nan:
            assert_all_finite(table, input_name="X")  # of members that were selected, none may mind
        return table


def _check_savable(stack: BayesianStackingRegressor) -> None:
    """Raise unless all members, and those of stacks among them, are such as a file can hold."""
    fitted = [(member.name, model) for member in stack.members_ for model in member.models]
    for name, model in [*stack.candidates_, *fitted]:
        if not (is_own(model) or isinstance(model, str)):
            raise InvalidParameterError(
                f"save writes regressors of bdkn and nothing else; member {name!r} is a {type(model).__name__}: "
                "write the whole stack with joblib.dump, pickle or skops.io.dump, or save its members one by one"
            )
        if isinstance(model, BayesianStackingRegressor) and model.__sklearn_is_fitted__():
            _check_savable(model)


def _table(X: Table) -> Any:
    """Return rows as members are given them: as they are, but of a kind whose rows can be chosen."""
    table = X.tocsr() if issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    if len(table.shape) < 2:
        raise InvalidParameterError(
            f"X must be a table, shape (n_samples, n_features); got shape {table.shape}. Reshape your data: "
            "X.reshape(-1, 1) is a single column, X.reshape(1, -1) a single row"
        )
    return table


def _scaled(
    means: FloatArray, stds: FloatArray, targets: TargetScaler, least: float = MIN_VARIANCE
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances in the units members are combined in."""
    with np.errstate(over="ignore", under="ignore"):
        return targets.transform(means), np.maximum((stds / targets.scale) ** 2, least)


def _judged(
    fits: FoldFits, rows: RawRows, folds: Folds | OwnFolds, targets: TargetScaler
) -> tuple[list[EstimatorMember], HeldOut]:
    """Return the members and what they say about the rows left out, by which their variances are put right."""
    judged, said = folds.judged, _scaled(fits.means, fits.stds, targets, least=0.0)
    counts = None if rows.counts is None else rows.counts[judged]
    with np.errstate(over="ignore", under="ignore"):
        spread = (fits.spread / targets.scale) ** 2
    held_out = HeldOut(*said, spread, targets.transform(rows.y)[judged], counts)
    factors = held_out.variance_factors()
    members = [replace(member, std_factor=float(np.sqrt(f))) for member, f in zip(fits.members, factors, strict=True)]
    return members, replace(held_out, variances=np.maximum(factors * held_out.variances, MIN_VARIANCE))
