"""One standard distribution, moved and stretched row by row: what the Student-t and the Gaussian share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bdkn.errors import check_number
from bdkn.predictive.base import FloatArray, Predictive, Rows, check_location_scale, log_density, standardise

if TYPE_CHECKING:
    from collections.abc import Mapping

# Scoring a point mass as a very narrow distribution is exact in floating point and spares a second formula.
_NARROW = 1e-100


class LocationScale(Predictive):
    """The distributions of ``loc + scale * Z``, one a row, for one standard ``Z`` that a subclass writes down."""

    loc: FloatArray
    scale: FloatArray

    @abstractmethod
    def _standard_logpdf(self, z: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _standard_cdf(self, z: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _standard_ppf(self, q: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _standard_rvs(self, shape: tuple[int, int], generator: np.random.Generator) -> FloatArray: ...

    @abstractmethod
    def _narrow_crps(self, y: FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _fields(self) -> Mapping[str, FloatArray]: ...

    def __len__(self) -> int:
        return len(self.loc)

    def mean(self) -> FloatArray:
        """Return the centre of each row."""
        return self.loc

    def median(self) -> FloatArray:
        """Return the centre of each row: these distributions are symmetric."""
        return self.loc
