"""Fitted states without what only serves other things than predictions: rows left out of the fit, and their targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bdkn.errors import InvalidParameterError
from bdkn.regressors.fitted import Combined, FittedBDKN, FittedStack


def without_rows(state: Any) -> Any:
    """Return a state that predicts the same, without targets of training rows; raise if predictions need them."""
    if isinstance(state, FittedStack):
        raise InvalidParameterError(
            "save(..., without_rows=True) needs a model that predicts without its training rows; a stack computes the "
            "noise of its members from rows that were left out: save it with its rows, or fit a BDKNRegressor"
        )
    if not isinstance(state, FittedBDKN):
        return state
    if state.combined.density is not None:
        raise InvalidParameterError(
            "save(..., without_rows=True) needs a model that predicts without its training rows; this one has learned "
            "the shape of its predictions from their targets: save model.without_shape(), which predicts Student-t "
            "distributions"
        )
    return replace(state, combined=replace(state.combined, held_out=None, updates=None, left_out=None))


def check_has_rows(combined: Combined) -> None:
    """Raise if a model was saved without the rows that were left out of its fit."""
    if combined.held_out is None and combined.provenance is not None:
        raise InvalidParameterError(
            "this takes the predictions for rows that were left out of the fit, and their targets; the model is from a "
            "file that was saved with without_rows=True: load one with the rows, or fit again"
        )
