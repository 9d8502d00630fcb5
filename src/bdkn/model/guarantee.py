"""Intervals with guaranteed coverage: cross-conformal intervals (CV+), computed from held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bdkn.arrays import read_numbers
from bdkn.ensemble.selection import HeldOut
from bdkn.errors import InvalidParameterError, check_number, no_extrapolation_warnings
from bdkn.inference.combination import features
from bdkn.inference.conformal import HeldOutPredictors, weights_without_each
from bdkn.model.extrapolation import table_blocks
from bdkn.model.fitted import FittedModel
from bdkn.stages import stage
from bdkn.typing import FloatArray

_MAX_ROWS = 4000
"""Maximum number of held-out rows from which intervals are computed; of more rows, a random sample is used."""

Shift = tuple[ArrayLike, ArrayLike]
"""Weights for covariate shift, of training rows and of rows to predict: density in new data / in training data."""


def guaranteed_interval(model: FittedModel, X: Any, coverage: float, shift: Shift | None) -> FloatArray:
    """Return the limits (n, 2) of the cross-conformal interval of each validated row, in the units of the target."""
    check_number("coverage", coverage, low=0.0, high=1.0)
    model.check_has_rows()
    held_out, combination, targets = model.held_out, model.combination, model.targets
    if model.updates is not None:
        raise InvalidParameterError(
            "guarantee=True takes the errors on the held-out rows of the fit, so that the model must be as it was "
            f"fitted; it has absorbed rows since, {model.updates.absorbed.later.n:g} of which count, and keeps "
            "statistics of them without their errors: fit again with these rows, call forget() to return to the fit, "
            "or use predict_interval without guarantee"
        )
    if held_out is None or held_out.fold_of is None:
        raise InvalidParameterError(
            "guarantee=True takes the fits that were made without each row, which this model does not keep: fit with "
            "predict_with='folds' and design='cross-fit' or 'hold-out', or save it again with this version"
        )
    weights, own = (held_out.counts, None) if shift is None else _checked_shift(shift, held_out, X.shape[0])

    # For a sample of the held-out rows, the predictor fitted without each row
    some = np.sort(np.random.default_rng(0).permutation(len(held_out.y))[:_MAX_ROWS])
    forecast, fits, known = held_out.forecast(), held_out.fold_of[some], held_out.has_variance
    Phi, noise = features(forecast.means), forecast.variance**combination.tempering
    without = weights_without_each(combination.posterior, Phi, held_out.y, 1.0 / noise, held_out.counts)
    scores = np.abs(held_out.y - np.einsum("nh,nh->n", Phi, without)) / np.sqrt(noise)
    variance_fits = fits[:, known] if known.any() else np.zeros((len(some), 1), dtype=np.intp)
    beta, alpha = without[some, :-1], without[some, -1]
    predictors = HeldOutPredictors(fits, variance_fits, beta, alpha, scores[some], combination.tempering)

    # Intervals for new rows; the extrapolation variance is in units of σ²
    unit, found = combination.tails.scale**2 * combination.posterior.b / combination.posterior.a, []
    for rows, block in table_blocks(X):
        with stage("predict members"):
            means, variances = model.members.by_fold(block, targets)
        extra = np.zeros(block.shape[0])
        if model.extrapolation is not None and unit > 0.0:
            spread = combination.spread(held_out.pool(means, variances))
            with no_extrapolation_warnings():
                extra = model.extrapolation.outside(block, spread).variance / unit
        outputs = means, held_out.pooled_variances(means, variances), extra
        of_rows = None if weights is None else weights[some], None if own is None else own[rows]
        found.append(predictors.interval(outputs, coverage, *of_rows))

    # In the units of the target; infinite limits become the bounds of the target
    ends, (low, high) = np.concatenate(found), targets.link.support
    with np.errstate(all="ignore"):
        restored = targets.inverse(ends)
    return np.where(np.isneginf(ends), low, np.where(np.isposinf(ends), high, restored))


def _checked_shift(shift: Shift, held_out: HeldOut, n_rows: int) -> tuple[FloatArray, FloatArray]:
    """Return the covariate-shift weights of held-out rows and of rows to predict; raise an error if not valid."""
    if not isinstance(shift, tuple | list) or len(shift) != 2:
        raise InvalidParameterError(
            "shift must be a pair of weights: one for each training row, and one for each row of X; "
            f"got {type(shift).__name__}"
        )
    trained, own = (read_numbers("shift", part) for part in shift)
    for name, part, n in (("training rows", trained, len(held_out.y)), ("rows of X", own, n_rows)):
        if part.shape != (n,) or not (np.isfinite(part).all() and (part >= 0.0).all()):
            raise InvalidParameterError(
                f"shift must hold a finite weight >= 0 for each of the {n} {name}; got shape {part.shape} with values "
                f"from {part.min(initial=np.inf):g} to {part.max(initial=-np.inf):g}; rows that repeat others, or that "
                "were not held out, have no weight"
            )
    return trained if held_out.counts is None else trained * held_out.counts, own
