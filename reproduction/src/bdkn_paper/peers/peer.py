"""The interface of a peer: parameters, ``fit`` and ``predict_dist``."""

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

    Every peer has the parameters ``random_state`` and ``n_jobs``; the others are those of its library.
    """

    module: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    """Distributions whose versions can change a result, the library itself first."""

    @abstractmethod
    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Fit to the rows of ``X`` and their targets."""

    @abstractmethod
    def predict_dist(self, X: FloatArray) -> Predictive:
        """Return the predictive distribution of the library, one per row."""

    def library(self) -> Any:
        """Return the library's module."""
        try:
            return import_module(self.module)
        except ImportError as error:
            raise missing_extra(self.packages[0], "peers", "bdkn-paper") from error
