"""Mean-field variational inference over all weights of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdkn.errors import check_number
from bdkn.members import TrainingRows
from bdkn.networks import FeatureMap
from bdkn.predictive import GaussianMixture, MultivariateT
from bdkn.regressors.torch_regressor import TorchNetworkRegressor
from bdkn.typing import Array, FloatArray

if TYPE_CHECKING:
    from bdkn.regressors.learners.variational import VariationalLearner


@dataclass(kw_only=True, eq=False, repr=False)
class MFVIRegressor(TorchNetworkRegressor):
    """Bayesian neural network by mean-field variational inference: a Gaussian for every weight on its own.

    y = network(x; w) + ε with weights w ~ N(0, (ω/√n_in)²), biases ~ N(0, 1) and ε ~ N(0, σ²). Given the rows, w is
    approximated by a Gaussian with diagonal covariance, which together with σ maximises the evidence lower bound, by
    a few draws of w a step. Predictions are the mixture of networks drawn from it, drawn once, when fitted.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50, 50)
        Units of each hidden layer; ``()`` is a linear model.
    activation : {"relu", "leaky_relu", "tanh", "silu"}, default="leaky_relu"
        Activation of the hidden layers.
    prior_scale : float, default=4.0
        ω.
    initial_scale : float, default=0.01
        Standard deviation of each weight under the approximation before training.
    n_particles : int, default=1
        Draws of w a step: more make steps slower and less noisy, so that a greater rate can do.
    n_samples : int, default=100
        Networks drawn for predictions.
    batch_size : int or None, default=32
        Rows a step; None takes all at once.
    learning_rate : float, default=0.003
        Rate of Adam.
    epochs : int, default=1000
        Passes over the rows, at most.
    weight_decay : float, default=0.0
        Decoupled weight decay of the parameters of the approximation, as in AdamW; the prior is decay enough.
    early_stopping : bool, default=True
        Hold rows out, see after how many epochs they are predicted best, and train anew on all rows for so long.
    validation_fraction : float, default=0.2
        Share of the rows held out for that.
    patience : int or None, default=100
        Epochs without a better score after which it is not waited for one; None waits to the end.
    standardize_y : bool, default=True
        Train on targets of mean 0 and standard deviation 1. Inputs are always standardised.
    device : str, default="cpu"
        Where to train, as PyTorch spells it, for example "cuda".
    n_jobs : int or None, default=None
        Threads PyTorch may use, -1 for all cores; None is one, or PyTorch's own number where a step is worth it. More
        may change the last digits.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the network, of batches, of all draws and of the rows held out.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    networks_ : FeatureMap
        The networks drawn, stacked, on scaled inputs.
    variance_ : float
        The noise variance σ² in scaled units.
    noise_ : float
        The same in squared units of the target.
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

    References
    ----------
    C. Blundell, J. Cornebise, K. Kavukcuoglu and D. Wierstra, "Weight uncertainty in neural networks", 2015.
    J. Watson, J. A. Lin, P. Klink, J. Pajarinen and J. Peters, "Latent derivative Bayesian last layer networks", 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import MFVIRegressor
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = 2 * X[:, 0] + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = MFVIRegressor(hidden_layer_sizes=(), epochs=100, learning_rate=0.05, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    activation: str = "leaky_relu"
    prior_scale: float = 4.0
    initial_scale: float = 0.01
    n_particles: int = 1
    n_samples: int = 100
    batch_size: int | None = 32
    learning_rate: float = 0.003
    epochs: int = 1000

    networks_: FeatureMap = field(init=False)
    variance_: float = field(init=False)

    packages: ClassVar[tuple[str, ...]] = ("torch", "pyro-ppl")
    paper_name: ClassVar[str] = "mfvi"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        # The initial scale is Pyro's. With one draw a step a rate of 0.1 ends far above the printed scores, with a
        # hundred far below; setting 1 holds no rows out.
        network = {"activation": "leaky_relu", "batch_size": 32, "prior_scale": 4.0, "n_samples": 100, "n_particles": 5}
        stopping = {"early_stopping": setting == 2, "validation_fraction": 0.2, "patience": None}
        return {**network, **stopping, "initial_scale": 0.1}

    @property
    def noise_(self) -> float:
        """The noise variance in squared units of the target."""
        return self.variance_ * self.targets_.squared

    def _learner(
        self, rows: TrainingRows, held_out: TrainingRows | None, seeds: Sequence[np.random.SeedSequence]
    ) -> VariationalLearner:
        import torch

        from bdkn.regressors.learners.variational import VariationalLearner

        return VariationalLearner(
            rows,
            held_out,
            self._start(rows.X.shape[1], seeds[0]),
            torch.empty(0, device=self.device),
            seeds[1],
            batch_size=self.batch_size,
            prior_scale=self.prior_scale,
            initial_scale=self.initial_scale,
            n_particles=self.n_particles,
            n_samples=self.n_samples,
        )

    def _start(self, n_inputs: int, seed: np.random.SeedSequence) -> FeatureMap:
        widths = (n_inputs, *self._hidden, 1)
        return FeatureMap.draw(widths, self.activation, np.random.default_rng(seed), linear_last=True)

    def _frozen(self, learner: VariationalLearner) -> dict[str, Any]:
        return {"networks_": learner.draws(), "variance_": learner.noise}

    def _scaled_predictive(self, X: FloatArray) -> GaussianMixture:
        return GaussianMixture(self.networks_.said(X), np.sqrt(self.variance_))

    def _scaled_joint(self, X: FloatArray) -> MultivariateT:
        """Return the Gaussian with the mean and the covariance of the mixture."""
        means = self.networks_.said(X)
        apart = means - means.mean(axis=1, keepdims=True)
        covariance = apart @ apart.T / means.shape[1] + self.variance_ * np.eye(len(X))
        return MultivariateT(np.inf, means.mean(axis=1), covariance)

    def _joint_draws(self, X: Array, size: int, generator: np.random.Generator) -> FloatArray:
        means = self.networks_.said(self._scaled(X))
        chosen = generator.integers(means.shape[1], size=size)  # each draw believes one network on all rows
        drawn = means[:, chosen] + np.sqrt(self.variance_) * generator.standard_normal((len(X), size))
        return np.asarray(self.targets_.mean + self.targets_.scale * drawn)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("prior_scale", self.prior_scale, low=0, strict=True)
        check_number("initial_scale", self.initial_scale, low=0, strict=True)
        check_number("n_particles", self.n_particles, low=1, whole=True)
        check_number("n_samples", self.n_samples, low=1, whole=True)
        if self.batch_size is not None:
            check_number("batch_size, if not None,", self.batch_size, low=1, whole=True)
