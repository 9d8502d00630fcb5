"""Scaling of inputs and targets.

Sums are accumulated in double precision over blocks of rows: a large table is never copied as a whole, and need not be
in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.blocks import CACHED_CELLS, rows_within
from bdkn.data.rows import BLOCK_ROWS, SAMPLED_ROWS, Rows, RowSource
from bdkn.errors import ExtremeTargetWarning, InvalidParameterError, warn_user
from bdkn.predictive.links import IDENTITY, Link
from bdkn.storage.fields import Positive, flags, floats, must, stored
from bdkn.typing import BoolArray, Float32Array, FloatArray

_NORMAL = 1.4826
"""Ratio of the standard deviation of a normal distribution to its median absolute deviation."""


_EXTREME = 1e6
"""Distance from the median, in robust standard deviations, above which a target causes a warning as extreme."""


def robust_scale(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the median of each column and its robust standard deviation, zero for a constant column.

    The robust standard deviation is 1.48 times the median absolute deviation from the median. If that is zero, as in a
    column of mostly zeros and a few ones, it is 1.48 times the median of the nonzero deviations.
    """
    with np.errstate(over="ignore"):
        centre = np.median(table / 2, axis=0) * 2  # halved, as the sum of two large numbers may overflow
        deviations = np.abs(table - centre)
    spread = np.median(deviations / 2, axis=0) * 2
    for column in np.flatnonzero(spread == 0):
        moved = deviations[deviations[:, column] > 0, column]
        spread[column] = np.median(moved / 2) * 2 if len(moved) else 0.0
    with np.errstate(over="ignore"):
        return np.asarray(centre), np.minimum(_NORMAL * spread, np.finfo(np.float64).max)


