"""Checks of observed targets and weights, and the average over rows that every metric ends with."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError
from bdkn.predictive import Predictive
from bdkn.typing import FloatArray

_LARGE = 1e150
"""The square of a larger number, and the sum of many, may overflow."""


def observed(y: ArrayLike, dist: Predictive) -> FloatArray:
    """Return ``y`` as floats, after checking that there is one finite value for each predicted row."""
    values = read_numbers("y", y)
    if values.shape != (len(dist),):
        raise InvalidParameterError(
            f"y must hold one value for each of the {len(dist)} predicted rows; got shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise InvalidParameterError(f"y must be finite; {np.sum(~np.isfinite(values))} of {values.size} values are not")
    return values


def row_weights(sample_weight: ArrayLike | None, rows: int) -> FloatArray:
    """Return weights that sum to one over the rows, all equal where none were given."""
    weights = np.ones(rows) if sample_weight is None else read_numbers("sample_weight", sample_weight)
    least, most = weights.min(initial=np.inf), weights.max(initial=0.0)
    if weights.shape != (rows,) or not (least >= 0 and 0 < most < np.inf):
        with np.errstate(all="ignore"):
            raise InvalidParameterError(
                f"sample_weight must hold one weight >= 0 for each of {rows} rows, not all zero; "
                f"got shape {weights.shape} with sum {weights.sum():g}"
            )
    if not 1 / _LARGE < most < _LARGE:  # their sum may overflow, or have few digits
        weights = weights / most
    return np.asarray(weights / weights.sum())


def average(values: FloatArray, sample_weight: ArrayLike | None) -> float:
    """Return the weighted mean over rows; one infinite loss makes it infinite, a row without weight never counts."""
    weights = row_weights(sample_weight, len(values))
    counted = weights > 0
    if np.isposinf(values[counted]).any():
        return float("inf")
    mean, least, most = weights[counted] @ values[counted], values[counted].min(), values[counted].max()
    return float(np.clip(mean, least, most))  # weights that add up to a little more than one do not make it larger


def root_mean_square(errors: FloatArray, sample_weight: ArrayLike | None) -> float:
    """Return the root of the weighted mean of squares, also of errors whose squares leave the range of numbers."""
    size = np.abs(errors[np.isfinite(errors)]).max(initial=0.0)
    unit = size if size and not 1 / _LARGE < size < _LARGE else 1.0
    return float(unit * np.sqrt(average((errors / unit) ** 2, sample_weight)))
