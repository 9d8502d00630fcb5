"""Calibration: a 90 % interval should contain 90 % of the observations, and so at every level."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError, shown
from bdkn.metrics.rows import observed, row_weights
from bdkn.predictive import Predictive
from bdkn.typing import FloatArray

_LEVELS = np.linspace(0.05, 0.95, 19)


def pit(y: ArrayLike, dist: Predictive) -> FloatArray:
    """Return the probability integral transform ``F(y)`` of each row.

    Parameters
    ----------
    y : array-like (n,)
        Observed targets.
    dist : Predictive
        Predicted distributions of the n rows.

    Returns
    -------
    array (n,)
        Values of the distribution function, uniform on [0, 1] for a calibrated model.

    Examples
    --------
    >>> from bdkn.metrics import pit
    >>> from bdkn.predictive import Gaussian
    >>> print(pit([0.0, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0])).round(3))
    [0.5   0.841]
    """
    return dist.cdf(observed(y, dist))


def calibration_curve(
    y: ArrayLike, dist: Predictive, levels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the observed coverage of central intervals at several levels.

    Parameters
    ----------
    y : array-like (n,)
        Observed targets.
    dist : Predictive
        Predicted distributions of the n rows.
    levels : array-like (k,), optional
        Nominal coverages; 5 %, 10 %, …, 95 % by default.
    sample_weight : array-like (n,), optional
        Weights of the rows; equal by default.

    Returns
    -------
    nominal : array (k,)
        The levels.
    share : array (k,)
        The share of observations inside the central interval of each level.

    Examples
    --------
    >>> from bdkn.metrics import calibration_curve
    >>> from bdkn.predictive import Gaussian
    >>> nominal, share = calibration_curve([0.1, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0]), [0.5, 0.9])
    >>> print(nominal, share)
    [0.5 0.9] [0.5 1. ]
    """
    values, nominal = observed(y, dist)[:, None], check_levels(levels)
    lower, upper = dist.ppf((1 - nominal) / 2), dist.ppf((1 + nominal) / 2)
    inside = (lower <= values) & (values <= upper)
    return nominal, np.asarray(row_weights(sample_weight, len(dist)) @ inside)


def calibration_error(
    y: ArrayLike, dist: Predictive, levels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Return the mean absolute difference between nominal and observed coverage.

    Parameters
    ----------
    y : array-like (n,)
        Observed targets.
    dist : Predictive
        Predicted distributions of the n rows.
    levels : array-like (k,), optional
        Nominal coverages; 5 %, 10 %, …, 95 % by default.
    sample_weight : array-like (n,), optional
        Weights of the rows; equal by default.

    Returns
    -------
    float
        The error, from 0 to 1; smaller is better.

    Examples
    --------
    >>> from bdkn.metrics import calibration_error
    >>> from bdkn.predictive import Gaussian
    >>> round(calibration_error([0.1, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0]), [0.5, 0.9]), 3)
    0.05
    """
    nominal, share = calibration_curve(y, dist, levels, sample_weight)
    return float(np.mean(np.abs(share - nominal)))


def check_levels(levels: ArrayLike | None) -> FloatArray:
    """Return the nominal levels as a 1-D array, after checking that each is a probability."""
    nominal = _LEVELS.copy() if levels is None else read_numbers("levels", levels)
    if nominal.ndim != 1 or nominal.size == 0 or not np.all((nominal >= 0) & (nominal <= 1)):
        raise InvalidParameterError(f"levels must be a list of probabilities within [0, 1]; got {shown(levels)}")
    return nominal
