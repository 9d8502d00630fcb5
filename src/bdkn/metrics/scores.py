"""Scores of predictions, the coverage and width of intervals, and all of them together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bdkn.metrics.calibration import calibration_error
from bdkn.metrics.rows import average, observed, root_mean_square
from bdkn.predictive import Predictive


def rmse(y: ArrayLike, dist: Predictive, sample_weight: ArrayLike | None = None) -> float:
    """Return the root mean squared error of the predicted mean.

    Parameters
    ----------
    y : array-like (n,)
        Observed targets.
    dist : Predictive
        Predicted distributions of the n rows.
    sample_weight : array-like (n,), optional
        Weights of the rows; equal by default.

    Returns
    -------
    float
        The error in the units of ``y``; smaller is better.

    Examples
    --------
    >>> from bdkn.metrics import rmse
    >>> from bdkn.predictive import Gaussian
    >>> rmse([1.0, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0]))
    1.0
    """
    with np.errstate(over="ignore"):  # an error may be larger than any number
        errors = observed(y, dist) - dist.mean()
    return root_mean_square(errors, sample_weight)


def nll(y: ArrayLike, dist: Predictive, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean negative log predictive density.

    Parameters
    ----------
    y : array-like (n,)
        Observed targets.
    dist : Predictive
        Predicted distributions of the n rows.
    sample_weight : array-like (n,), optional
        Weights of the rows; equal by default.

    Returns
    -------
    float
        The score in nats per row; smaller is better.

    Examples
    --------
    >>> from bdkn.metrics import nll
    >>> from bdkn.predictive import Gaussian
    >>> round(nll([1.0, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0])), 3)
    1.419
    """
    return average(-dist.logpdf(observed(y, dist)), sample_weight)


def crps(y: ArrayLike, dist: Predictive, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean continuous ranked probability score.

    Parameters
    ----------
    y : array-like (n,)
        Observed targets.
    dist : Predictive
        Predicted distributions of the n rows.
    sample_weight : array-like (n,), optional
        Weights of the rows; equal by default.

    Returns
    -------
    float
        The score in the units of ``y``; smaller is better.

    Examples
    --------
    >>> from bdkn.metrics import crps
    >>> from bdkn.predictive import Gaussian
    >>> round(crps([1.0, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0])), 3)
    0.602
    """
    return average(dist.crps(observed(y, dist)), sample_weight)


def coverage(y: ArrayLike, dist: Predictive, level: float = 0.9, sample_weight: ArrayLike | None = None) -> float:
    """Return the share of observations inside their central interval.

    Parameters
    ----------
    y : array-like (n,)
        Observed targets.
    dist : Predictive
        Predicted distributions of the n rows.
    level : float, default=0.9
        Nominal coverage: the probability of the interval.
    sample_weight : array-like (n,), optional
        Weights of the rows; equal by default.

    Returns
    -------
    float
        The observed coverage, from 0 to 1. It should be near ``level``.

    Examples
    --------
    >>> from bdkn.metrics import coverage
    >>> from bdkn.predictive import Gaussian
    >>> coverage([1.0, 5.0], Gaussian([0.0, 2.0], [1.0, 1.0]), level=0.9)
    0.5
    """
    values, (lower, upper) = observed(y, dist), dist.interval(level)
    inside = (lower <= values) & (values <= upper)
    return average(inside.astype(np.float64), sample_weight)


def interval_width(dist: Predictive, level: float = 0.9, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean width of the central intervals.

    Parameters
    ----------
    dist : Predictive
        Predicted distributions of the n rows.
    level : float, default=0.9
        Nominal coverage: the probability of the interval.
    sample_weight : array-like (n,), optional
        Weights of the rows; equal by default.

    Returns
    -------
    float
        The width in the units of the target.

    Examples
    --------
    >>> from bdkn.metrics import interval_width
    >>> from bdkn.predictive import Gaussian
    >>> round(interval_width(Gaussian([0.0, 2.0], [1.0, 1.0])), 3)
    3.29
    """
    lower, upper = dist.interval(level)
    return average(upper - lower, sample_weight)


def summary(
    y: ArrayLike, dist: Predictive, level: float = 0.9, sample_weight: ArrayLike | None = None
) -> dict[str, float]:
    """Return the metrics that tables and reports show.

    Parameters
    ----------
    y : array-like (n,)
        Observed targets.
    dist : Predictive
        Predicted distributions of the n rows.
    level : float, default=0.9
        Nominal coverage of the intervals.
    sample_weight : array-like (n,), optional
        Weights of the rows; equal by default.

    Returns
    -------
    dict of str to float
        ``rmse``, ``nll``, ``crps``, ``coverage``, ``interval_width`` and ``calibration_error``.

    Examples
    --------
    >>> from bdkn.metrics import summary
    >>> from bdkn.predictive import Gaussian
    >>> for name, value in summary([1.0, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0])).items():
    ...     print(name, round(value, 3))
    rmse 1.0
    nll 1.419
    crps 0.602
    coverage 1.0
    interval_width 3.29
    calibration_error 0.295
    """
    return {
        "rmse": rmse(y, dist, sample_weight),
        "nll": nll(y, dist, sample_weight),
        "crps": crps(y, dist, sample_weight),
        "coverage": coverage(y, dist, level, sample_weight),
        "interval_width": interval_width(dist, level, sample_weight),
        "calibration_error": calibration_error(y, dist, sample_weight=sample_weight),
    }
