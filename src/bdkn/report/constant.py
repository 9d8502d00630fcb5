"""The baseline that sees no inputs: whoever cannot beat it has learnt nothing."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.predictive import Gaussian


class ConstantGaussian:
    """Predicts for every row the Gaussian with the mean and standard deviation of the training targets."""

    mean_: float
    std_: float

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn mean and standard deviation of ``y``; ``X`` is not looked at."""
        targets = np.asarray(y, dtype=np.float64)
        self.mean_, self.std_ = float(targets.mean()), float(targets.std())
        return self

    def predict_dist(self, X: Any) -> Gaussian:
        """Return the same Gaussian for each row of ``X``."""
        return Gaussian(np.full(len(X), self.mean_), self.std_)

    def __repr__(self) -> str:
        return "ConstantGaussian()"
