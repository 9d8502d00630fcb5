"""Bayesian deep kernel networks: networks as the basis of a Bayesian linear model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bdkn.errors import check_choice, check_number
from bdkn.inference import Posterior, Prior, Statistics, choose_prior_variance, log_evidence, posterior
from bdkn.members import Design, TargetScaler
from bdkn.networks.activation import Array
from bdkn.predictive import StudentT
from bdkn.predictive.base import FloatArray
from bdkn.regressors.ensemble import EnsembleRegressor


@dataclass(kw_only=True, eq=False, repr=False)
class BDKNRegressor(EnsembleRegressor):
    """Bayesian deep kernel network: Student-t predictions in closed form.

    H networks are trained independently. What they predict, φ(x) = (φ₁(x), .., φ_H(x)), is then the basis of a Bayesian
    linear model y = φ(x)ᵀβ + ε, whose weights β and noise variance σ² are integrated out in closed form.

    Parameters
    ----------
    n_members : int, default=5
        How many networks to train, H.
    hidden_layer_sizes : int or sequence of int, default=(50, 50)
        Units of each hidden layer; ``()`` is a linear model.
    activation : {"relu", "leaky_relu", "tanh", "silu"}, default="relu"
        Activation of the hidden layers.
    objective : {"nll", "beta_nll", "mse"}, default="nll"
        What a network minimises: the Gaussian likelihood with a variance for each row; the same with each row's
        gradient scaled by its variance to the power ``beta``; or the squared error.
    beta : float, default=0.5
        Between 0 (as "nll") and 1 (mean trained as by "mse"); for "beta_nll" only.
    warmup_epochs : int, default=0
        First epochs on squared error, whatever the objective.
    epochs : int, default=500
        Passes over the rows, at most.
    learning_rate : float, default=0.001
        Rate of Adam.
    schedule : {"constant", "cosine"}, default="constant"
        Keep the rate, or let it fall to zero along half a cosine wave.
    batch_size : int, default=32
        Rows a step.
    weight_decay : float, default=0.0
        Decoupled weight decay, as in AdamW.
    early_stopping : bool, default=True
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
    evidence : {"exact", "paper"} or float, default="exact"
        How the prior variance σ_β² of the weights is chosen: as the best by marginal likelihood, as in the paper (a few
        steps of an optimiser from 1), or as the number given.

    Attributes
    ----------
    weights_ : ndarray of shape (n_members,)
        Posterior mean of β.
    weights_cov_ : ndarray of shape (n_members, n_members)
        Posterior covariance of β; infinite where none exists, with two degrees of freedom or fewer.
    noise_ : float
        The noise variance bₙ/aₙ, in squared units of the target: the squared scale of a prediction if β were known.
    dof_ : float
        Degrees of freedom of every prediction, the number of training rows.
    prior_scale_ : float
        The prior variance σ_β² in use.
    evidence_ : float
        Log marginal likelihood of the training targets, in their own units.
    posterior_ : Posterior
        Posterior of (β, σ²), in the units the networks were trained in.
    ensemble_ : NetworkEnsemble
        All networks in use with the scaling they were trained under.
    members_ : list of NetworkMember
        The networks in use, each with ``predict(X) -> (mean, variance)``.
    member_names_ : tuple of str
        Their names; networks that diverged are missing, the others keep their numbers.
    in_sample_ : InSample
        Mean squared error and NLL of each network on the training rows, in scaled units.
    loss_curves_ : tuple of ndarray
        Training loss an epoch of each network in use.
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

    evidence: str | float = "exact"

    posterior_: Posterior = field(init=False)
    prior_scale_: float = field(init=False)
    evidence_: float = field(init=False)

    @classmethod
    def _paper_extras(cls) -> dict[str, Any]:
        return {"evidence": "paper"}

    @property
    def weights_(self) -> FloatArray:
        """Posterior mean of β."""
        return self.posterior_.mean

    @property
    def weights_cov_(self) -> FloatArray:
        """Posterior covariance of β, infinite where none exists."""
        return _student_t_covariance(self.dof_, self.posterior_.scale_matrix)

    @property
    def noise_(self) -> float:
        """Noise variance bₙ/aₙ in squared units of the target."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.square(self.ensemble_.targets.scale * np.sqrt(self.posterior_.b / self.posterior_.a)))

    @property
    def dof_(self) -> float:
        """Degrees of freedom of every prediction."""
        return self.posterior_.df

    def member_table(self) -> dict[str, Any]:
        """Return one column a key: each network's name, weight with its 95 % credible interval, and in-sample fit.

        RMSE and NLL on the training rows are in the units of the target, the NLL that of the network's own Gaussian.
        """
        fit = super().member_table()
        lower, upper = self.posterior_.weight_interval(0.95)
        return {"member": fit.pop("member"), "weight": self.weights_, "lower": lower, "upper": upper, **fit}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.evidence, str):
            check_choice("evidence", self.evidence, ("exact", "paper"))
        else:
            check_number("evidence", self.evidence, low=1e-100, high=1e100)

    def _combine(self, design: Design, targets: TargetScaler) -> dict[str, Any]:
        stats = Statistics.from_chunks(design.chunks())
        variance = choose_prior_variance(stats, self.evidence)
        post = posterior(stats, Prior.isotropic(len(design.networks), variance))
        # The density of a target in its own units is that of the scaled one, divided by the scale.
        evidence = log_evidence(stats, post) - stats.n * float(np.log(targets.scale))
        return {"posterior_": post, "prior_scale_": variance, "evidence_": evidence}

    def _predictive(self, X: Array) -> StudentT:
        return self.posterior_.predictive(self._features(X)).affine(*self._to_raw)

    def _moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        joint = self.posterior_.joint(self._features(X)).affine(*self._to_raw)
        return joint.loc, _student_t_covariance(self.dof_, joint.shape)

    def _joint_draws(self, X: Array, size: int, generator: np.random.Generator) -> FloatArray:
        β, σ2 = self.posterior_.draw(size, generator)
        noise = np.sqrt(σ2) * generator.standard_normal((len(X), size))
        scale, shift = self._to_raw
        return shift + scale * (self._features(X) @ β.T + noise)

    def _features(self, X: Array) -> FloatArray:
        """Return φ(x) for each row."""
        return self.ensemble_.outputs(X)[0]

    @property
    def _to_raw(self) -> tuple[float, float]:
        """Scale and shift from the units the networks were trained in to those of the target."""
        return self.ensemble_.targets.scale, self.ensemble_.targets.mean


def _student_t_covariance(df: float, shape: FloatArray) -> FloatArray:
    """Return the covariance of a Student-t, infinite with two degrees of freedom or fewer unless it is a point mass."""
    return shape / (1 - 2 / df) if df > 2 else np.where(shape == 0, 0.0, np.inf)
