"""Deep kernel learning: a Gaussian process on the features of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdkn.errors import check_flag, check_number
from bdkn.networks import FeatureMap
from bdkn.regressors.baselines.conditioned_gp import ConditionedGP, check_gp_parameters, gp_step_work
from bdkn.regressors.baselines.fitted import FittedDKL, TrainingCourse
from bdkn.regressors.baselines.plan import Plan, check_optional
from bdkn.regressors.baselines.torch_regressor import TorchRegressor, hidden_layers
from bdkn.regressors.shared_docs import with_shared_docs
from bdkn.rows import Rows

if TYPE_CHECKING:
    from bdkn.regressors.baselines.learners.gp_learner import GPLearner


@with_shared_docs
@dataclass(kw_only=True, eq=False, repr=False)
class DKLRegressor(TorchRegressor):
    """Deep kernel learning: a network with few outputs and a Gaussian process on them, trained together.

    y = f(φ(x; θ)) + ε with f ~ GP(c, k), k an RBF kernel with one length scale per feature, and ε ~ N(0, σ²). θ, c, the
    kernel and σ² maximise the marginal likelihood together. The marginal likelihood does not prevent θ from fitting
    noise, so training stops early by default. Time grows with the cube of the number of rows, memory with its square.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50, 50)
        Units of each hidden layer of the network.
    activation : {"relu", "leaky_relu", "tanh", "silu"}, default="relu"
        Activation of the hidden layers; the features are linear in the last of them.
    n_features_out : int, default=2
        Number of features that the kernel receives.
    bounded : bool, default=False
        Map each input linearly so that the training rows fill [-1, 1], and all features together so that those of the
        training rows fill [-0.95, 0.95], as in GPyTorch's tutorial; features of new rows are clipped to that range. The
        initial length scales then fit the features, and the network cannot stretch a feature without limit; but far
        from the training rows predictions are as certain as at the edge of the range.
    batch_size : int or None, default=None
        Rows per step, whose marginal likelihood is computed as if there were no others; None uses all rows in each
        step. Predictions are conditioned on all rows in both cases.
    <gp_parameters>
    learning_rate : float, default=0.01
        Learning rate of Adam.
    epochs : int, default=1000
        Maximal number of passes over the rows; without batches, of steps.
    <stopping_parameters>
    patience : int or None, default=100
        Epochs without improvement after which the search for the best number of epochs ends; None runs all epochs.
    <torch_parameters>

    Attributes
    ----------
    features_ : FeatureMap
        The network, on scaled inputs.
    process_ : ConditionedGP
        The process on its features, in scaled units of the target.
    noise_variance_ : float
        The noise variance σ² in squared units of the target.
    <torch_attributes>
    <column_attributes>

    References
    ----------
    A. G. Wilson, Z. Hu, R. Salakhutdinov and E. P. Xing, "Deep kernel learning", 2016.
    S. W. Ober, C. E. Rasmussen and M. van der Wilk, "The promises and pitfalls of deep kernel learning", 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import DKLRegressor
    >>> X = np.linspace(-2, 2, 100)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=100)
    >>> model = DKLRegressor(epochs=200, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    hidden_layer_sizes: int | Sequence[int] = (50, 50)
    activation: str = "relu"
    n_features_out: int = 2
    bounded: bool = False
    batch_size: int | None = None
    n_inducing: int | None = None
    minimum_noise: float = 1e-6
    dtype: str = "float64"
    weight_decay: float = 0.0
    early_stopping: bool = True
    validation_fraction: float = 0.2
    patience: int | None = 100

    packages: ClassVar[tuple[str, ...]] = ("torch", "gpytorch")
    paper_name: ClassVar[str] = "dkl"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        # The noise levels behind the paper's scores have moved by that many steps, not by that many batches per epoch,
        # and are the same on every data set in the units of its target.
        return {
            "activation": "relu",
            "n_features_out": 2,
            "batch_size": None,
            "minimum_noise": 1e-4,
            "early_stopping": False,
            "standardize_y": False,
        }

    @property
    def _dkl(self) -> FittedDKL:
        state: FittedDKL = self._state
        return state

    @property
    def features_(self) -> FeatureMap:
        """The network, on scaled inputs."""
        return self._dkl.features

    @property
    def process_(self) -> ConditionedGP:
        """The process on the features, in scaled units of the target."""
        return self._dkl.process

    def _plan(self) -> Plan:
        hidden_layers(self.hidden_layer_sizes, self.activation)
        check_number("n_features_out", self.n_features_out, low=1, whole=True)
        check_flag("bounded", self.bounded)
        check_gp_parameters(self.minimum_noise, self.dtype, self.n_inducing)
        check_optional("batch_size", self.batch_size, low=1, whole=True)
        return Plan.of(self)

    def _learner(self, rows: Rows, held_out: Rows | None, root: np.random.SeedSequence) -> GPLearner:
        import torch

        from bdkn.regressors.baselines.learners.features import TorchFeatures
        from bdkn.regressors.baselines.learners.gp_learner import GPLearner

        seeds = root.spawn(3)
        like = torch.empty(0, dtype=getattr(torch, self.dtype), device=self.device)
        hidden = hidden_layers(self.hidden_layer_sizes, self.activation)
        widths = (rows.X.shape[1], *hidden, self.n_features_out)
        start = FeatureMap.draw(widths, self.activation, np.random.default_rng(seeds[0]), linear_last=True)
        return GPLearner(
            rows,
            held_out,
            like,
            seeds[1],
            features=TorchFeatures(start, like),
            n_scales=self.n_features_out,
            minimum_noise=self.minimum_noise,
            batch_size=self.batch_size,
            n_inducing=self.n_inducing,
            bounded=self.bounded,
        )

    def _freeze(self, learner: GPLearner, course: TrainingCourse) -> FittedDKL:
        features = learner.frozen_features()
        assert features is not None, "the learner of DKL has a network"
        return FittedDKL(course, features, learner.frozen(), bool(self.bounded))

    def _step_work(self, n_rows: int, n_inputs: int) -> float:
        return gp_step_work(min(n_rows, self.batch_size or n_rows), self.n_inducing)
