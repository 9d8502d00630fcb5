"""What a peer is to the benchmark: parameters, a fit, and a predictive distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from bdkn.errors import missing_extra
from bdkn.predictive import Predictive
from bdkn.typing import FloatArray


class Peer(BaseEstimator, ABC):  # type: ignore[misc]
    """A regressor of another library, which is imported when it is first used.

    Each takes ``random_state`` and ``n_jobs`` besides parameters of its own, which are its library's.
    """

    module: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    """What to install, first the library itself, then those beneath it that decide a result."""

    @abstractmethod
    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Fit to the rows of ``X`` and their targets."""

    @abstractmethod
    def predict_dist(self, X: FloatArray) -> Predictive:
        """Return what the library itself calls its predictive distribution, one a row."""

    def library(self) -> Any:
        """Return the library's module."""
        try:
            return import_module(self.module)
        except ImportError as error:
            raise missing_extra(self.packages[0], "peers", "bdkn-paper") from error
