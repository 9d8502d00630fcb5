"""Scores and calibration of predictive distributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError, shown
from bdkn.predictive import Predictive
from bdkn.typing import FloatArray

_LARGE = 1e150
"""Numbers are scaled down above this magnitude, as squares or sums of them may overflow."""

_LEVELS = np.linspace(0.05, 0.95, 19)
"""Default nominal coverages of calibration curves."""


def observed(y: ArrayLike, dist: Predictive) -> FloatArray:
    """Return ``y`` as floats; raise an error unless there is one finite target for each predicted row."""
    values = read_numbers("y", y)
    if values.shape != (len(dist),):
        raise InvalidParameterError(
            f"y must hold one value for each of the {len(dist)} predicted rows; got shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise InvalidParameterError(f"y must be finite; {np.sum(~np.isfinite(values))} of {values.size} values are not")
    return values


def row_weights(sample_weight: ArrayLike | None, rows: int) -> FloatArray:
    """Return the sample weights, divided by their sum; equal weights by default."""
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
    """Return the weighted mean over rows; infinite if any value with a positive weight is infinite."""
    weights = row_weights(sample_weight, len(values))
    counted = weights > 0
    if np.isposinf(values[counted]).any():
        return float("inf")
    mean, least, most = weights[counted] @ values[counted], values[counted].min(), values[counted].max()
    return float(np.clip(mean, least, most))  # by rounding, the weights may add up to a little more than one


def root_mean_square(errors: FloatArray, sample_weight: ArrayLike | None) -> float:
    """Return the root of the weighted mean of squared errors; correct even if squares overflow or underflow."""
    size = np.abs(errors[np.isfinite(errors)]).max(initial=0.0)
    unit = size if size and not 1 / _LARGE < size < _LARGE else 1.0
    return float(unit * np.sqrt(average((errors / unit) ** 2, sample_weight)))


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
    """Return the nominal coverages as a 1-D array; raise an error unless each is a probability."""
    nominal = _LEVELS.copy() if levels is None else read_numbers("levels", levels)
    if nominal.ndim != 1 or nominal.size == 0 or not np.all((nominal >= 0) & (nominal <= 1)):
        raise InvalidParameterError(f"levels must be a list of probabilities within [0, 1]; got {shown(levels)}")
    return nominal


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
    """Return the main metrics of predictions by name, as tables and reports show them.

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
