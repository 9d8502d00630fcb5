"""Values that many targets share: all values of a discrete target, or single values such as zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from bdkn.storage.fields import floats, must, stored
from bdkn.typing import FloatArray

_MAX_VALUES = 60
"""Maximum number of distinct values of a discrete target."""

_ROWS_PER_VALUE = 8
"""Minimum average number of rows for each value of a discrete target."""

_MIN_SHARE = 0.05
"""Minimum share of the rows for a single value to be a point mass."""

_MIN_ROWS = 20
"""Minimum number of rows of a point mass."""


@stored
@dataclass(frozen=True, eq=False)
class TargetValues:
    """Values that many targets share.

    Parameters
    ----------
    values : array (k,)
        The values, ascending.
    shares : array (k,)
        The share of the training rows with each value.
    is_lattice : bool
        Whether the target is discrete, that is, all targets have one of the values; otherwise the other targets are
        spread over a range.
    """

    values: Annotated[FloatArray, floats("k")]
    shares: Annotated[FloatArray, floats("k", low=0.0)]
    is_lattice: bool

    def check(self) -> None:
        """Raise unless the values are in order and the shares at most one."""
        must(bool((np.diff(self.values) > 0.0).all()), "values must be in increasing order")
        must(bool((self.shares <= 1.0).all()), "shares must not exceed one")

    def __len__(self) -> int:
        return len(self.values)


def find_values(y: FloatArray, counts: FloatArray | None = None) -> TargetValues | None:
    """Return the values that many targets share, None if there are none."""
    values, places = np.unique(y, return_inverse=True)
    if len(values) == 1:
        return None
    total = np.bincount(places, weights=counts)
    shares = total / total.sum()
    if len(values) <= min(_MAX_VALUES, len(y) / _ROWS_PER_VALUE):
        return TargetValues(values, shares, is_lattice=True)
    heavy = (shares >= _MIN_SHARE) & (np.bincount(places) >= _MIN_ROWS)
    return TargetValues(values[heavy], shares[heavy], is_lattice=False) if heavy.any() else None
