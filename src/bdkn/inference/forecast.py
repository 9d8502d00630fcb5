"""What members predict for rows, which the Bayesian linear model combines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from bdkn.inference.outside import Outside
from bdkn.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Forecast:
    """What the members predict for rows.

    Parameters
    ----------
    means : array (n, H)
        Mean of each member.
    noise : array (n,)
        Noise variance, averaged over the members.
    disagreement : array (n,)
        Variance among the members' means.
    fold_variance : array (n, H), optional
        Variance, over folds, of the means that each member's fits predict; None if each member is a single fit.
    outside : Outside, optional
        What rows far from the training rows have in addition; None adds nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Forecast
    >>> forecast = Forecast.of(np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([[0.1, 0.3], [0.2, 0.2]]))
    >>> print(forecast.noise, forecast.disagreement, forecast.variance)
    [0.2 0.2] [1. 0.] [1.2 0.2]
    """

    means: FloatArray
    noise: FloatArray
    disagreement: FloatArray
    fold_variance: FloatArray | None = None
    outside: Outside | None = None

    @classmethod
    def of(cls, means: FloatArray, variances: FloatArray) -> Self:
        """Return the forecast of H members with means (.., n, H); leading axes are averaged over.

        ``variances`` (.., n, any) are of those members that have any.
        """
        lead = tuple(range(means.ndim - 2))
        apart, by_fold = means.var(axis=-1).mean(axis=lead), means.var(axis=lead) if lead else None
        return cls(means.mean(axis=lead), variances.mean(axis=(*lead, -1)), apart, by_fold)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the forecast of the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        means, noise, apart = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("means", "noise", "disagreement")
        )
        by_fold = [part.fold_variance for part in parts if part.fold_variance is not None]
        return cls(means, noise, apart, np.concatenate(by_fold) if by_fold else None)

    @property
    def variance(self) -> FloatArray:
        """The predictive variance v of the equally weighted ensemble."""
        return self.noise + self.disagreement

    def __len__(self) -> int:
        return len(self.means)
