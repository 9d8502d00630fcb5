"""Base class of the predictions that fitted models make for some rows."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from bdkn.predictive import Predictive
from bdkn.typing import FloatArray


class Prediction(ABC):
    """The prediction of some rows: their distributions and, if it was made for all rows together, joint moments."""

    @property
    @abstractmethod
    def dist(self) -> Predictive:
        """Predictive distribution of the target of each row."""

    @abstractmethod
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean (n,) of each row, and the covariance (n, n) of all rows of a joint prediction."""

    @abstractmethod
    def draws(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Return draws (n, size) of a joint prediction; each column is one draw for all rows together."""

    def variances(self) -> dict[str, FloatArray]:
        """Return a dictionary of the components of the predictive variance; their sum is the variance of each row."""
        return {"variance": self.dist.var()}

    def quantiles(self, levels: FloatArray) -> FloatArray:
        """Return the quantiles (n, k) of the predicted targets at ``levels`` (k,)."""
        return self.dist.ppf(levels)

    def interval(self, coverage: float) -> FloatArray:
        """Return the limits (n, 2) of the central prediction interval of each row."""
        return np.stack(self.dist.interval(coverage), axis=1)

    def point_masses(self) -> tuple[FloatArray, FloatArray, Predictive | None]:
        """Return target values (k,) with point masses, their probabilities (n, k), and the distribution of the rest."""
        return np.empty(0), np.empty((len(self.dist), 0)), self.dist

    def pit(self, y: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Return the probability integral transform of each target, uniform if predictions are calibrated."""
        return self.dist.cdf(y)
