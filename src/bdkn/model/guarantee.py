"""Intervals with a guarantee: cross-conformal ones (CV+), from held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bdkn.arrays import read_numbers
from bdkn.data.rows import table_blocks
from bdkn.ensemble.selection import HeldOut
from bdkn.errors import InvalidParameterError, check_number, no_extrapolation_warnings
from bdkn.inference.combination import features
from bdkn.inference.conformal import FoldOutputs, HeldOutPredictors, weights_without_each
from bdkn.model.fitted import FittedModel
from bdkn.typing import FloatArray, IndexArray

_MOST_ROWS = 4000
"""Held-out rows that are used at most; of more, some at random."""

Shift = tuple[ArrayLike, ArrayLike]
"""Weights of the training rows and of the rows to predict: how much more frequent such rows are than in training."""


def guaranteed_interval(model: FittedModel, X: Any, coverage: float, shift: Shift | None) -> FloatArray:
    """Return the ends (n, 2) of the cross-conformal interval of each checked row, in the units of the target."""
    check_number("coverage", coverage, low=0.0, high=1.0)
    held_out = _fits_of(model)
    some = np.sort(np.random.default_rng(0).permutation(len(held_out.y))[:_MOST_ROWS])
    weights, own = (held_out.counts, None) if shift is None else _checked_shift(shift, held_out, X.shape[0])
    predictors, ends, done = _predictors(model, held_out, some), [], 0
    for block in table_blocks(X):
        theirs = None if own is None else own[done : (done := done + block.shape[0])]
        outputs = _outputs(model, held_out, block)
        ends.append(predictors.interval(outputs, coverage, None if weights is None else weights[some], theirs))
    return _restored(model, np.concatenate(ends))


def _predictors(model: FittedModel, held_out: HeldOut, some: IndexArray) -> HeldOutPredictors:
    """Return the predictors without each of some of the held-out rows."""
    combination, forecast = model.combination, held_out.forecast()
    Phi, noise = features(forecast.means), forecast.variance**combination.tempering
    weights = weights_without_each(combination.posterior, Phi, held_out.y, 1.0 / noise, held_out.counts)
    scores = np.abs(held_out.y - np.einsum("nh,nh->n", Phi, weights)) / np.sqrt(noise)
    fits, known = held_out.fold_of, held_out.has_variance
    assert fits is not None, "_fits_of has checked it"
    parts = fits[some], fits[some][:, known] if known.any() else np.zeros((len(some), 1), dtype=np.intp)
    return HeldOutPredictors(*parts, weights[some, :-1], weights[some, -1], scores[some], combination.tempering)


def _outputs(model: FittedModel, held_out: HeldOut, X: Any) -> FoldOutputs:
    """Return what every fit predicts for rows, and their variance outside of the training rows in units of σ²."""
    means, variances = model.members.by_fold(X, model.targets)
    combination, extra = model.combination, np.zeros(X.shape[0])
    unit = combination.tails.scale**2 * combination.posterior.b / combination.posterior.a
    outside = None
    if model.extrapolation is not None:
        with no_extrapolation_warnings():
            outside = model.extrapolation.widen(X, held_out.pool(means, variances), combination).outside
    if outside is not None and unit > 0.0:
        extra = outside.variance / unit
    return FoldOutputs(means, held_out.pooled_variances(means, variances), extra)


def _fits_of(model: FittedModel) -> HeldOut:
    """Return the held-out predictions; raise if their errors are not those of the model, or their fits are unknown."""
    model.check_has_rows()
    held_out, updates = model.held_out, model.updates
    if updates is not None:
        raise InvalidParameterError(
            "guarantee=True takes the errors on the held-out rows of the fit, so that the model must be as it was "
            f"fitted; it has absorbed rows since, {updates.absorbed.later.n:g} of which count, and keeps statistics of "
            "them without their errors: fit again with these rows, call forget() to return to the fit, or use "
            "predict_interval without guarantee"
        )
    if held_out is None or held_out.fold_of is None:
        raise InvalidParameterError(
            "guarantee=True takes the fits that were made without each row, which this model does not keep: fit with "
            "predict_with='folds' and design='cross-fit' or 'hold-out', or save it again with this version"
        )
    return held_out


def _checked_shift(shift: Shift, held_out: HeldOut, n_rows: int) -> tuple[FloatArray, FloatArray]:
    """Return the weights of held-out rows and of rows to predict."""
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
                "were not left out, have no weight"
            )
    return trained if held_out.counts is None else trained * held_out.counts, own


def _restored(model: FittedModel, ends: FloatArray) -> FloatArray:
    """Return ends in the units of the target; infinite ones become the bounds of the target."""
    low, high = model.targets.link.support
    with np.errstate(all="ignore"):
        restored = model.targets.inverse(ends)
    return np.where(np.isneginf(ends), low, np.where(np.isposinf(ends), high, restored))
