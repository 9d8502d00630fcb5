"""Checks of what a fit receives: targets and weights of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from bdkn.arrays import check_readable, read_numbers
from bdkn.data.reading import column_names, is_frame
from bdkn.data.rows import Rows
from bdkn.data.scaling import robust_scale
from bdkn.errors import ExtremeTargetWarning, InvalidParameterError, warn_user
from bdkn.metrics.scores import row_weights
from bdkn.typing import FloatArray

_EXTREME = 1e6
"""A target is extreme if it is so many robust standard deviations away from the median."""

LARGEST_TARGET = 1e305
"""Targets are at most so large: intervals around larger ones would end beyond the largest number."""

_LEAST_COUNTED, _MOST_COUNTED = 1e-6, 1e15
"""Sums of weights, as numbers of rows, within which the sums of a fit keep their digits."""

_SQUARED = 1e120
"""Sums of squares of larger numbers may overflow, and those of their inverses underflow."""


def check_targets_of_frame(y: ArrayLike) -> FloatArray:
    """Return the targets of the rows of a data frame; raise, naming the first row whose target is no number."""
    check_not_none(y)
    targets: FloatArray = column_or_1d(read_numbers("y", y), warn=True)
    wrong = np.flatnonzero(~np.isfinite(targets))
    if len(wrong):
        raise InvalidParameterError(
            f"y must hold a finite number for every row; {len(wrong)} of {len(targets)} are missing or infinite, the "
            f"first in row {wrong[0]}: leave out such rows, known = numpy.isfinite(y), fit(X[known], y[known])"
        )
    return targets


def check_not_none(y: ArrayLike | None) -> ArrayLike:
    """Return the targets; raise if there are none at all."""
    if y is None:
        raise InvalidParameterError("this regressor requires y to be passed, but the target y is None")
    return y


def check_plain_table(X: Any) -> None:
    """Raise if a table, which is not encoded, has values that would be taken for other numbers, or equal names."""
    check_readable("X", X)
    if hasattr(X, "columns") and is_frame(X):
        column_names(X)


def check_single_output(y: ArrayLike) -> None:
    """Raise if there are several targets per row."""
    check_readable("y", y)
    shape = np.asarray(y).shape
    if len(shape) > 1 and shape[1] != 1:
        raise InvalidParameterError(
            f"y must hold one target per row, shape (n_samples,); got shape {shape}: fit one regressor per target, "
            "for example with sklearn.multioutput.MultiOutputRegressor"
        )


def warn_of_extreme_targets(rows: Rows) -> None:
    """Warn of targets that are so far from all others that they determine the scale of all predictions."""
    counted = np.arange(len(rows)) if rows.counts is None else np.flatnonzero(rows.counts)
    if not len(counted):
        return
    centre, spread = (float(part[0]) for part in robust_scale(rows.y[counted, None]))
    with np.errstate(over="ignore"):
        extreme = counted[np.abs(rows.y[counted] - centre) / _EXTREME > spread] if spread > 0 else counted[:0]
    if 0 < len(extreme) <= max(1, len(counted) // 100):
        named = ", ".join(f"y[{row}] = {rows.y[row]:.6g}" for row in extreme[:5])
        warn_user(
            f"{len(extreme)} of {len(counted)} targets {'is' if len(extreme) == 1 else 'are'} extreme: {named}"
            f"{', ..' if len(extreme) > 5 else ''}; all others lie about {spread:.3g} around {centre:.3g}, which "
            "predictions cannot resolve beside such numbers: correct or drop these rows, or fit to a logarithm of y",
            ExtremeTargetWarning,
        )


def check_counts(sample_weight: ArrayLike, n: int) -> FloatArray:
    """Return how many times each of n rows is counted; raise unless these are such numbers."""
    if isinstance(sample_weight, str):
        raise InvalidParameterError(
            f"sample_weight must hold one number per row, shape ({n},); got {sample_weight!r}: if this is a column, "
            f"X[{sample_weight!r}]"
        )
    given = read_numbers("sample_weight", sample_weight)
    with np.errstate(over="ignore", invalid="ignore"):
        counts: FloatArray = check_array(given, ensure_2d=False, allow_nd=True, input_name="sample_weight")
    if counts.shape != (n,):
        raise InvalidParameterError(f"sample_weight must hold one number per row, shape ({n},); got {counts.shape}")
    if counts.min() < 0:
        raise InvalidParameterError(f"sample_weight must be >= 0, as it counts rows; got {counts.min()}")
    with np.errstate(over="ignore"):
        total = counts.sum()
    if total > _MOST_COUNTED:
        raise InvalidParameterError(
            f"sample_weight must have a finite sum of at most {_MOST_COUNTED:g}, as it counts rows; got "
            f"{total:g}: divide it by its mean"
        )
    if 0 < total < _LEAST_COUNTED:
        raise InvalidParameterError(
            f"sample_weight counts rows: these {n} rows count as {total:.3g}, from which nothing can be learned; if "
            f"the weights are relative, divide them by their largest, {counts.max():.3g}, then by their mean"
        )
    if 0 < total < n / 10:
        warn_user(
            f"sample_weight counts rows: these {n} rows count as {total:.3g}, so predictions will be very uncertain; "
            f"if the weights are relative, multiply them by {n}/sum(sample_weight)",
            UserWarning,
        )
    if not total:
        raise InvalidParameterError("Sample weights must contain at least one non-zero number; got only zeros")
    return counts


def check_targets(y: ArrayLike) -> FloatArray:
    """Return the targets in double precision; raise unless they are one finite number per row."""
    check_not_none(y)
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums all numbers first, to see if one is nan
        targets: FloatArray = column_or_1d(check_array(read_numbers("y", y), ensure_2d=False, input_name="y"))
    return targets


def check_size(y: FloatArray) -> None:
    """Raise if a target is so large that predictions around it would be larger than any number."""
    peak = np.abs(y).max(initial=0.0)
    if peak > LARGEST_TARGET:
        row = int(np.argmax(np.abs(y)))
        example = f", as y / {peak:.0e}" if np.isfinite(peak) else ""
        raise InvalidParameterError(
            f"y must be within ±{LARGEST_TARGET:g}; row {row} is {y[row]:g}: fit to targets in other units{example}"
        )


def r2(y: FloatArray, mean: FloatArray, sample_weight: ArrayLike | None) -> float:
    """Return R² of predicted means, also of numbers whose squares leave the range of double precision."""
    from sklearn.metrics import r2_score

    check_consistent_length(y, mean)
    weights = None if sample_weight is None else row_weights(sample_weight, len(y)) * len(y)
    peak = max(float(np.abs(y).max()), float(np.abs(mean).max()))
    unit = 1.0 if 1 / _SQUARED < peak < _SQUARED or not peak else peak
    return float(r2_score(y / unit, mean / unit, sample_weight=weights))
