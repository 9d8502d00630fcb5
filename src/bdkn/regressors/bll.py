"""Bayesian last layer: one network's features as the basis of a Bayesian linear model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdkn.errors import InvalidParameterError, check_choice, check_number
from bdkn.inference import Posterior
from bdkn.members import TrainingRows
from bdkn.networks import FeatureMap
from bdkn.predictive import Gaussian, MultivariateT, StudentT
from bdkn.regressors.last_layer import CERTAIN
from bdkn.regressors.torch_regressor import TorchNetworkRegressor, check_flag
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from bdkn.regressors.learners.evidence import EvidenceLearner

HEADS = ("normal-inverse-gamma", "gaussian")


@dataclass(kw_only=True, eq=False, repr=False)
class BLLRegressor(TorchNetworkRegressor):
    """Bayesian last layer: features and noise learned together, by the exact evidence of a Bayesian linear model.

    y = φ(x; θ)ᵀw + ε, with φ the last hidden layer of a network and a constant, w ~ N(0, σ_w² I) and ε ~ N(0, σ²). The
    weights w are integrated out in closed form, so that θ, σ_w² and, of a Gaussian head, σ² rise on the evidence of all
    rows at once. Evidence does not keep θ from fitting noise; rows held out say when to stop. Still the features are
    fitted to the very rows that tell σ²: with few rows, or many inputs, intervals are too narrow.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50, 50)
        Units of each hidden layer; the last are the features. ``()`` is a linear model of the inputs.
    activation : {"relu", "leaky_relu", "tanh", "silu"}, default="leaky_relu"
        Activation of the hidden layers.
    head : {"normal-inverse-gamma", "gaussian"}, default="normal-inverse-gamma"
        Whether σ² is integrated out under Jeffreys' prior, for Student-t predictions with σ_w² relative to σ²; or one
        number, for Gaussian predictions.
    noise : "learned" or float, default="learned"
        σ² of a Gaussian head, in scaled units: learned with the rest, or known.
    prior_variance : "learned" or float, default="learned"
        σ_w²: learned with the rest, or given.
    stale_weights : bool, default=False
        Predict with the posterior that w had before the last step moved the features. Nobody wants that; it is our
        guess at what was done for the scores printed for learning rate 0.1, most of which come out so.
    learning_rate : float, default=0.01
        Rate of Adam.
    epochs : int, default=2000
        Steps on all rows, at most.
    weight_decay : float, default=0.0
        Decoupled weight decay, as in AdamW.
    early_stopping : bool, default=True
        Hold rows out, see after how many epochs they are predicted best, and train anew on all rows for so long.
    validation_fraction : float, default=0.2
        Share of the rows held out for that.
    patience : int or None, default=300
        Epochs without a better score after which it is not waited for one; None waits to the end.
    standardize_y : bool, default=True
        Train on targets of mean 0 and standard deviation 1. Inputs are always standardised.
    device : str, default="cpu"
        Where to train, as PyTorch spells it, for example "cuda".
    n_jobs : int or None, default=None
        Threads PyTorch may use, -1 for all cores; None is one, or PyTorch's own number where a step is worth it. More
        may change the last digits.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the network and of the rows held out.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    features_ : FeatureMap
        The hidden layers, on scaled inputs.
    posterior_ : Posterior
        The posterior of (w, σ²) in scaled units, the constant's weight last; σ² is certain for a Gaussian head.
    noise_ : float
        The noise variance, or its posterior scale b/a, in squared units of the target.
    loss_curve_ : ndarray
        Loss of each epoch on all rows.
    validation_curve_ : ndarray of shape (2, n)
        Epochs after which the rows held out were predicted, and how well, as NLL in scaled units.
    n_iter_ : int
        Epochs run on all rows.
    n_features_in_ : int
        Columns of ``X``.
    feature_names_in_ : ndarray of str
        Their names, where ``X`` had names.

    See Also
    --------
    BDKNRegressor : The same linear model on the predictions of many networks instead of the features of one.

    References
    ----------
    J. Watson, J. A. Lin, P. Klink, J. Pajarinen and J. Peters, "Latent derivative Bayesian last layer networks", 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BLLRegressor
    >>> X = np.linspace(-2, 2, 100)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=100)
    >>> model = BLLRegressor(epochs=200, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    activation: str = "leaky_relu"
    head: str = "normal-inverse-gamma"
    noise: float | str = "learned"
    prior_variance: float | str = "learned"
    stale_weights: bool = False
    learning_rate: float = 0.01
    epochs: int = 2000
    patience: int | None = 300

    features_: FeatureMap = field(init=False)
    posterior_: Posterior = field(init=False)

    paper_name: ClassVar[str] = "bll"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        # The paper's NLLs are those of unit noise on standardised targets; lagging weights are a guess that fits.
        head = {"activation": "leaky_relu", "head": "gaussian", "noise": 1.0, "prior_variance": 1.0}
        stopping = {"early_stopping": setting == 2, "validation_fraction": 0.2, "patience": None}
        return {**head, "stale_weights": True, **stopping}

    @property
    def noise_(self) -> float:
        """The noise variance, or its posterior scale, in squared units of the target."""
        return self.posterior_.b / self.posterior_.a * self.targets_.squared

    def predict_derivative(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and standard deviation of ∂f/∂x, each (n_samples, n_features), in the units given.

        The standard deviation is infinite with two degrees of freedom or fewer.
        """
        rows = self._scaled(self._rows(X))
        J = self.features_.derivatives(rows)
        n, D, P = J.shape
        Φ = np.concatenate([J, np.zeros((n, 1, P))], axis=1).transpose(0, 2, 1).reshape(n * P, D + 1)
        slopes = self.posterior_.predictive(Φ, noise=0.0)
        unit = self.targets_.scale / self.inputs_.scale
        return unit * slopes.mean().reshape(n, P), unit * slopes.std().reshape(n, P)

    def _learner(
        self, rows: TrainingRows, held_out: TrainingRows | None, seeds: Sequence[np.random.SeedSequence]
    ) -> EvidenceLearner:
        import torch

        from bdkn.regressors.learners.evidence import EvidenceLearner
        from bdkn.regressors.learners.features import TorchFeatures

        like = torch.empty(0, dtype=torch.float64, device=self.device)
        features = TorchFeatures(self._start(rows.X.shape[1], seeds[0]), like)
        return EvidenceLearner(
            rows,
            held_out,
            features,
            like,
            noise=self.noise if self.head == "gaussian" else None,
            prior_variance=self.prior_variance,
            penalty=self._penalty(features, torch.tensor(rows.X).to(like), seeds[1]),
            stale=self.stale_weights,
        )

    def _penalty(self, features: Any, X: Any, seed: np.random.SeedSequence) -> Any:
        """Return what is added to the loss, if anything is."""
        return None

    def _frozen(self, learner: EvidenceLearner) -> dict[str, Any]:
        return {"features_": learner.features.frozen(), "posterior_": learner.posterior()}

    def _scaled_predictive(self, X: FloatArray) -> Gaussian | StudentT:
        predictive = self.posterior_.predictive(self._design(X))
        return predictive if self._is_student else Gaussian(predictive.loc, predictive.scale)

    def _scaled_joint(self, X: FloatArray) -> MultivariateT:
        joint = self.posterior_.joint(self._design(X))
        return joint if self._is_student else MultivariateT(np.inf, joint.loc, joint.shape)

    @property
    def _is_student(self) -> bool:
        return self.posterior_.a < CERTAIN

    def _design(self, X: FloatArray) -> FloatArray:
        return np.concatenate([self.features_(X), np.ones((len(X), 1))], axis=1)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("head", self.head, HEADS)
        check_flag("stale_weights", self.stale_weights)
        for name in ("noise", "prior_variance"):
            given = getattr(self, name)
            if isinstance(given, str):
                check_choice(f"{name}, if not a number,", given, ("learned",))
            else:
                check_number(name, given, low=0, strict=True)
        if self.head != "gaussian" and not isinstance(self.noise, str):
            raise InvalidParameterError(
                f"noise can be known of a Gaussian head only; got noise={self.noise!r} with head={self.head!r}, which "
                "integrates it out: set head='gaussian', or leave noise"
            )
