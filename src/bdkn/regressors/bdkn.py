"""Bayesian deep kernel networks: networks as the basis of a Bayesian linear model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import check_choice, check_number
from bdkn.inference import Combination, Forecast, plain_combination
from bdkn.members import (
    Design,
    Folds,
    HeldOut,
    MemberScores,
    NetworkEnsemble,
    Standardizer,
    TargetScaler,
    TrainingRows,
    constant_variance,
    digest,
    networks_of,
)
from bdkn.regressors.base import Table
from bdkn.regressors.combining import CombiningRegressor
from bdkn.regressors.cross_fit import CrossFit, cross_fit
from bdkn.regressors.ensemble import EnsembleRegressor
from bdkn.regressors.origin import Origin
from bdkn.regressors.screening import sound_members
from bdkn.regressors.seeds import seed_sequence
from bdkn.stages import stage
from bdkn.training import Trained, renumbered
from bdkn.typing import Array

Seed = np.random.SeedSequence

DESIGNS = ("cross-fit", "hold-out", "in-sample")


@dataclass(kw_only=True, eq=False, repr=False)
class BDKNRegressor(CombiningRegressor, EnsembleRegressor):
    """Bayesian deep kernel network: Student-t predictions in closed form, judged on rows no network has seen.

    H networks are trained independently. What they predict, φ(x) = (φ₁(x), .., φ_H(x)), is then the basis of a Bayesian
    linear model y = φ(x)ᵀβ + α + ε, whose weights and noise are integrated out in closed form. By default members are
    cross-fitted: each is trained once for each fold of the rows, on the others, and the model is fitted to what the
    members say about rows left out of their training. The noise at x has variance σ² v(x)^τ, with v the ensemble's own
    predictive variance. ``BDKNRegressor.from_paper`` is the published method.

    Parameters
    ----------
    n_members : int or "auto", default="auto"
        How many members the ensemble has, H. "auto" is 12 and, for more than 4000 rows, 6.
    hidden_layer_sizes : int, sequence of int or "auto", default="auto"
        Units of each hidden layer; ``()`` is a linear model. "auto" is two layers of 50 units and, for more than 4000
        rows, five of 36.
    activation : {"relu", "leaky_relu", "tanh", "silu"} or a sequence of them, default=("silu", "relu")
        Activation of the hidden layers. Several are taken in turn, one a member.
    objective : {"nll", "beta_nll", "mse"}, default="nll"
        What a network minimises: the Gaussian likelihood with a variance for each row; the same with each row's
        gradient scaled by its variance to the power ``beta``; or the squared error.
    beta : float, default=0.5
        Between 0 (as "nll") and 1 (mean trained as by "mse"); for "beta_nll" only.
    warmup_epochs : int, default=0
        First epochs on squared error, whatever the objective.
    epochs : int or "auto", default="auto"
        Passes over the rows, at most. "auto" is 500; for more than 1000 rows, 500 times the square root of 1000 over
        their number; for more than 4000, 250 times the fourth root of 4000 over their number.
    learning_rate : float, default=0.003
        Rate of Adam.
    schedule : {"constant", "cosine"}, default="cosine"
        Keep the rate, or let it fall to zero along half a cosine wave.
    batch_size : int, default=32
        Rows a step.
    weight_decay : float or sequence of float, default=(0.0, 0.3, 0.0, 1.0, 0.0, 0.3)
        Decoupled weight decay, as in AdamW. Several values are taken in turn, each once with every activation: without
        decay networks fit what is nearly free of noise, with much of it they do not fit the noise.
    early_stopping : bool, default=False
        Let every network hold out rows of its own, stop once its loss on them no longer falls, and go back to its best
        epoch.
    validation_fraction : float, default=0.1
        Share of the rows held out for early stopping.
    patience : int, default=20
        Epochs without progress after which a network stops.
    tol : float, default=0.0001
        Fall of the held-out loss that counts as progress.
    standardize_y : bool, default=True
        Train on targets of mean 0 and standard deviation 1. Inputs are always standardised.
    engine : {"fused", "reference", "torch"} or Engine, default="fused"
        What trains the networks: compiled code, plain NumPy, PyTorch, or an object with options of its own, such as
        ``bdkn.TorchEngine(device="cuda")`` or ``bdkn.TorchEngine(module=factory)`` for your own ``nn.Module``.
    n_jobs : int or None, default=-1
        Threads to train on, -1 for all cores. The result does not depend on it. Inside a parallel search, 1 is best.
    random_state : int, Generator, RandomState or None, default=None
        Seed. More members with the same integer begin with the same networks.
    verbose : int, default=0
        1 shows a progress bar on standard error.
    design : {"cross-fit", "hold-out", "in-sample"}, default="cross-fit"
        Which rows the linear model is fitted to: every row, as said by networks that were not trained on it; a single
        part of the rows, left out of all training; or, as in the paper, the rows the networks were trained on, with
        constant noise, prior mean zero and no constant.
    n_folds : int, default=5
        Folds of a cross-fit. Each member has folds of its own.
    holdout_fraction : float, default=0.1
        Share of the rows left out of training by ``design="hold-out"``.
    predict_with : {"folds", "refit"}, default="folds"
        What a member is at prediction: the average of its networks from all folds, or one more network trained on all
        rows. Not for ``design="in-sample"``.
    evidence : {"exact", "paper"} or float, default="exact"
        How the prior variance σ_β² of the weights is chosen: as the best by marginal likelihood, as in the paper (a few
        steps of an optimiser from 1), or as the number given.
    tempering : "evidence" or float, default="evidence"
        The power τ of the members' variance, chosen by marginal likelihood or given: 0 is constant noise, 1 trusts the
        members' variances up to a factor. Not for ``design="in-sample"``.
    tails : {"loo", "posterior"}, default="loo"
        Degrees of freedom and scale of predictions: chosen by the leave-one-out log score, or the posterior's own. Not
        for ``design="in-sample"``.
    select_members : bool, default=True
        Use those members with which the leave-one-out log score is best, of all, all but the most harmful one, and so
        on; or all. Not for ``design="in-sample"``.

    Attributes
    ----------
    weights_ : ndarray of shape (n_members,)
        Posterior mean of β.
    weights_cov_ : ndarray of shape (n_members, n_members)
        Posterior covariance of β; infinite where none exists, with two degrees of freedom or fewer.
    intercept_ : float
        What is added to the weighted predictions of the members.
    noise_ : float
        The squared scale of a prediction if β were known, in squared units of the target, averaged over the rows the
        linear model was fitted to.
    dof_ : float
        Degrees of freedom of every prediction.
    prior_scale_ : float
        The prior variance σ_β² in use.
    evidence_ : float
        Log marginal likelihood of the targets the linear model was fitted to, in their own units.
    combination_ : Combination
        The linear model: posterior of (β, α, σ²), tempering τ and tails, in the units the networks were trained in.
    held_out_ : HeldOut or None
        What the members say about rows left out of their training, and the targets; None for an in-sample design.
    origin_ : Origin
        The seed, the digest of the rows and the parameters of a fit with rows left out, for ``add_members``.
    n_trained_ : int
        How many members were trained for it, in use or not.
    ensemble_ : NetworkEnsemble
        All networks in use with the scaling they were trained under.
    members_ : list of NetworkMember
        The members in use, each with ``predict(X) -> (mean, variance)``.
    member_names_ : tuple of str
        Their names; members that diverged or were not selected are missing, the others keep their numbers.
    member_scores_ : MemberScores
        Mean squared error and NLL of each member in scaled units, on rows left out of training or, for an in-sample
        design, on the training rows.
    loss_curves_ : tuple of ndarray
        Training loss an epoch of each network in use, one fold after the other.
    loss_curve_ : ndarray
        Their mean.
    validation_curves_ : tuple of ndarray
        Loss on the rows a network held out, an epoch; empty without early stopping.
    best_epochs_ : ndarray of int
        The epoch, from 0, whose weights each network kept.
    n_iter_ : int
        Epochs run by the network that ran longest.
    n_features_in_ : int
        Columns of ``X``.
    feature_names_in_ : ndarray of str
        Their names, where ``X`` had names.

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

    design: str = "cross-fit"
    n_folds: int = 5
    holdout_fraction: float = 0.1
    predict_with: str = "folds"
    evidence: str | float = "exact"
    tempering: str | float = "evidence"
    tails: str = "loo"
    select_members: bool = True

    combination_: Combination = field(init=False)
    held_out_: HeldOut | None = field(init=False)
    origin_: Origin = field(init=False)
    n_trained_: int = field(init=False)

    @classmethod
    def _paper_extras(cls) -> dict[str, Any]:
        return {"design": "in-sample", "evidence": "paper"}

    @property
    def member_names_(self) -> tuple[str, ...]:
        """Names of the members in use; where some were left out, the others keep their numbers."""
        return self.ensemble_.names

    def add_members(self, n: int, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Return the regressor with ``n`` more networks; this one stays as it is.

        They are trained on the rows and the folds of the fit, which must be given again, with the seeds that follow:
        the result is that of a fit with so many members at once. Members left out or dropped before stay out.
        """
        held_out, ensemble, first = self._judged(), self.ensemble_, self.n_trained_
        check_number("n", n, low=1, whole=True)
        checked, targets, counts = self._training_rows(X, y, sample_weight, reset=False)
        rows = TrainingRows(ensemble.inputs.transform(checked), ensemble.targets.transform(targets), counts)
        self.origin_.check(digest(rows.X, rows.y, rows.counts), self._making())
        used = Trained(ensemble.networks, self.loss_curves_, self.validation_curves_, tuple(self.best_epochs_))
        old = CrossFit(used, held_out, np.ones(len(ensemble), dtype=bool))
        names = (*ensemble.names, *_names(range(first, first + n)))
        new = self._cross_fit(rows, self.origin_.seed, range(first, first + n))
        changes = self._put_together(old.join(new), names, ensemble.inputs, ensemble.targets)
        return self._copy(n_members=first + n, n_trained_=first + n, **changes)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_combining()
        check_choice("design", self.design, DESIGNS)
        check_choice("predict_with", self.predict_with, ("folds", "refit"))
        check_number("n_folds", self.n_folds, low=2, whole=True)
        check_number("holdout_fraction", self.holdout_fraction, low=0, high=0.9, strict=True)

    def _learned(self, rows: TrainingRows, inputs: Standardizer, targets: TargetScaler) -> dict[str, Any]:
        if self.design == "in-sample":
            return super()._learned(rows, inputs, targets)
        root = seed_sequence(self.random_state)
        origin = Origin(root.entropy, digest(rows.X, rows.y, rows.counts), self._making())
        numbers = range(self._size(len(rows.y)).n_members)
        crossed = self._cross_fit(rows, root, numbers)
        del rows  # a table of its own, and members are combined by what they say alone
        learned = self._put_together(crossed, _names(numbers), inputs, targets)
        return {"origin_": origin, "n_trained_": len(numbers), **learned}

    def _cross_fit(self, rows: TrainingRows, root: np.random.SeedSequence, numbers: range) -> CrossFit:
        """Train the members of these numbers."""
        seeds = root.spawn(numbers.stop)[numbers.start :]
        folds = self._folds(len(rows.y), root, seeds)
        refit = self.predict_with == "refit"
        with self._progress((len(folds[0]) + refit) * len(seeds), len(rows.y)) as on_epoch:
            crossed = cross_fit(self._train, rows, folds, seeds, numbers, on_epoch)
            if not refit:
                return crossed
            after = range(len(folds[0]) * len(seeds), (len(folds[0]) + 1) * len(seeds))
            used = self._train(rows, seeds, on_epoch and renumbered(on_epoch, after), numbers)
        held_out = replace(crossed.held_out, spread=np.zeros_like(crossed.held_out.means))
        return CrossFit(used, held_out, crossed.finite & used.networks.is_finite())

    def _put_together(
        self, crossed: CrossFit, names: tuple[str, ...], inputs: Standardizer, targets: TargetScaler
    ) -> dict[str, Any]:
        """Return the fitted attributes: those members that are fit for it, combined."""
        sound, scores, held_out = self._screened(crossed, names)
        with stage("combine"):
            useful, combination = self._selected(held_out)
        kept = sound[useful]
        variances = None if self._own_variance(crossed.trained) else constant_variance(scores.mse)
        everyone = NetworkEnsemble(names, crossed.trained.networks, inputs, targets, variances)
        numbers = networks_of(kept, len(names), len(everyone.networks)).ravel()
        return {
            **self._described(everyone[kept], scores[kept], crossed.trained, numbers),
            "held_out_": held_out[useful],
            "combination_": combination,
        }

    def _screened(self, crossed: CrossFit, names: tuple[str, ...]) -> tuple[NDArray[np.intp], MemberScores, HeldOut]:
        """Return the numbers of the sound members, the scores of all, and what the sound say about rows left out."""
        held_out = crossed.held_out
        own_variance = self._own_variance(crossed.trained)
        scores = MemberScores.of(held_out.parts(), own_variance=own_variance)
        sound = sound_members(scores, crossed.finite, names)
        if not own_variance:
            held_out = replace(held_out, variances=np.broadcast_to(constant_variance(scores.mse), held_out.means.shape))
        return sound, scores, held_out[sound]

    def _only(self, members: NDArray[np.intp]) -> dict[str, Any]:
        ensemble = self.ensemble_
        trained = Trained(ensemble.networks, self.loss_curves_, self.validation_curves_, tuple(self.best_epochs_))
        numbers = networks_of(members, len(ensemble), len(ensemble.networks)).ravel()
        return self._described(ensemble[members], self.member_scores_[members], trained, numbers)

    def _member_fit(self) -> dict[str, Any]:
        return EnsembleRegressor.member_table(self)

    def _folds(self, n: int, root: Seed, seeds: Sequence[Seed]) -> list[Folds]:
        """Return the folds of each member; a hold-out is one for all."""
        if self.design == "hold-out":
            return [Folds.single(n, self.holdout_fraction, _generator(root))] * len(seeds)
        return [Folds.cross(n, self.n_folds, _generator(seed)) for seed in seeds]

    def _combine(self, design: Design) -> dict[str, Any]:
        return {"combination_": plain_combination(design.chunks(), self.evidence), "held_out_": None}

    def _forecast(self, X: Array) -> Forecast:
        return self.ensemble_.forecast(X)

    @property
    def _targets(self) -> TargetScaler:
        return self.ensemble_.targets


def _names(numbers: range) -> tuple[str, ...]:
    return tuple(f"network {h + 1}" for h in numbers)


def _generator(seed: Seed) -> np.random.Generator:
    """Return a generator from a child of the seed that no member and no fold has, however many there are."""
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 2**32 - 1)))
