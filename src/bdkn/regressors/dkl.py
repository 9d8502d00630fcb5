"""Deep kernel learning: a Gaussian process on the features of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdkn.errors import check_number
from bdkn.members import TrainingRows
from bdkn.networks import FeatureMap
from bdkn.predictive import Gaussian, MultivariateT
from bdkn.regressors.process import BOUND, Process, check_process, step_work
from bdkn.regressors.torch_regressor import TorchNetworkRegressor, check_flag
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from bdkn.regressors.learners.process import ProcessLearner


@dataclass(kw_only=True, eq=False, repr=False)
class DKLRegressor(TorchNetworkRegressor):
    """Deep kernel learning: a network to a few features, an exact Gaussian process on them, trained as one.

    y = f(φ(x; θ)) + ε with f ~ GP(c, k), k an RBF kernel with a length scale for each feature, and ε ~ N(0, σ²). All of
    θ, c, the kernel and σ² maximise the marginal likelihood together. It does not keep θ from fitting noise; rows held
    out say when to stop. Time grows with the cube of the rows, memory with their square.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50, 50)
        Units of each hidden layer of the network.
    activation : {"relu", "leaky_relu", "tanh", "silu"}, default="relu"
        Activation of the hidden layers; the features themselves are linear in the last of them.
    n_features_out : int, default=2
        Features the process is on.
    bounded : bool, default=False
        Move and stretch each input so that the training rows fill [-1, 1], and the features, all alike, so that theirs
        fill [-0.95, 0.95], as GPyTorch's tutorial does; features of new rows beyond count as at the edge. The length
        scales then start where they will be needed, and the network cannot stretch a feature for ever; but far from
        the training rows predictions are as sure as at the edge.
    batch_size : int or None, default=None
        Rows a step, whose marginal likelihood is taken as if there were no others; None takes all rows at once.
        Predictions are given all rows either way.
    n_inducing : int or None, default=None
        Points, learned with the rest, through which alone predictions see the rows: a variational approximation for
        which time and memory grow with the rows, not with their cube and square. None is exact.
    minimum_noise : float, default=1e-06
        What σ² cannot fall below, in scaled units.
    dtype : {"float64", "float32"}, default="float64"
        Precision. Single precision halves the memory and may take what is not quite noise-free for singular.
    learning_rate : float, default=0.01
        Rate of Adam.
    epochs : int, default=1000
        Passes over the rows, at most; without batches these are steps.
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
        The network, on scaled inputs.
    process_ : Process
        The process on its features, in scaled units of the target.
    noise_ : float
        The noise variance σ² in squared units of the target.
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

    n_features_out: int = 2
    bounded: bool = False
    batch_size: int | None = None
    n_inducing: int | None = None
    minimum_noise: float = 1e-6
    dtype: str = "float64"

    features_: FeatureMap = field(init=False)
    process_: Process = field(init=False)

    packages: ClassVar[tuple[str, ...]] = ("torch", "gpytorch")
    paper_name: ClassVar[str] = "dkl"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        # The noise levels behind the paper's scores have moved by so many steps, not by so many batches an epoch, and
        # are the same on every set in the units of its target.
        return {
            "activation": "relu",
            "n_features_out": 2,
            "batch_size": None,
            "minimum_noise": 1e-4,
            "early_stopping": False,
            "standardize_y": False,
        }

    @property
    def noise_(self) -> float:
        """The noise variance in squared units of the target."""
        return self.process_.noise * self.targets_.squared

    def _learner(
        self, rows: TrainingRows, held_out: TrainingRows | None, seeds: Sequence[np.random.SeedSequence]
    ) -> ProcessLearner:
        import torch

        from bdkn.regressors.learners.features import TorchFeatures
        from bdkn.regressors.learners.process import ProcessLearner

        like = torch.empty(0, dtype=getattr(torch, self.dtype), device=self.device)
        return ProcessLearner(
            rows,
            held_out,
            like,
            seeds[1],
            features=TorchFeatures(self._start(rows.X.shape[1], seeds[0]), like),
            n_scales=self.n_features_out,
            minimum_noise=self.minimum_noise,
            batch_size=self.batch_size,
            n_inducing=self.n_inducing,
            bounded=self.bounded,
        )

    def _start(self, n_inputs: int, seed: np.random.SeedSequence) -> FeatureMap:
        widths = (n_inputs, *self._hidden, self.n_features_out)
        return FeatureMap.draw(widths, self.activation, np.random.default_rng(seed), linear_last=True)

    def _work(self, n_rows: int, n_inputs: int) -> float:
        return step_work(min(n_rows, self.batch_size or n_rows), self.n_inducing)

    def _frozen(self, learner: ProcessLearner) -> dict[str, Any]:
        return {"features_": learner.frozen_features(), "process_": learner.frozen()}

    def _scaled_predictive(self, X: FloatArray) -> Gaussian:
        return self.process_.predictive(self._features(X))

    def _scaled_joint(self, X: FloatArray) -> MultivariateT:
        return self.process_.joint(self._features(X))

    def _features(self, X: FloatArray) -> FloatArray:
        z = self.features_(X)
        return np.clip(z, -BOUND, BOUND) if self.bounded else z

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("n_features_out", self.n_features_out, low=1, whole=True)
        check_flag("bounded", self.bounded)
        check_process(self.minimum_noise, self.dtype, self.n_inducing)
        if self.batch_size is not None:
            check_number("batch_size, if not None,", self.batch_size, low=1, whole=True)
