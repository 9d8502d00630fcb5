"""Variational Bayesian last layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdkn.errors import check_choice, check_number
from bdkn.members import TrainingRows
from bdkn.networks import FeatureMap
from bdkn.predictive import Gaussian, MultivariateT
from bdkn.regressors.last_layer import VariationalLastLayer
from bdkn.regressors.torch_regressor import TorchNetworkRegressor
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from bdkn.regressors.learners.descent import Plan
    from bdkn.regressors.learners.last_layer import LastLayerLearner

PARAMETERIZATIONS = ("dense", "diagonal")


@dataclass(kw_only=True, eq=False, repr=False)
class VBLLRegressor(TorchNetworkRegressor):
    """Variational Bayesian last layer: its weights as a Gaussian, trained with the network in mini-batches.

    y = φ(x; θ)ᵀw + ε, with φ the last hidden layer, w ~ N(0, σ_w² I) and ε ~ N(0, σ²). A Gaussian for w, together with
    θ and σ², maximises a lower bound of the evidence that is closed form given φ, and in which σ² has a prior, inverse
    Wishart. The layer is that of the package ``vbll``. θ itself has one value: with few rows, or many inputs, intervals
    are too narrow.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50, 50)
        Units of each hidden layer; the last are the features. ``()`` is a linear model of the inputs, without constant.
    activation : {"relu", "leaky_relu", "tanh", "silu"}, default="relu"
        Activation of the hidden layers.
    parameterization : {"dense", "diagonal"}, default="dense"
        Covariance of w.
    prior_variance : float, default=1.0
        σ_w². The package divides its ``prior_scale`` by the number of features; this is not divided.
    wishart_scale : float, default=0.01
        Scale of the prior of σ²: as if so large a sum of squared errors had been seen.
    dof : float, default=1.0
        Its degrees of freedom.
    initial_noise : float or None, default=1.0
        σ² before training; None leaves it to the package, which draws log σ with standard deviation |log
        ``wishart_scale``|.
    batch_size : int or None, default=32
        Rows a step; None takes all at once.
    clip : float or None, default=1.0
        Greatest length of a step's gradient; None does not clip.
    learning_rate : float, default=0.003
        Rate of Adam.
    epochs : int, default=1000
        Passes over the rows, at most.
    weight_decay : float, default=0.0
        Decoupled weight decay, as in AdamW.
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
        Seed of the network, of batches and of the rows held out.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    features_ : FeatureMap
        The hidden layers, on scaled inputs.
    last_layer_ : VariationalLastLayer
        ``mean`` and ``covariance`` of w and the ``noise`` variance σ², in scaled units.
    noise_ : float
        The noise variance in squared units of the target.
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
    J. Harrison, J. Willes and J. Snoek, "Variational Bayesian last layers", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import VBLLRegressor
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = VBLLRegressor(epochs=100, learning_rate=0.01, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    parameterization: str = "dense"
    prior_variance: float = 1.0
    wishart_scale: float = 0.01
    dof: float = 1.0
    initial_noise: float | None = 1.0
    batch_size: int | None = 32
    clip: float | None = 1.0
    learning_rate: float = 0.003
    epochs: int = 1000

    features_: FeatureMap = field(init=False)
    last_layer_: VariationalLastLayer = field(init=False)

    packages: ClassVar[tuple[str, ...]] = ("torch", "vbll")
    paper_name: ClassVar[str] = "vbll"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        # Priors as the package makes them of its defaults, for 50 features: N(0, I / 50), where the paper on VBLL has
        # N(0, I), and inverse-Wishart(1, 1); gradients clipped, as the package advises. With raw targets and this
        # scale the noise of Naval ends near 1/n: that is the printed NLL of -3.70.
        head = {"parameterization": "dense", "prior_variance": 1 / 50, "wishart_scale": 1.0, "dof": 1.0}
        training = {"batch_size": 32, "clip": 1.0, "early_stopping": False, "standardize_y": False}
        return {"activation": "relu", **head, "initial_noise": None, **training}

    @property
    def noise_(self) -> float:
        """The noise variance in squared units of the target."""
        return self.last_layer_.noise * self.targets_.squared

    def _learner(
        self, rows: TrainingRows, held_out: TrainingRows | None, seeds: Sequence[np.random.SeedSequence]
    ) -> LastLayerLearner:
        import torch

        from bdkn.regressors.learners.features import TorchFeatures
        from bdkn.regressors.learners.last_layer import LastLayerLearner

        like = torch.empty(0, device=self.device)
        return LastLayerLearner(
            rows,
            held_out,
            TorchFeatures(self._start(rows.X.shape[1], seeds[0]), like),
            like,
            seeds[1],
            n_features=(rows.X.shape[1], *self._hidden)[-1],
            batch_size=self.batch_size,
            parameterization=self.parameterization,
            prior_variance=self.prior_variance,
            wishart_scale=self.wishart_scale,
            dof=self.dof,
            initial_noise=self.initial_noise,
        )

    def _plan(self, epochs: int, patience: int | None = None) -> Plan:
        return replace(super()._plan(epochs, patience), clip=self.clip)

    def _frozen(self, learner: LastLayerLearner) -> dict[str, Any]:
        return {"features_": learner.features.frozen(), "last_layer_": learner.frozen()}

    def _scaled_predictive(self, X: FloatArray) -> Gaussian:
        mean, variance = self.last_layer_.moments(self.features_(X))
        return Gaussian(mean, np.sqrt(variance))

    def _scaled_joint(self, X: FloatArray) -> MultivariateT:
        return MultivariateT(np.inf, *self.last_layer_.joint(self.features_(X)))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("parameterization", self.parameterization, PARAMETERIZATIONS)
        for name in ("prior_variance", "wishart_scale", "dof"):
            check_number(name, getattr(self, name), low=0, strict=True)
        for name in ("initial_noise", "clip"):
            if getattr(self, name) is not None:
                check_number(f"{name}, if not None,", getattr(self, name), low=0, strict=True)
        if self.batch_size is not None:
            check_number("batch_size, if not None,", self.batch_size, low=1, whole=True)
