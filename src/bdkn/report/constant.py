"""A model without inputs, to compare with: a model that is not better has learned nothing."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.arrays import read_numbers
from bdkn.predictive import Gaussian


class ConstantGaussian:
    """Regressor that predicts the same Gaussian for every row: mean and standard deviation of the training targets."""

    mean_: float
    std_: float

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Compute the mean and the standard deviation of ``y``; ``X`` is ignored."""
        targets = read_numbers("y", y)
        self.mean_, self.std_ = float(targets.mean()), float(targets.std())
        return self

    def predict_dist(self, X: Any) -> Gaussian:
        """Return the same Gaussian for each row of ``X``."""
        return Gaussian(np.full(len(X), self.mean_), self.std_)

    def __repr__(self) -> str:
        return "ConstantGaussian()"
