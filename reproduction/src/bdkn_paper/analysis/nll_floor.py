"""The NLL below which no prediction of constant variance can lie.

With the variance s² on every row the mean NLL is ½ log(2πs²) + RMSE² / 2s², least at s = RMSE: ½ log(2πe RMSE²). BDKN's
variance is constant but for a share of about H/N, and its Student-t has N degrees of freedom, so the floor is BDKN's
too; methods whose variance varies with the inputs may lie below it.
"""

from __future__ import annotations

from math import e, inf, log, pi

import numpy as np

from bdkn_paper.analysis.sample import Sample
from bdkn_paper.paper import UNIT, Printed

CONSTANT = 0.5 * log(2 * pi * e)
"""The floor at an RMSE of one."""

CONSTANT_VARIANCE = ("bdkn",)
"""Methods that cannot lie below the floor."""


def floor(rmse: Sample) -> float:
    """Return the mean over splits of ½ log(2πe RMSE²)."""
    with np.errstate(divide="ignore"):
        return CONSTANT + float(np.mean(np.log(rmse.values)))


def printed_floor(mean: float, std: float) -> float:
    """Return the floor of splits whose RMSE has this mean and standard deviation, minus infinity for a mean of zero.

    Of log RMSE only the mean is needed, ``log m − ½ log(1 + (sd/m)²)`` if RMSE is log-normal.
    """
    return CONSTANT + log(mean) - 0.5 * log(1 + (std / mean) ** 2) if mean > 0 else -inf


def shortfall(rmse: Printed, nll: Printed) -> float:
    """Return by how much a printed NLL lies below the floor however the printed digits were rounded; else 0."""
    lowest = printed_floor(rmse.mean - UNIT / 2, rmse.std + UNIT / 2)  # the floor rises with the mean, falls with sd
    return max(0.0, lowest - (nll.mean + UNIT / 2))
