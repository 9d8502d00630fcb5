"""One standard distribution, moved and stretched row by row: what the Student-t and the Gaussian share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import InvalidParameterError, check_number
from bdkn.predictive.base import Predictive, check_location_scale, log_density, repeated, standardise
from bdkn.typing import FloatArray

_NARROW = 1e-100  # a scale this small beside the error is a point mass, and its square would leave the range of floats


class LocationScale(Predictive):
    """The distributions of ``loc + scale * Z``, one a row, with a symmetric standard ``Z`` that a subclass defines."""

    loc: FloatArray
    scale: FloatArray

    @abstractmethod
    def _standard_logpdf(self, z: FloatArray) -> FloatArray:
        """Return the log density of ``Z`` at ``z`` (n, k)."""

    @abstractmethod
    def _standard_cdf(self, z: FloatArray) -> FloatArray:
        """Return the distribution function of ``Z`` at ``z`` (n, k)."""

    @abstractmethod
    def _standard_ppf(self, q: FloatArray) -> FloatArray:
        """Return the quantiles of ``Z`` at the levels ``q`` (k,), in a shape that broadcasts to (n, k)."""

    @abstractmethod
    def _standard_rvs(self, shape: tuple[int, int], generator: np.random.Generator) -> FloatArray:
        """Return draws of ``Z`` in the shape (n, size)."""

    @abstractmethod
    def _positive_crps(self, y: FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray:
        """Return the score at ``y`` (n, k) for a ``scale`` (n, k) above zero."""

    def __len__(self) -> int:
        return len(self.loc)

    def mean(self) -> FloatArray:
        """Return ``loc``, the centre of each row, whether or not the first moment exists."""
        return self.loc.copy()

    def median(self) -> FloatArray:
        """Return ``loc``: these distributions are symmetric."""
        return self.loc.copy()

    def affine(self, scale: float, shift: float) -> Self:
        """Return the distribution of ``scale * Y + shift``, for ``scale > 0``."""
        check_number("scale", scale, low=0.0, strict=True)
        moved = {"loc": scale * self.loc + shift, "scale": scale * self.scale}
        return replace(self, **moved)

    def _store(self, **parameters: ArrayLike) -> None:
        """Set the parameters as float arrays of one length n, the length of ``loc``."""
        rows = np.shape(parameters["loc"])
        for name, value in parameters.items():
            array = np.asarray(value, dtype=np.float64)
            if len(rows) != 1 or array.shape not in ((), rows):
                shapes = ", ".join(f"{name} {np.shape(value)}" for name, value in parameters.items())
                raise InvalidParameterError(f"loc must be 1-D and the rest numbers or of its length; got {shapes}")
            self.__dict__[name] = array if array.shape == rows else repeated(array, rows)
        check_location_scale(self.loc, self.scale)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        loc, scale = self.loc[:, None], self.scale[:, None]
        return log_density(self._standard_logpdf(standardise(y, loc, scale)), y, loc, scale)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._standard_cdf(standardise(y, self.loc[:, None], self.scale[:, None]))

    def _ppf(self, q: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):  # the far ends of a point mass: 0 * inf
            quantiles = self.loc[:, None] + self.scale[:, None] * self._standard_ppf(q)
        return np.where(self.scale[:, None] > 0, quantiles, self.loc[:, None])

    def _rvs(self, size: int, generator: np.random.Generator) -> FloatArray:
        draws = self._standard_rvs((len(self), size), generator)
        return self.loc[:, None] + self.scale[:, None] * draws

    def _crps(self, y: FloatArray) -> FloatArray:
        loc, error = self.loc[:, None], np.abs(y - self.loc[:, None])
        wide = self.scale[:, None] > _NARROW * error
        return np.where(wide, self._positive_crps(y, loc, np.where(wide, self.scale[:, None], 1.0)), error)
