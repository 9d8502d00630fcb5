"""Checks of what a fit receives: targets and weights of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, column_or_1d

from bdkn.errors import ExtremeTargetWarning, InvalidParameterError, warn_user
from bdkn.members.robust_scale import robust_scale
from bdkn.rows import Rows
from bdkn.typing import FloatArray

_EXTREME = 1e6
"""A target is extreme if it is so many robust standard deviations away from the median."""


def check_targets_of_frame(y: ArrayLike) -> FloatArray:
    """Return the targets of the rows of a data frame; raise, naming the first row whose target is no number."""
    if np.asarray(y).dtype.kind in "mM":
        raise InvalidParameterError(
            "y must hold numbers; got dates or durations: subtract a date, and divide by a unit of time, such as "
            "pandas.Timedelta(days=1)"
        )
    try:
        targets: FloatArray = column_or_1d(
            check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", ensure_all_finite=False), warn=True
        )
    except ValueError as error:
        raise _no_number(y) or error from error
    wrong = np.flatnonzero(~np.isfinite(targets))
    if len(wrong):
        raise InvalidParameterError(
            f"y must hold a finite number for every row; {len(wrong)} of {len(targets)} are missing or infinite, the "
            f"first in row {wrong[0]}: leave out such rows, known = numpy.isfinite(y), fit(X[known], y[known])"
        )
    return targets


def _no_number(y: ArrayLike) -> InvalidParameterError | None:
    """Return the error that names the first target that is no number; None if there is none."""
    for row, value in enumerate(np.asarray(y, dtype=object).ravel()):
        try:
            float(value)
        except (TypeError, ValueError):
            return InvalidParameterError(
                f"y must hold numbers; row {row} is {value!r}: convert them, as with pandas.to_numeric, without "
                "separators of thousands and units"
            )
    return None


def check_single_output(y: ArrayLike) -> None:
    """Raise if there are several targets per row."""
    shape = np.asarray(y).shape
    if len(shape) > 1 and shape[1] != 1:
        raise InvalidParameterError(
            f"y must hold one target per row, shape (n_samples,); got shape {shape}: fit one regressor per target, "
            "for example with sklearn.multioutput.MultiOutputRegressor"
        )


def tell_extreme_targets(rows: Rows) -> None:
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
    counts: FloatArray = check_array(
        sample_weight, ensure_2d=False, allow_nd=True, dtype=np.float64, input_name="sample_weight"
    )
    if counts.shape != (n,):
        raise InvalidParameterError(f"sample_weight must hold one number per row, shape ({n},); got {counts.shape}")
    if counts.min() < 0:
        raise InvalidParameterError(f"sample_weight must be >= 0, as it counts rows; got {counts.min()}")
    with np.errstate(over="ignore"):
        total = counts.sum()
    if not np.isfinite(total):
        raise InvalidParameterError("sample_weight must have a finite sum, as it counts rows; divide it by its mean")
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
    targets: FloatArray = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
    return targets
