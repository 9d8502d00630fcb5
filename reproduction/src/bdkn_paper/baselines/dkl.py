"""Deep kernel learning: a Gaussian process on the features of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdkn.data.rows import Rows
from bdkn.errors import check_flag, check_number
from bdkn_paper.baselines.conditioned_gp import ConditionedGP, check_gp_parameters, gp_step_work
from bdkn_paper.baselines.feature_map import FeatureMap
from bdkn_paper.baselines.fitted import FittedDKL, TrainingCourse
from bdkn_paper.baselines.plan import Plan, check_optional
from bdkn_paper.baselines.torch_regressor import NetworkRegressor

if TYPE_CHECKING:
    from bdkn_paper.baselines.learners.gp_learner import GPLearner


@dataclass(kw_only=True, eq=False, repr=False)
class DKLRegressor(NetworkRegressor):
    """Deep kernel learning: a network with few outputs and a Gaussian process on them, trained together.

    y = f(φ(x; θ)) + ε with f ~ GP(c, k), k an RBF kernel with one length scale per feature, and ε ~ N(0, σ²). θ, c, the
    kernel and σ² maximise the marginal likelihood together. The marginal likelihood does not prevent θ from fitting
    noise, so training stops early by default. Time grows with the cube of the number of rows, memory with its square.
    The features are linear in the last hidden layer. Parameters and attributes that are not listed are those of
    ``NetworkRegressor`` and ``TorchRegressor``.

    Parameters
    ----------
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
    n_inducing : int or None, default=None
        Number of inducing points of a variational approximation, which are learned with the other parameters. Time and
        memory then grow linearly with the number of rows, not with its cube and square. None is exact.
    minimum_noise : float, default=1e-06
        Lower bound of σ² in scaled units.
    dtype : {"float64", "float32"}, default="float64"
        Precision. Single precision halves the memory; with little noise the covariance may be numerically singular.

    Attributes
    ----------
    features_ : FeatureMap
        The network, on scaled inputs.
    process_ : ConditionedGP
        The process on its features, in scaled units of the target.

    References
    ----------
    A. G. Wilson, Z. Hu, R. Salakhutdinov and E. P. Xing, "Deep kernel learning", 2016.
    S. W. Ober, C. E. Rasmussen and M. van der Wilk, "The promises and pitfalls of deep kernel learning", 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn_paper import DKLRegressor
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
    def features_(self) -> FeatureMap:
        """The network, on scaled inputs."""
        features: FeatureMap = self._state.features
        return features

    @property
    def process_(self) -> ConditionedGP:
        """The process on the features, in scaled units of the target."""
        process: ConditionedGP = self._state.process
        return process

    def _plan(self) -> Plan:
        check_number("n_features_out", self.n_features_out, low=1, whole=True)
        check_flag("bounded", self.bounded)
        check_gp_parameters(self.minimum_noise, self.dtype, self.n_inducing)
        check_optional("batch_size", self.batch_size, low=1, whole=True)
        return super()._plan()

    def _learner(self, rows: Rows, held_out: Rows | None, root: np.random.SeedSequence) -> GPLearner:
        import torch

        from bdkn_paper.baselines.learners.features import TorchFeatures
        from bdkn_paper.baselines.learners.gp_learner import GPLearner

        seeds = root.spawn(3)
        like = torch.empty(0, dtype=getattr(torch, self.dtype), device=self.device)
        widths = (rows.X.shape[1], *self._hidden(), self.n_features_out)
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
        return FittedDKL(course, learner.frozen(), features, bool(self.bounded))

    def _step_work(self, n_rows: int, n_inputs: int) -> float:
        return gp_step_work(min(n_rows, self.batch_size or n_rows), self.n_inducing)
