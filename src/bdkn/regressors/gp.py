"""Exact Gaussian process regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdkn.errors import check_number
from bdkn.members import TrainingRows
from bdkn.predictive import Gaussian, MultivariateT
from bdkn.regressors.process import Process, check_process, step_work
from bdkn.regressors.torch_regressor import TorchRegressor, Watched, check_flag
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from bdkn.regressors.learners.process import ProcessLearner


@dataclass(kw_only=True, eq=False, repr=False)
class GPRegressor(TorchRegressor):
    """Gaussian process with an RBF kernel, a length scale for each input, and all rows exactly.

    y = f(x) + ε with f ~ GP(c, k), k(x, x') = s² exp(-½ Σⱼ (xⱼ - x'ⱼ)²/ℓⱼ²) and ε ~ N(0, σ²). The constant c, s²,
    each ℓⱼ and σ² maximise the marginal likelihood, by Adam, until it hardly rises any more or ``epochs`` steps are
    taken. Time grows with the cube of the rows, memory with their square.

    Parameters
    ----------
    learning_rate : float, default=0.2
        Rate of Adam.
    epochs : int, default=1000
        Steps on all rows, at most.
    ard : bool, default=True
        Learn a length scale for each input, or one for all.
    initial_lengthscale : float or None, default=None
        Length scale of standardised inputs before training. None is the square root of their number, about how far
        rows are apart: from a much shorter one nothing is learned, for no two rows then seem to have to do with
        each other.
    tol : float or None, default=1e-05
        Stop once the mean loss of the last ``window`` steps is less than this share of itself below that of the
        ``window`` before; None runs all epochs.
    window : int, default=11
        Steps averaged for that.
    n_inducing : int or None, default=None
        Points, learned with the rest, through which alone predictions see the rows: a variational approximation for
        which time and memory grow with the rows, not with their cube and square. None is exact.
    minimum_noise : float, default=1e-06
        What σ² cannot fall below, in scaled units.
    dtype : {"float64", "float32"}, default="float64"
        Precision. Single precision halves the memory and may take what is not quite noise-free for singular.
    standardize_y : bool, default=True
        Train on targets of mean 0 and standard deviation 1. Inputs are always standardised.
    device : str, default="cpu"
        Where to compute, as PyTorch spells it, for example "cuda".
    n_jobs : int or None, default=None
        Threads PyTorch may use, -1 for all cores; None is one, or PyTorch's own number where a step is worth it. More
        may change the last digits.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the inducing points; without them nothing is random.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    process_ : Process
        The process in scaled units: rows, ``mean``, ``outputscale``, ``lengthscale`` and ``noise``.
    noise_ : float
        The noise variance σ² in squared units of the target.
    lengthscales_ : ndarray of shape (n_features,)
        Each ℓⱼ in the units of its input.
    loss_curve_ : ndarray
        Negative log marginal likelihood a row, in scaled units, before each step.
    n_iter_ : int
        Steps taken.
    n_features_in_ : int
        Columns of ``X``.
    feature_names_in_ : ndarray of str
        Their names, where ``X`` had names.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006, chapters 2 and 5.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import GPRegressor
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = GPRegressor().fit(X, y)
    >>> bool(0.05 < model.noise_**0.5 < 0.15)
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

    process_: Process = field(init=False)

    packages: ClassVar[tuple[str, ...]] = ("torch", "gpytorch")
    paper_name: ClassVar[str] = "gp"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        # Setting 1 runs all 40 steps; first length scale and least noise are GPyTorch's own.
        start = {"initial_lengthscale": float(np.log(2.0)), "minimum_noise": 1e-4}
        return {**start, "ard": False, "tol": None if setting == 1 else 1e-4, "window": 11}

    @property
    def noise_(self) -> float:
        """The noise variance in squared units of the target."""
        return self.process_.noise * self.targets_.squared

    @property
    def lengthscales_(self) -> FloatArray:
        """The length scale of each input, in its own units."""
        return np.asarray(self.process_.lengthscale * self.inputs_.scale)

    def _learned(self, rows: TrainingRows, root: np.random.SeedSequence, watched: Watched | None) -> dict[str, Any]:
        import torch

        from bdkn.regressors.learners.descent import Plan
        from bdkn.regressors.learners.process import ProcessLearner

        like = torch.empty(0, dtype=getattr(torch, self.dtype), device=self.device)
        n_scales = rows.X.shape[1] if self.ard else None
        learner = ProcessLearner(
            rows,
            None,
            like,
            root,
            n_scales=n_scales,
            lengthscale=self.initial_lengthscale or rows.X.shape[1] ** 0.5,
            minimum_noise=self.minimum_noise,
            n_inducing=self.n_inducing,
        )
        plan = Plan(learning_rate=self.learning_rate, epochs=self.epochs, tol=self.tol, window=self.window)
        curves = self._descend(learner, plan, then=watched and watched({}))
        return {"loss_curve_": np.array(curves.losses), **self._frozen(learner)}

    def _work(self, n_rows: int, n_inputs: int) -> float:
        return step_work(n_rows, self.n_inducing)

    def _frozen(self, learner: ProcessLearner) -> dict[str, Any]:
        return {"process_": learner.frozen()}

    def _scaled_predictive(self, X: FloatArray) -> Gaussian:
        return self.process_.predictive(X)

    def _scaled_joint(self, X: FloatArray) -> MultivariateT:
        return self.process_.joint(X)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_process(self.minimum_noise, self.dtype, self.n_inducing)
        check_flag("ard", self.ard)
        if self.initial_lengthscale is not None:
            check_number("initial_lengthscale, if not None,", self.initial_lengthscale, low=0, strict=True)
        check_number("window", self.window, low=1, whole=True)
        if self.tol is not None:
            check_number("tol, if not None,", self.tol, low=0)
