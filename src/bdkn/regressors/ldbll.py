"""Bayesian last layer with a prior of the latent derivative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bdkn.errors import check_number
from bdkn.regressors.bll import BLLRegressor


@dataclass(kw_only=True, eq=False, repr=False)
class LDBLLRegressor(BLLRegressor):
    """DOC"""

    beta: float = 0.01
    derivative_variance: float = 1.0
    jitter: float = 0.1
    derivative_rows: int | None = None

    paper_name: ClassVar[str] = "ldbll"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        return {**super()._paper_extras(setting), "noise": "learned"}

    def _penalty(self, features: Any, X: Any, seed: np.random.SeedSequence) -> Any:
        if not self.beta:
            return None
        import torch

        from bdkn.regressors.learners.derivatives import DerivativePrior

        generator = torch.Generator().manual_seed(int(seed.generate_state(1)[0]))
        return DerivativePrior(
            features, X, self.beta, self.derivative_variance, self.jitter, self.derivative_rows, generator
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("beta", self.beta, low=0)
        check_number("derivative_variance", self.derivative_variance, low=0, strict=True)
        check_number("jitter", self.jitter, low=0)
        if self.derivative_rows is not None:
            check_number("derivative_rows, if not None,", self.derivative_rows, low=1, whole=True)
