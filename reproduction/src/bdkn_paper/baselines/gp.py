"""Gaussian process regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdkn.data.rows import Rows
from bdkn.errors import check_flag
from bdkn.typing import FloatArray
from bdkn_paper.baselines.conditioned_gp import ConditionedGP, check_gp_parameters, gp_step_work
from bdkn_paper.baselines.fitted import FittedGP, TrainingCourse
from bdkn_paper.baselines.plan import Plan, check_optional
from bdkn_paper.baselines.torch_regressor import TorchRegressor

if TYPE_CHECKING:
    from bdkn_paper.baselines.learners.gp_learner import GPLearner


@dataclass(kw_only=True, eq=False, repr=False)
class GPRegressor(TorchRegressor):
    """Gaussian process with an RBF kernel and one length scale per input.

    y = f(x) + ε with f ~ GP(c, k), k(x, x') = s² exp(-½ Σⱼ (xⱼ - x'ⱼ)²/ℓⱼ²) and ε ~ N(0, σ²). The constant c, s², all
    ℓⱼ and σ² maximise the marginal likelihood. Adam stops when it hardly increases any more, or after ``epochs`` steps.
    Time grows with the cube of the number of rows, memory with its square. Parameters and attributes that are not
    listed are those of ``TorchRegressor``.

    Parameters
    ----------
    learning_rate : float, default=0.2
        Learning rate of Adam.
    epochs : int, default=1000
        Maximum number of steps, each on all rows.
    ard : bool, default=True
        Learn one length scale per input, or one for all inputs.
    initial_lengthscale : float or None, default=None
        Length scale of standardised inputs before training. None is the square root of the number of inputs, about the
        distance between rows: from a much shorter one nothing is learned, as all rows are then uncorrelated.
    tol : float or None, default=1e-05
        Stop when the mean loss of the last ``window`` steps is less than this fraction below that of the ``window``
        steps before; None runs all epochs.
    window : int, default=11
        Number of steps to average for ``tol``.
    n_inducing : int or None, default=None
        Number of inducing points of a variational approximation, which are learned with the other parameters. Time and
        memory then grow linearly with the number of rows, not with its cube and square. None is exact.
    minimum_noise : float, default=1e-06
        Lower bound of σ² in scaled units.
    dtype : {"float64", "float32"}, default="float64"
        Precision. Single precision halves the memory; with little noise the covariance may be numerically singular.

    Attributes
    ----------
    process_ : ConditionedGP
        The process in scaled units: rows, ``mean``, ``outputscale``, ``lengthscale`` and ``noise``.
    lengthscales_ : ndarray of shape (n_features,)
        ℓⱼ of each input in its own units.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006, chapters 2 and 5.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn_paper import GPRegressor
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = GPRegressor().fit(X, y)
    >>> bool(0.05 < model.noise_variance_**0.5 < 0.15)
    True
    """

    learning_rate: float = 0.2
    epochs: int = 1000
    ard: bool = True
    initial_lengthscale: float | None = None
    tol: float | None = 1e-5
    window: int = 11
    n_inducing: int | None = None
    minimum_noise: float = 1e-6
    dtype: str = "float64"

    packages: ClassVar[tuple[str, ...]] = ("torch", "gpytorch")
    paper_name: ClassVar[str] = "gp"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        # Setting 1 runs all 40 steps; the initial length scale and the minimum noise are GPyTorch's own.
        start = {"initial_lengthscale": float(np.log(2.0)), "minimum_noise": 1e-4}
        return {**start, "ard": False, "tol": None if setting == 1 else 1e-4, "window": 11}

    @property
    def process_(self) -> ConditionedGP:
        """The process in scaled units."""
        process: ConditionedGP = self._state.process
        return process

    @property
    def lengthscales_(self) -> FloatArray:
        """The length scale of each input, in its own units."""
        state: FittedGP = self._state
        return np.asarray(state.process.lengthscale * state.course.inputs.scale)

    def _plan(self) -> Plan:
        check_gp_parameters(self.minimum_noise, self.dtype, self.n_inducing)
        check_flag("ard", self.ard)
        check_optional("initial_lengthscale", self.initial_lengthscale, low=0, strict=True)
        return Plan(learning_rate=self.learning_rate, epochs=self.epochs, tol=self.tol, window=self.window)

    def _learner(self, rows: Rows, held_out: Rows | None, root: np.random.SeedSequence) -> GPLearner:
        import torch

        from bdkn_paper.baselines.learners.gp_learner import GPLearner

        n_inputs = rows.X.shape[1]
        return GPLearner(
            rows,
            held_out,
            torch.empty(0, dtype=getattr(torch, self.dtype), device=self.device),
            root,
            n_scales=n_inputs if self.ard else None,
            lengthscale=self.initial_lengthscale or n_inputs**0.5,
            minimum_noise=self.minimum_noise,
            n_inducing=self.n_inducing,
        )

    def _freeze(self, learner: GPLearner, course: TrainingCourse) -> FittedGP:
        return FittedGP(course, learner.frozen())

    def _step_work(self, n_rows: int, n_inputs: int) -> float:
        return gp_step_work(n_rows, self.n_inducing)
