"""The lowest NLL that predictions with constant variance can have.

With the same variance s² for every row, the mean NLL is ½ log(2πs²) + RMSE² / 2s². Its minimum, at s = RMSE, is
½ log(2πe RMSE²). The variance of the published BDKN is constant except for a share of about H/N, and its Student-t
distribution has N degrees of freedom, so the floor applies to it as well. Methods whose variance varies with the inputs
can be below it.
"""

from __future__ import annotations

from math import e, inf, log, pi

import numpy as np

from bdkn_paper.analysis.sample import Sample
from bdkn_paper.paper import UNIT, Printed

CONSTANT = 0.5 * log(2 * pi * e)
"""The floor at an RMSE of one."""

CONSTANT_VARIANCE = ("bdkn",)
"""Methods that cannot be below the floor."""


def floor(rmse: Sample) -> float:
    """Return the mean over splits of ½ log(2πe RMSE²)."""
    with np.errstate(divide="ignore"):
        return CONSTANT + float(np.mean(np.log(rmse.values)))


def printed_floor(mean: float, std: float) -> float:
    """Return the floor for splits whose RMSE has this mean and standard deviation, minus infinity for a mean of zero.

    The mean of log RMSE is ``log m − ½ log(1 + (sd/m)²)`` if RMSE is log-normal.
    """
    return CONSTANT + log(mean) - 0.5 * log(1 + (std / mean) ** 2) if mean > 0 else -inf


def shortfall(rmse: Printed, nll: Printed) -> float:
    """Return how far a printed NLL is below the floor, whatever the rounding of the printed digits; otherwise 0."""
    # The floor increases with the mean and decreases with the standard deviation.
    lowest = printed_floor(rmse.mean - UNIT / 2, rmse.std + UNIT / 2)
    return max(0.0, lowest - (nll.mean + UNIT / 2))
