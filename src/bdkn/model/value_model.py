"""Probabilities of single values of discrete targets, and of point masses, learned from held-out rows.

The predictive distribution has a density, and a density has no probabilities of single values. A discrete
target has a value with the probability between the midpoints to the neighbouring values, recalibrated by a multinomial
regression on its logarithm. The probability of a point mass is computed by a multinomial regression on the centre and
the scale of the prediction. Both are fitted to leave-one-out predictions of held-out rows. Targets that are not on a
point mass have a combination of their own: the same members, with weights fitted to these rows only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from bdkn.data.scaling import TargetScaler, TargetValues
from bdkn.ensemble.selection import CombinationOptions, HeldOut
from bdkn.inference import Combination
from bdkn.predictive import Predictive, StudentT
from bdkn.predictive.transformed import row_quantiles
from bdkn.storage.fields import floats, must, stored
from bdkn.typing import FloatArray, IndexArray

_MAX_ROWS = 20_000
"""Maximum number of rows from which probabilities are learned."""

_MIN_ROWS = 30
"""Minimum number of rows whose targets are not point masses, for a separate combination to be fitted to them."""

_EQUAL_WITHIN = 1e-9
"""A target is equal to a single value if they differ by at most this number, in scaled units."""

_PRIOR_WEIGHT = 1e-3
"""Weight of the training frequencies of values, with which probabilities are mixed to be above zero."""

_MAX_DISTANCE = 8.0
"""Maximum distance of a point mass from the predicted location, in predicted scales; larger ones are clipped."""


@stored
@dataclass(frozen=True, eq=False)
class ValueModel:
    """Multinomial regression for the probabilities of single values of the target.

    ``found`` are the values, ``coefficients`` (k, p) the regression coefficients. ``rest`` is the combination fitted to
    rows that are not on a point mass, None for a discrete target.
    """

    found: TargetValues
    coefficients: Annotated[FloatArray, floats("k", "*")]
    rest: Combination | None = None

    def check(self) -> None:
        """Raise an error unless all values have coefficients, and ``rest`` is None just if the target is discrete."""
        must(self.found.is_discrete == (self.rest is None), "must have a rest if, and only if, there are point masses")
        shape = (len(self.found), 2 if self.found.is_discrete else 6)
        must(self.coefficients.shape == shape, f"coefficients must have shape {shape}; got {self.coefficients.shape}")

    def log_probabilities(self, dist: StudentT, targets: TargetScaler) -> FloatArray:
        """Return log probabilities (n, k) of k values; with point masses, a last column is for all other values."""
        features = value_features(self.found, dist, targets)
        return np.asarray(log_softmax(_logits(self.coefficients, features, self.found), axis=1))

    def numbers(self, y: FloatArray, targets: TargetScaler) -> IndexArray:
        """Return, for each target, its index among the k single values; k if it is none of them."""
        return value_numbers(self.found, targets.transform(y), targets)


def quantiles_with_masses(
    levels: FloatArray, values: FloatArray, shares: FloatArray, rest: Predictive | None
) -> FloatArray:
    """Return quantiles of distributions with point masses at ``values`` and a density ``rest``, one row each.

    ``levels`` are (k,) or (n, k). ``shares`` (n, ...) are the probabilities of the values and, in the last column, of
    ``rest``; without a ``rest``, there is no such column.
    """
    if rest is None:
        below = np.cumsum(shares, axis=1)[:, :-1]
        return np.asarray(values[np.sum(below[:, None, :] < levels[..., None] - 1e-12, axis=2)])
    cumulated = np.hstack([np.zeros((len(shares), 1)), np.cumsum(shares[:, :-1], axis=1)])
    others = np.maximum(shares[:, -1:], 1e-300)

    def among_others(below: int) -> FloatArray:
        inner = np.clip((levels - cumulated[:, below : below + 1]) / others, 0.0, 1.0)
        return row_quantiles(rest, inner)

    found = among_others(len(values))
    for j in range(len(values) - 1, -1, -1):
        found = np.minimum(among_others(j), np.maximum(values[j], found))
    return found


def learn_values(
    found: TargetValues,
    options: CombinationOptions,
    combination: Combination,
    targets: TargetScaler,
    held_out: HeldOut,
) -> ValueModel:
    """Fit the probabilities of the target values ``found`` to leave-one-out predictions of held-out rows."""
    numbers = value_numbers(found, held_out.y, targets)
    dist = combination.leave_one_out(held_out.forecast(), held_out.y, held_out.counts)
    some = np.random.default_rng(0).permutation(len(numbers))[:_MAX_ROWS]
    counts = np.ones(len(some)) if held_out.counts is None else held_out.counts[some]
    coefficients = _regression(value_features(found, dist[some], targets), numbers[some], counts, found)
    if found.is_discrete:
        return ValueModel(found, coefficients)
    others = np.flatnonzero(numbers == len(found))
    rest = options.combine(held_out.rows(others)) if len(others) >= _MIN_ROWS else combination
    return ValueModel(found, coefficients, rest)


def value_numbers(found: TargetValues, scaled: FloatArray, targets: TargetScaler) -> IndexArray:
    """Return, for each target in scaled units, its index among the k values ``found``; k if it is none of them."""
    values = targets.transform(found.values)
    nearest = np.abs(scaled[:, None] - values).argmin(axis=1)
    return np.where(np.abs(scaled - values[nearest]) <= _EQUAL_WITHIN, nearest, len(found))


def value_features(found: TargetValues, dist: StudentT, targets: TargetScaler) -> FloatArray:
    """Return features (n, k, p) of n rows and k values, from scaled predictions, for the multinomial regression."""
    if found.is_discrete:
        middles = targets.transform((found.values[1:] + found.values[:-1]) / 2.0)
        steps = dist.cdf(np.broadcast_to(middles, (len(dist), len(middles))))
        between = np.diff(steps, axis=1, prepend=0.0, append=1.0)
        logs = np.log((1.0 - _PRIOR_WEIGHT) * np.maximum(between, 0.0) + _PRIOR_WEIGHT * found.shares)
        return np.stack([logs, np.ones_like(logs)], axis=2)
    loc, scale = dist.loc[:, None], np.maximum(dist.scale, 1e-12)[:, None]
    values = targets.transform(found.values)
    far = np.minimum(np.abs(values - loc) / scale, _MAX_DISTANCE)
    parts = (np.ones_like(far), loc, loc**2, np.log(scale), far, np.log1p(far**2))
    return np.stack([np.broadcast_to(np.clip(part, -20.0, 20.0), far.shape) for part in parts], axis=2)


def _logits(coefficients: FloatArray, features: FloatArray, found: TargetValues) -> FloatArray:
    logits: FloatArray = np.einsum("nkp,kp->nk", features, coefficients)
    return logits if found.is_discrete else np.hstack([logits, np.zeros((len(logits), 1))])


def _regression(features: FloatArray, numbers: IndexArray, counts: FloatArray, found: TargetValues) -> FloatArray:
    """Return the coefficients (k, p) of the multinomial regression with a Gaussian prior."""
    shape = features.shape[1:]
    if found.is_discrete:  # prior means and standard deviations of the slope of the logarithm, and of a constant
        mean, spread = np.array([1.0, 0.0]), np.array([0.3, 1.0])
    else:
        mean, spread = np.zeros(shape[1]), np.full(shape[1], 3.0)
    start = np.broadcast_to(mean, shape)
    is_known = numbers < (shape[0] if found.is_discrete else shape[0] + 1)
    rows = np.flatnonzero(is_known)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        coefficients = flat.reshape(shape)
        logs = log_softmax(_logits(coefficients, features, found), axis=1)
        deviation = (coefficients - mean) / spread
        residual = np.exp(logs)
        residual[rows, numbers[rows]] -= 1.0
        residual *= (counts * is_known)[:, None]
        slope = np.einsum("nk,nkp->kp", residual[:, : shape[0]], features) + deviation / spread
        value = -float(counts[rows] @ logs[rows, numbers[rows]]) + float(np.sum(deviation**2)) / 2.0
        return value, slope.ravel()

    solution = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return np.asarray(solution.x.reshape(shape))
