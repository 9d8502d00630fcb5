"""Bayesian last layer with a prior of the latent derivative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdkn.errors import check_number
from bdkn_paper.baselines.bll import BLLRegressor
from bdkn_paper.baselines.plan import Plan, check_optional

if TYPE_CHECKING:
    from torch import Tensor

    from bdkn_paper.baselines.learners.derivatives import DerivativePrior
    from bdkn_paper.baselines.learners.features import TorchFeatures


@dataclass(kw_only=True, eq=False, repr=False)
class LDBLLRegressor(BLLRegressor):
    """Bayesian last layer with a prior of the derivative, for wider predictions where there are no rows.

    As ``BLLRegressor``, but the features are also learned under a prior of the latent derivative z(x) = ∂f/∂x. The loss
    per row is

        -log p(y | X)/n + β · mean over x of Σⱼ KL( N(0, γ) ‖ p(zⱼ | x, y) ),

    with x the training rows plus random noise. Under the posterior of the last layer z is Gaussian in closed form. The
    direction of the divergence favours a posterior that is at least as wide as the prior. The paper that proposed the
    method has no public code; where it gives no details, the choices are ours. β = 0 is ``BLLRegressor``. With few rows
    or many inputs intervals are too narrow, but less so than those of ``BLLRegressor``. Parameters and attributes that
    are not listed are those of ``BLLRegressor``.

    Parameters
    ----------
    beta : float or None, default=None
        Weight β of the prior relative to the log evidence per row; None is one over the number of rows.
    derivative_variance : float, default=0.01
        Variance γ of a derivative under the prior, in scaled units.
    jitter : float, default=0.1
        Standard deviation of the noise that is added to a row, in scaled units.
    derivative_rows : int or None, default=None
        Number of rows, drawn at random in each step, at which the derivative is computed; None is all. The time of a
        step grows with the number of rows times that of inputs; the memory is bounded.

    See Also
    --------
    BLLRegressor : The same without the prior of the derivative.

    References
    ----------
    J. Watson, J. A. Lin, P. Klink, J. Pajarinen and J. Peters, "Latent derivative Bayesian last layer networks", 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn_paper import LDBLLRegressor
    >>> X = np.linspace(-2, 2, 100)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=100)
    >>> model = LDBLLRegressor(epochs=50, random_state=0).fit(X, y)
    >>> mean, std = model.predict_derivative(X[:3])
    >>> mean.shape, std.shape
    ((3, 1), (3, 1))
    """

    beta: float | None = None
    derivative_variance: float = 0.01
    jitter: float = 0.1
    derivative_rows: int | None = None

    paper_name: ClassVar[str] = "ldbll"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        # Neither β nor γ is in either paper; its scores are those of learned noise and of a prior with a large weight.
        own = {"beta": 0.1, "derivative_variance": 1.0, "jitter": 0.1, "derivative_rows": None}
        return {**super()._paper_extras(setting), "noise": "learned", **own}

    def _plan(self) -> Plan:
        check_optional("beta", self.beta, low=0)
        check_number("derivative_variance", self.derivative_variance, low=0, strict=True)
        check_number("jitter", self.jitter, low=0)
        check_optional("derivative_rows", self.derivative_rows, low=1, whole=True)
        return super()._plan()

    def _penalty(self, features: TorchFeatures, X: Tensor, seed: np.random.SeedSequence) -> DerivativePrior | None:
        """Return the prior of the derivative, None if its weight is zero."""
        import torch

        from bdkn_paper.baselines.learners.derivatives import DerivativePrior

        beta = 1 / len(X) if self.beta is None else self.beta
        if not beta:
            return None
        generator = torch.Generator().manual_seed(int(seed.generate_state(1)[0]))
        variance, jitter, rows = self.derivative_variance, self.jitter, self.derivative_rows
        return DerivativePrior(features, X, beta, variance, jitter, rows, generator)
