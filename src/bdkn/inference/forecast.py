"""What members say about rows: one mean each, how noisy they take each row to be, and how far they disagree on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from bdkn.typing import FloatArray

_FIELDS = ("means", "noise", "disagreement")


@dataclass(frozen=True, eq=False)
class Forecast:
    """Means (n, H), the members' average noise variance (n,), and the variance among their means (n,)."""

    means: FloatArray
    noise: FloatArray
    disagreement: FloatArray

    @classmethod
    def of(cls, means: FloatArray, variances: FloatArray) -> Self:
        """Return the forecast of H members with means (.., n, H); leading axes are averaged over.

        ``variances`` (.., n, any) are of those members that have any.
        """
        lead = tuple(range(means.ndim - 2))
        return cls(means.mean(axis=lead), variances.mean(axis=(*lead, -1)), means.var(axis=-1).mean(axis=lead))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the forecast of the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS))

    @property
    def variance(self) -> FloatArray:
        """The predictive variance v of the equally weighted ensemble."""
        return self.noise + self.disagreement

    def __len__(self) -> int:
        return len(self.means)
