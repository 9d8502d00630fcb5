"""Grids over the rows and beyond them, on which figures show predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bdkn.errors import InvalidParameterError, OutsideDataWarning, check_number
from bdkn.metrics import predictive_of
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray


def spaced_over(columns: FloatArray, points: int, margin: float) -> FloatArray:
    """Return evenly spaced values (points, p) over the range of each column, with a margin relative to its length."""
    check_number("grid", points, low=2, high=1e6, whole=True)
    check_number("margin", margin, low=0.0, high=1e6)
    if not np.isfinite(columns).all() or not len(columns):
        raise InvalidParameterError("X must hold finite numbers and a row at least, to draw a grid over them")
    low, high = columns.min(axis=0), columns.max(axis=0)
    return np.linspace(low - margin * (high - low), high + margin * (high - low), points)


def table_like(X: Any, values: FloatArray) -> Any:
    """Return values (n, p) as a table of the type of ``X``, with its column names, as the estimator was fitted."""
    return type(X)(dict(zip(X.columns, values.T, strict=True))) if hasattr(X, "columns") else values


def predict_beyond(estimator: Any, table: Any) -> Predictive:
    """Return the predictions for rows of which some lie outside of the data on purpose, without a warning of that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDataWarning)
        return predictive_of(estimator, table)
