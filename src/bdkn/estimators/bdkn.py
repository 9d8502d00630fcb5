"""Bayesian deep kernel networks: networks as the basis of a Bayesian linear model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Self

from numpy.typing import ArrayLike

from bdkn.data.folds import FoldPlan, Splitting, check_cv
from bdkn.data.given import as_row_source
from bdkn.data.rows import Rows, RowSource
from bdkn.data.scaling import Encoders, encode
from bdkn.data.training_rows import check_not_none
from bdkn.ensemble.held_out import MemberScores
from bdkn.ensemble.linear import fit_linear, needs_linear
from bdkn.ensemble.networks import NetworkEnsemble, NetworkMember
from bdkn.ensemble.provenance import FitProvenance, Seed, seed_sequence
from bdkn.ensemble.selection import DEPRECATED, CombinationSettings
from bdkn.errors import InvalidParameterError, check_choice, check_flag, check_number
from bdkn.estimators.aggregation import CombiningRegressor
from bdkn.estimators.base import Table
from bdkn.estimators.candidate_networks import candidates_in_use, combine_candidates, train_candidates, within_limit
from bdkn.estimators.fitted import Combined, FittedBDKN, FittedNetworks
from bdkn.estimators.in_blocks import fit_in_blocks
from bdkn.estimators.publication import of_one_state
from bdkn.estimators.published import fit_published, paper_parameters
from bdkn.estimators.shared_docs import with_shared_docs
from bdkn.inference import Forecast
from bdkn.model.target_choice import TargetSettings
from bdkn.networks import Engine, NetworkSettings
from bdkn.networks.settings import Clock, check_time_limit
from bdkn.predictive import IdentityLink
from bdkn.predictive.links import Link
from bdkn.stages import stage
from bdkn.typing import Array, FloatArray, IndexArray

DESIGNS = ("cross-fit", "hold-out", "in-sample")


@with_shared_docs
@dataclass(kw_only=True, eq=False, repr=False)
class BDKNRegressor(CombiningRegressor):
    """Bayesian deep kernel network: Student-t predictions in closed form, learned on rows no network has seen.

    H networks are trained independently. Their predictions φ(x) = (φ₁(x), .., φ_H(x)) are the basis of a Bayesian
    linear model y = φ(x)ᵀβ + α + ε, whose weights and noise are integrated out in closed form. By default members are
    cross-fitted: each is trained once for each fold of the rows, on the other folds, and the linear model is fitted to
    the members' predictions for held-out rows. The noise at x has variance σ² v(x)^τ, with v the ensemble's own
    predictive variance. Where held-out rows tell of another shape than that of a Student-t, it is mixed with densities
    of neighbouring training rows. ``BDKNRegressor.from_paper`` is the published method.

    Parameters
    ----------
    <network_parameters>
    time_limit : float or None, default=None
        Seconds that a fit should take. The time of all training is estimated from that of a few epochs. If it is too
        long, fewer members are trained, but not fewer than 4, then fewer epochs, but not less than a tenth; a warning
        names the numbers. Numbers given as ``n_members`` and ``epochs`` are reduced, too. The result is that of a fit
        with the reduced numbers, which depend on the machine: for results that can be repeated, set them and no limit.
    design : {"cross-fit", "hold-out", "in-sample"}, default="cross-fit"
        The rows that the linear model is fitted to: every row, as predicted by networks that were not trained on it; a
        single part of the rows, left out of all training; or, as in the paper, the rows the networks were trained on,
        with constant noise, prior mean zero and no constant.
    n_folds : int, default=5
        Number of folds of a cross-fit. Each member has folds of its own.
    cv : int, cross-validation splitter or iterable, default=None
        Folds of a cross-fit in place of ``n_folds`` random ones: a number, a splitter of scikit-learn such as
        ``GroupKFold()`` or ``TimeSeriesSplit()``, or pairs of row numbers to train on and to leave out, no row twice. A
        splitter whose ``random_state`` is None gives each member folds of its own. Rows that no fold leaves out are
        used for training only. Unless ``groups`` are given or the splitter shuffles single rows, as
        ``KFold(shuffle=True)`` does, a fold counts as one group, for the density of predictions, too. Other designs
        ignore it.
    holdout_fraction : float, default=0.1
        Fraction of the rows left out of training by ``design="hold-out"``.
    predict_with : {"folds", "refit"}, default="folds"
        What a member predicts with: the average of its networks of all folds, or one more network trained on all rows.
        Ignored with ``design="in-sample"``, as are ``linear_member``, ``tempering``, ``tails`` and ``select_members``.
        If a fold of ``cv`` trains on fewer than half of the rows, as those of ``TimeSeriesSplit`` do, it is always the
        latter.
    linear_member : bool or "auto", default="auto"
        Whether a linear member, the lasso, is added to the networks. "auto": in tables with at least half as many
        columns as rows.
    <combination_parameters>

    Attributes
    ----------
    <combination_attributes>
    n_trained_ : int
        Number of networks that were trained as members, in use or not.
    <network_attributes>
    <column_attributes>

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

    n_members: int | str = "auto"
    hidden_layer_sizes: int | Sequence[int] | str = "auto"
    activation: str | Sequence[str] = ("silu", "relu")
    objective: Any = "nll"
    beta: float = 0.5
    warmup_epochs: int = 0
    epochs: int | str = "auto"
    learning_rate: float = 3e-3
    schedule: str = "cosine"
    batch_size: int = 32
    weight_decay: float | Sequence[float] = (0.0, 0.0, 0.3, 0.0, 1.0, 0.0)
    n_bins: int | Sequence[int] | str = "auto"
    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int = 20
    tol: float = 1e-4
    standardize_y: bool = True
    engine: str | Engine = "fused"
    n_jobs: int | None = -1
    random_state: Seed = None
    verbose: int = 0
    effort: str = "balanced"
    time_limit: float | None = None
    design: str = "cross-fit"
    n_folds: int = 5
    holdout_fraction: float = 0.1
    cv: Any = None
    predict_with: str = "folds"
    linear_member: bool | str = "auto"
    prior_variance: str | float = "evidence"
    tempering: str | float = "evidence"
    tails: str = "loo"
    select_members: bool = True
    target: str = "auto"
    lower: float | None = None
    upper: float | None = None
    density: str = "auto"
    evidence: str | float = DEPRECATED

    @classmethod
    def from_paper(cls, setting: int = 1, dataset: str | None = None, **overrides: Any) -> Self:
        """Return the regressor with the parameters of the paper's experiments.

        Parameters
        ----------
        setting : {1, 2}, default=1
            1: learning rate 0.1 for 40 epochs; 2: learning rate 0.001 for 500 epochs.
        dataset : str, optional
            Name of a data set of the paper; this method has the same parameters for all of them.
        **overrides
            Parameters to set otherwise, for example ``random_state=0``.

        Returns
        -------
        model : BDKNRegressor
            The regressor, not fitted.

        Examples
        --------
        >>> from bdkn import BDKNRegressor
        >>> BDKNRegressor.from_paper(setting=1).learning_rate
        0.1
        """
        published = {
            **paper_parameters(setting, dataset),
            "design": "in-sample",
            "prior_variance": "paper",
            "target": "identity",
        }
        return cls(**{**published, **overrides})

    def fit(
        self,
        X: Table | RowSource,
        y: ArrayLike | str | None = None,
        sample_weight: ArrayLike | str | None = None,
        groups: ArrayLike | str | None = None,
    ) -> Self:
        """Fit the regressor to training rows, in memory or in blocks.

        Rows that repeat another one, inputs and target, are counted once, with a warning, and rows with equal inputs
        are in the same fold, unless ``groups``, or row numbers as ``cv``, say which rows belong together.

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
            How many times each row is counted: a weight of 2 is two observations, a weight of 0 leaves the row out.
            Weights that sum to one would count as a single row: multiply them by the number of rows.
        groups : array-like of shape (n_samples,), optional
            A label for each row. Rows with the same label are in the same fold: rows of one patient, machine or place,
            if new rows will be of others. ``np.arange(len(y))`` says that every row is an observation of its own.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        source = as_row_source(X, y, sample_weight, groups)
        if source is not None:
            return self._publish(lambda model: fit_in_blocks(model, source))
        return self._publish(lambda model: model._fit(*model._split_rows(X, y, sample_weight, groups, reset=True)))

    def _split_rows(
        self, X: Table, y: ArrayLike | None, sample_weight: ArrayLike | None, groups: ArrayLike | None, *, reset: bool
    ) -> tuple[Rows, Splitting]:
        """Return the checked rows to use, and how they are divided into folds."""
        y = check_not_none(y)
        check_choice("design", self.design, DESIGNS)
        if reset and isinstance(self.cv, Iterator):  # which can be read only once; this is the copy that is fitted
            self.cv = list(self.cv)
        given = self._all_rows(X, y, sample_weight, reset=reset)
        if self.design != "in-sample":
            cv = self.cv if self.design == "cross-fit" else None
            check_cv(cv)
            splitting = Splitting.of(given, groups, cv, warn=reset).by_cv(cv)
        elif groups is None:
            splitting = Splitting.plain(given)
        else:
            raise InvalidParameterError("groups divide rows into folds, of which design='in-sample' has none; got some")
        return self._as_inputs(splitting.used_rows(), splitting.sets, reset=reset), splitting

    def _fit(self, rows: Rows, splitting: Splitting | None = None) -> FittedBDKN:
        settings, splitting = self._settings(), splitting or Splitting.plain(rows)
        self._check_memory(settings, rows, settings.size(len(rows)).n_members)
        clock = Clock.start(self.time_limit or inf)
        with stage("choose link"):
            link = self._link(rows)
        with stage("encode"):
            encoded, encoders = encode(rows, standardize_y=settings.standardize_y, link=link)
        combining = CombinationSettings.of(self)
        if self.design == "in-sample":
            settings = within_limit(settings, encoded, clock, len(rows))
            return fit_published(settings, combining, encoded, encoders, seed_sequence(self.random_state))
        provenance = FitProvenance.of(self, encoded, splitting.digest(self.cv))
        plan = FoldPlan.of(self, splitting, provenance.entropy, range(settings.size(len(rows)).n_members))
        limited = within_limit(settings, encoded, clock, plan.rows_per_member)
        if limited is not settings:
            settings, provenance = limited, provenance.with_parameters(epochs=limited.epochs)
            plan = FoldPlan.of(self, splitting, provenance.entropy, range(settings.size(len(rows)).n_members))
        candidates = train_candidates(settings, encoded, plan)
        if self._has_linear_member(*rows.X.shape):
            candidates = fit_linear(encoded, plan, own_variance=candidates.own_variance).join(candidates)
        del encoded  # a copy of the table, which is not needed further
        fitted = combine_candidates(candidates, encoders, provenance, combining)
        combined = self._completed(fitted.combined, rows.X, plan.held_out, splitting)
        return replace(fitted, combined=combined, n_trained=len(plan.names))

    def _check_memory(self, settings: NetworkSettings, rows: Rows, n_members: int) -> None:
        """Raise if so many members need more memory than there is."""
        fits = self.n_folds if self.cv is None and self.design == "cross-fit" else 1
        combined = self.design != "in-sample"
        settings.check_memory(len(rows), rows.X.shape[1], n_members=n_members, fits=fits, combined=combined)

    def _has_linear_member(self, n_rows: int, n_columns: int) -> bool:
        """Return whether a linear member is among the candidates."""
        if isinstance(self.linear_member, str):
            return needs_linear(n_rows, n_columns)
        return bool(self.linear_member)

    def _has_shape(self) -> bool:
        """Return whether the shape of predictions is learned."""
        return self.design == "cross-fit" and self.density != "student-t"

    def _shaped(self, combined: Combined, X: Any, sets: IndexArray | None = None) -> Combined:
        return super()._shaped(combined, X, sets) if self._has_shape() else combined

    def _link(self, rows: Rows) -> Link:
        """Return the link of the targets; the published method has none."""
        settings = TargetSettings.of(self)
        if self.design != "in-sample":
            return settings.link(rows)
        if not settings.is_plain:
            raise InvalidParameterError(
                "design='in-sample' is the published method, which predicts the target itself; got "
                f"target={self.target!r}, lower={self.lower}, upper={self.upper}: use another design, or none of them"
            )
        return IdentityLink()

    def _settings(self) -> NetworkSettings:
        """Return the checked parameters of the networks, after checking those of the design."""
        settings = NetworkSettings.of(self)
        check_time_limit(self.time_limit)
        check_choice("design", self.design, DESIGNS)
        check_choice("predict_with", self.predict_with, ("folds", "refit"))
        if not (isinstance(self.linear_member, str) and self.linear_member == "auto"):
            check_flag("linear_member, if not 'auto',", self.linear_member)
        check_number("n_folds", self.n_folds, low=2, whole=True)
        check_cv(self.cv)
        check_number("holdout_fraction", self.holdout_fraction, low=0, high=0.9, strict=True)
        return settings

    @of_one_state
    def add_members(
        self,
        n: int,
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Return the regressor with ``n`` more networks; this one does not change.

        The new members are trained on the rows and with the folds of the fit, which must be given again, and with the
        seeds that follow: the result is that of a fit with so many members at once. Members left out or dropped before
        stay out.

        Parameters
        ----------
        n : int
            Number of members to add.
        X : array-like of shape (n_samples, n_features)
            The training rows of the fit.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            Their weights, if the fit had any.
        groups : array-like of shape (n_samples,), optional
            Their groups, if the fit had any.

        Returns
        -------
        model : BDKNRegressor
            The regressor with more members.
        """
        self._require_held_out()
        check_number("n", n, low=1, whole=True)
        state: FittedBDKN = self._state
        ensemble, first = state.networks.ensemble, state.n_trained
        encoders = Encoders(ensemble.inputs, ensemble.targets)
        used, splitting = self._split_rows(X, y, sample_weight, groups, reset=False)
        self._check_memory(self._settings(), used, first + n)
        rows, provenance = encoders.transform(used), self._require_provenance()
        provenance.check_same(self, rows, splitting.digest(self.cv))
        plan = FoldPlan.of(self, splitting, provenance.entropy, range(first, first + n))
        new = train_candidates(self._settings(), rows, plan)
        candidates = candidates_in_use(state.networks, self._require_held_out()).join(new)
        fitted = combine_candidates(candidates, encoders, provenance, CombinationSettings.of(self))
        combined = self._completed(fitted.combined, used.X, plan.held_out, splitting)
        return self._copy(replace(fitted, combined=combined, n_trained=first + n), n_members=first + n)

    @property
    def n_trained_(self) -> int:
        """Number of networks that were trained as members, in use or not."""
        n_trained: int = self._state.n_trained
        return n_trained

    def _only(self, members: IndexArray, combined: Combined) -> Self:
        state: FittedBDKN = self._state
        return self._copy(FittedBDKN(state.networks[members], combined, state.n_trained))

    def _member_fit(self) -> dict[str, Any]:
        return {**self._networks.table(), **self._target_scores()}

    def _forecast(self, X: Array) -> Forecast:
        with stage("predict members"):
            return self.ensemble_.forecast(X)

    def _by_fold(self, X: Array) -> tuple[FloatArray, FloatArray]:
        return self.ensemble_.by_fold(X)

    @property
    def _networks(self) -> FittedNetworks:
        networks: FittedNetworks = self._state.networks
        return networks

    @property
    def ensemble_(self) -> NetworkEnsemble:
        """All networks in use with the encoders they were trained under."""
        return self._networks.ensemble

    @property
    def members_(self) -> list[NetworkMember]:
        """The members in use, each with ``predict(X) -> (mean, variance)`` in the units of the target."""
        return self._networks.ensemble.members

    @property
    def member_names_(self) -> tuple[str, ...]:
        """Names of the members in use; if some were left out, the others keep their numbers."""
        return self._networks.ensemble.names

    @property
    def member_scores_(self) -> MemberScores:
        """Mean squared error and NLL of each member in scaled units."""
        return self._networks.scores

    @property
    def loss_curves_(self) -> tuple[Array, ...]:
        """Training loss per epoch of each network in use, fold by fold."""
        return self._networks.loss_curves

    @property
    def loss_curve_(self) -> FloatArray:
        """Training loss per epoch, averaged over the networks that ran it."""
        return self._networks.loss_curve

    @property
    def validation_curves_(self) -> tuple[Array, ...]:
        """Loss per epoch on the rows that a network held out; empty without early stopping."""
        return self._networks.validation_curves

    @property
    def best_epochs_(self) -> IndexArray:
        """The epoch, from 0, whose weights each network kept."""
        return self._networks.best_epochs

    @property
    def n_iter_(self) -> int:
        """Epochs run by the network that ran longest."""
        return self._networks.n_iter
