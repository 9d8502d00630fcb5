"""Tails of the predictive: degrees of freedom and scale factor of a Student-t by its leave-one-out score.

The posterior's own degrees of freedom, 2aₙ, describe how well σ² is known. Residuals of real data have heavier tails
than that, so both numbers are chosen anew, and the predictive stays a Student-t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from bdkn.persistence.fields import NonNegative, Number, stored
from bdkn.predictive import StudentT
from bdkn.predictive.location_scale import student_t_logpdf
from bdkn.typing import FloatArray

_HEAVIEST = 2.1
"""Degrees of freedom are kept above two, or predictions would have no variance."""

_STEPS = 50


@stored
@dataclass(frozen=True)
class Tails:
    """Degrees of freedom in place of the posterior's own, and a factor on the scale.

    Parameters
    ----------
    df : float
        Degrees of freedom ν.
    scale : float
        Factor κ on the scale.

    Examples
    --------
    >>> from bdkn.inference import Tails
    >>> from bdkn.predictive import StudentT
    >>> heavier = Tails(df=4.0, scale=0.9).replace_in(StudentT(100.0, [0.0], [2.0]))
    >>> print(heavier.df, heavier.scale)
    [4.] [1.8]
    """

    df: Annotated[float, Number(above=0.0, infinite=True)]
    scale: NonNegative

    def replace_in(self, dist: StudentT) -> StudentT:
        """Return the distribution with these tails in place of its own."""
        return StudentT(self.df, dist.loc, self.scale * dist.scale)


def fit_tails(predicted: StudentT, y: ArrayLike, counts: ArrayLike | None = None) -> Tails | None:
    """Return the tails under which targets have the highest mean log density.

    Parameters
    ----------
    predicted : StudentT
        Predictives of the rows that were made without them, as by ``leave_one_out``. Their degrees of freedom are the
        most that is considered.
    y : array-like (n,)
        Targets.
    counts : array-like (n,), optional
        How often each row is counted.

    Returns
    -------
    Tails or None
        None where the rows do not determine the tails: with two degrees of freedom, or if half of the observations are
        predicted exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import fit_tails
    >>> from bdkn.predictive import StudentT
    >>> y = np.random.default_rng(0).standard_t(3.0, size=2000)
    >>> tails = fit_tails(StudentT(1000.0, np.zeros(2000), 1.0), y)
    >>> print(round(tails.df, 1), round(tails.scale, 2))
    3.2 0.99
    """
    share = None if counts is None else np.asarray(counts, dtype=np.float64)
    return best_tails(predicted.df, predicted.loc, predicted.scale, np.asarray(y, dtype=np.float64), share)


def best_tails(
    df: float | FloatArray, loc: FloatArray, scale: FloatArray, y: FloatArray, counts: FloatArray | None
) -> Tails | None:
    """Return ``fit_tails`` of Student-t distributions given by their parameters."""
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 where the posterior is certain
        z2 = ((y - loc) / scale) ** 2
    share = np.ones_like(z2) if counts is None else counts
    share, most = share / share.sum(), float(np.max(df))
    if most <= _HEAVIEST or not np.isfinite(z2).all() or share @ (z2 > 0.0) <= 0.5:
        return None
    middle = float(np.median(z2[z2 > 0.0]))
    bounds = np.log(_HEAVIEST), np.log(most)

    room = np.empty((2, len(z2)))  # new memory for each sum would take longer than the sum

    @cache
    def loss(ν: float) -> tuple[float, float]:
        return _loss(ν, middle, z2, share, room)

    best = minimize_scalar(lambda log_ν: loss(float(np.exp(log_ν)))[0], bounds=bounds, method="bounded")
    ν = min((most, float(np.exp(best.x))), key=lambda ν: loss(ν)[0])
    return Tails(ν, loss(ν)[1])


def mean_log_density(
    df: float | FloatArray, loc: FloatArray, scale: FloatArray, y: FloatArray, counts: FloatArray | None
) -> float:
    """Return the mean log density of ``y`` under Student-t distributions given by their parameters."""
    return float(np.average(student_t_logpdf(y, df, loc, scale), weights=counts))


def _loss(
    ν: float, start: float, z2: FloatArray, share: FloatArray, room: FloatArray | None = None
) -> tuple[float, float]:
    """Return the mean negative log density of residuals z = √z2 under the best scale for ν, and that scale.

    The scale κ solves Σ share (ν + 1) z²/(νκ² + z²) = 1, whose left side falls with κ: Newton's method on log κ, kept
    to steps of a factor of three. ``room`` (2, n) is memory to write to (None: new memory).
    """
    log_κ, (pulled, rest) = np.log(start) / 2.0, np.empty((2, len(z2))) if room is None else room
    for _ in range(_STEPS):
        np.multiply(z2, np.exp(-2.0 * log_κ), out=pulled)
        np.divide(pulled, np.add(ν, pulled, out=rest), out=pulled)
        surplus = (ν + 1.0) * (share @ pulled) - 1.0
        slope = 2.0 * (ν + 1.0) * (share @ np.multiply(pulled, np.subtract(1.0, pulled, out=rest), out=rest))
        step = float(np.clip(surplus / slope, -1.0, 1.0))
        log_κ += step
        if abs(step) < 1e-10:
            break
    np.multiply(z2, np.exp(-2.0 * log_κ), out=rest)
    tail = share @ np.log1p(np.divide(rest, ν, out=rest), out=rest)
    constant = gammaln((ν + 1.0) / 2.0) - gammaln(ν / 2.0) - np.log(ν * np.pi) / 2.0
    return float(log_κ + (ν + 1.0) / 2.0 * tail - constant), float(np.exp(log_κ))