def warn_of_extreme_targets(y: FloatArray, counts: FloatArray | None) -> None:
    """Warn of targets very far from all others, which would determine the scale of all predictions."""
    counted = np.arange(len(y)) if counts is None else np.flatnonzero(counts)
    if not len(counted):
        return
    centre, spread = (float(part[0]) for part in robust_scale(y[counted, None]))
    with np.errstate(over="ignore"):
        extreme = counted[np.abs(y[counted] - centre) / _EXTREME > spread] if spread > 0 else counted[:0]
    if 0 < len(extreme) <= max(1, len(counted) // 100):
        named = ", ".join(f"y[{row}] = {y[row]:.6g}" for row in extreme[:5])
        warn_user(
            f"{len(extreme)} of {len(counted)} targets {'is' if len(extreme) == 1 else 'are'} extreme: {named}"
            f"{', ..' if len(extreme) > 5 else ''}; all others lie about {spread:.3g} around {centre:.3g}, which "
            "predictions cannot resolve beside such numbers: correct or drop these rows, or fit to a logarithm of y",
            ExtremeTargetWarning,
        )


LIMIT = 1e18
"""Limit to which scaled inputs are clipped; the square of a larger number could overflow in single precision."""

ROUNDINGS = 10
"""Maximum range of a column that counts as constant, relative to its values, in units of the machine epsilon."""

_LARGE = 1e150
"""Maximum standard deviation of targets whose square does not overflow; 1 / _LARGE is the minimum."""

OUTLIER_RATIO = 30.0
"""Ratio of the standard deviation of a column to its robust one above which the column has outliers."""

BEND = 8.0
"""Distance from the median, in robust standard deviations, beyond which outliers are compressed logarithmically."""


class Encoder(Protocol):
    """Interface of objects that convert table columns to inputs of networks; they are fitted and saved with a model."""

    @property
    def n_columns(self) -> int:
        """The number of columns of the table."""

    def check_rows(self, X: ArrayLike) -> NDArray[Any]:
        """Return the table as an array; raise if its rows cannot be encoded."""

    def transform(self, X: ArrayLike) -> Float32Array:
        """Return the inputs (n, n_inputs) of the rows of a table, finite, C-contiguous and in single precision."""


@stored
@dataclass(frozen=True)
class Standardizer:
    """Encoder of each column as (x - mean) / scale; the scale of a column that is constant up to rounding is 1.

    Outliers would increase the standard deviation until all other values become nearly equal. For columns with
    outliers, which ``outliers`` marks (None if there are none), mean and scale are the median and a robust standard
    deviation, and inputs beyond ``BEND`` are compressed logarithmically.
    """

    mean: Annotated[FloatArray, floats("p")]
    scale: Annotated[FloatArray, floats("p", above=0.0)]
    outliers: Annotated[BoolArray | None, flags("p")] = None

    @classmethod
    def fit(cls, rows: RowSource, *, robust: bool = True) -> Standardizer:
        """Fit the standardizer to the columns of ``rows``; with ``robust``, columns with outliers use robust scales."""
        low: Any = np.inf
        high: Any = -np.inf
        total, precision = 0.0, 0.0
        for part in rows.blocks(BLOCK_ROWS):
            table = np.asarray(part.X)
            low = np.minimum(low, table.min(axis=0).astype(np.float64))
            high = np.maximum(high, table.max(axis=0).astype(np.float64))
            total += float(len(part) if part.counts is None else part.counts.sum())
            precision = float(np.finfo(np.result_type(table.dtype, np.float32)).eps)
        peak = np.maximum(np.abs(low), np.abs(high))
        peak[peak == 0] = 1.0
        size = rows_within(CACHED_CELLS, len(low))

        def average(function: Callable[[FloatArray], FloatArray]) -> FloatArray:
            """Average a function of the scaled rows ``X / peak`` over all rows; the division prevents overflow."""
            sums = []
            for part in rows.blocks(size):
                shares = np.full(len(part), 1 / total) if part.counts is None else part.counts / total
                sums.append(shares @ function(part.X / peak))
            return np.asarray(sum(sums))

        mean = average(lambda x: x)
        scale = np.sqrt(average(lambda x: (x - mean) ** 2)) * peak
        constant = (high / peak - low / peak <= ROUNDINGS * precision) | (scale == 0)
        plain = cls(np.where(constant, low, mean * peak), np.where(constant, 1.0, scale))
        if not robust:
            return plain
        step, start, parts = max(1, len(rows) // SAMPLED_ROWS), 0, []
        for part in rows.blocks():  # every row whose number is a multiple of ``step``
            parts.append(np.asarray(part.X[-start % step :: step], dtype=np.float64))
            start += len(part)
        center, spread = robust_scale(np.concatenate(parts))
        has_outliers = ~constant & (spread > 0) & (plain.scale / OUTLIER_RATIO > spread)
        if not has_outliers.any():
            return plain
        return cls(
            np.where(has_outliers, center, plain.mean), np.where(has_outliers, spread, plain.scale), has_outliers
        )

    @property
    def n_columns(self) -> int:
        """The number of columns of the table."""
        return len(self.mean)

    def check_rows(self, X: ArrayLike) -> NDArray[Any]:
        """Return the table as an array; raise unless it has all columns and finite numbers."""
        table = np.asarray(X)
        if table.ndim != 2 or table.shape[1] != self.n_columns:
            raise InvalidParameterError(
                f"rows must be (n, {self.n_columns}), their columns in the order of the training rows; got shape "
                f"{table.shape}"
            )
        if not np.isfinite(table).all():
            raise InvalidParameterError("rows must be finite; they hold NaN or infinity: drop or impute such rows")
        return table

    def transform(self, X: ArrayLike) -> Float32Array:
        """Return the scaled rows, C-contiguous in single precision and finite for every finite input."""
        table = np.asarray(X)
        scaled, step = np.empty(table.shape, dtype=np.float32), rows_within(CACHED_CELLS, self.n_columns)
        for start in range(0, len(table), step):
            part = slice(start, start + step)
            with np.errstate(over="ignore"):
                inputs = table[part] - self.mean
                inputs /= self.scale
                if self.outliers is not None:
                    given = inputs[:, self.outliers]
                    size = np.abs(given)
                    tails = np.sign(given) * (BEND + np.log(np.maximum(size, BEND) / BEND))
                    inputs[:, self.outliers] = np.where(size > BEND, tails, given)
                scaled[part] = np.clip(inputs, -LIMIT, LIMIT, out=inputs)
        return scaled


_MAX_VALUES = 60
"""Maximum number of distinct values of a discrete target."""

_ROWS_PER_VALUE = 8
"""Minimum average number of rows for each value of a discrete target."""

_MIN_SHARE = 0.05
"""Minimum share of the rows with the same target for it to be a point mass, that is, to get its own probability."""

_MIN_ROWS = 20
"""Minimum number of rows with the same target for it to be a point mass."""


@stored
@dataclass(frozen=True, eq=False)
class TargetValues:
    """Frequent target values, such as the ratings 1 to 5, or zero among positive numbers.

    ``values`` (k,) ascend; ``shares`` (k,) are the shares of the training rows with each value. ``is_discrete`` is True
    if every target is one of the values; otherwise the other targets are spread over a range.
    """

    values: Annotated[FloatArray, floats("k")]
    shares: Annotated[FloatArray, floats("k", low=0.0)]
    is_discrete: bool

    def check(self) -> None:
        """Raise unless the values are in increasing order and the shares at most one."""
        must(bool((np.diff(self.values) > 0.0).all()), "values must be in increasing order")
        must(bool((self.shares <= 1.0).all()), "shares must not exceed one")

    def __len__(self) -> int:
        return len(self.values)


def find_values(y: FloatArray, counts: FloatArray | None = None) -> TargetValues | None:
    """Find the target values that many rows have, such as ratings or zeros; return None if there are none."""
    values, places = np.unique(y, return_inverse=True)
    if len(values) == 1:
        return None
    total = np.bincount(places, weights=counts)
    shares = total / total.sum()
    if len(values) <= min(_MAX_VALUES, len(y) / _ROWS_PER_VALUE):
        return TargetValues(values, shares, is_discrete=True)
    heavy = (shares >= _MIN_SHARE) & (np.bincount(places) >= _MIN_ROWS)
    return TargetValues(values[heavy], shares[heavy], is_discrete=False) if heavy.any() else None


@stored
@dataclass(frozen=True)
class TargetScaler:
    """Scaler of the target y to (g(y) - mean) / scale, where g is the ``link`` function, by default the identity.

    ``values`` are the values of a discrete target, or single values that many rows have (None: there are none).
    """

    mean: float = 0.0
    scale: Positive = 1.0
    link: Link = IDENTITY
    values: TargetValues | None = None

    @classmethod
    def fit(
        cls,
        y: FloatArray,
        counts: FloatArray | None = None,
        link: Link = IDENTITY,
        values: TargetValues | None = None,
    ) -> TargetScaler:
        """Fit the scaler to the targets ``y`` with the sample weights ``counts`` (None: all 1)."""
        linked = y if link == IDENTITY else link.forward(y)
        column = Standardizer.fit(Rows(linked[:, None], linked, counts), robust=False)
        return cls(float(column.mean[0]), float(column.scale[0]), link, values)

    @property
    def is_linear(self) -> bool:
        """True if the link is the identity and the target has no bounds."""
        return self.link == IDENTITY

    @property
    def squared(self) -> float:
        """The squared scale, which converts variances from scaled to target units; raise if it over- or underflows."""
        if not 1 / _LARGE <= self.scale <= _LARGE:
            raise InvalidParameterError(
                f"variances must be numbers, but the square of the targets' standard deviation, {self.scale:.3g}, "
                "overflows or underflows: use return_std, quantiles or intervals, or fit to targets in other units"
            )
        return self.scale**2

    def transform(self, y: FloatArray) -> FloatArray:
        """Convert targets y to scaled units, (g(y) - mean) / scale with the link function g."""
        return self.standardize(y if self.is_linear else self.link.forward(y))

    def standardize(self, linked: FloatArray) -> FloatArray:
        """Standardize targets that are already transformed by the link function: (linked - mean) / scale."""
        return (linked - self.mean) / self.scale

    def inverse(self, scaled: FloatArray) -> FloatArray:
        """Convert numbers in scaled units back to target units; the inverse of ``transform``."""
        # The inverse of a target on a bound may be beyond the bound by a rounding error.
        return np.clip(self.link.inverse(self.mean + self.scale * scaled), *self.link.support)

    def log_derivative(self, scaled: FloatArray) -> FloatArray:
        """Return the log derivative of ``transform``, which is added to log densities to convert their units."""
        slope = 0.0 if self.is_linear else self.link.log_derivative(self.inverse(scaled))
        return np.asarray(slope - np.log(self.scale))


def fit_targets(rows: Rows, link: Link, *, standardize_y: bool) -> TargetScaler:
    """Return a scaler fitted to the targets of ``rows``; without ``standardize_y`` it applies only the link."""
    values = find_values(rows.y, rows.counts)
    if standardize_y:
        return TargetScaler.fit(rows.y, rows.counts, link, values)
    return TargetScaler(0.0, 1.0, link, values)
