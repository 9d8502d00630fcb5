"""Tables that users and enemies send: arrays and data frames of every kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy import sparse

from sent.vectors import Given, Numbers


def _strided(X: Numbers) -> Numbers:
    wide = np.full((2 * len(X), 2 * X.shape[1]), np.nan)
    wide[::2, ::2] = X
    return wide[::2, ::2]


def _frozen(X: Numbers) -> Numbers:
    X = X.copy()
    X.flags.writeable = False
    return X


def _with(X: Numbers, value: Any) -> Any:
    table = X.astype(object)
    table[len(X) // 2, X.shape[1] - 1] = value
    return table


def _frame(X: Numbers, **more: Any) -> pd.DataFrame:
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    for name, column in more.items():
        frame[name] = column
    return frame


def _repeated(X: Numbers, values: list[Any]) -> list[Any]:
    return (values * len(X))[: len(X)]


ARRAYS: dict[str, Callable[[Numbers], Any]] = {
    "float64": lambda X: X,
    "list of lists": lambda X: X.tolist(),
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "int64": lambda X: np.round(X).astype(np.int64),
    "bool": lambda X: X > 0,
    "uint8": lambda X: np.abs(np.round(X)).astype(np.uint8),
    "big-endian": lambda X: X.astype(">f8"),
    "Fortran order": np.asfortranarray,
    "read-only": _frozen,
    "not contiguous": _strided,
    "objects": lambda X: X.astype(object),
    "masked without mask": np.ma.array,
    "one constant column": lambda X: np.column_stack([X, np.ones(len(X))])[:, -X.shape[1] :],
    "longdouble": lambda X: X.astype(np.longdouble),
}
"""Arrays that mean numbers."""

EXTREME: dict[str, Callable[[Numbers], Any]] = {
    "huge": lambda X: X * 1e307,
    "denormal": lambda X: X * 1e-318,
    "one huge value": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 1, 1.7e308, X),
    "large integers": lambda X: np.round(X).astype(object) * 10**30,
    "numbers as text": lambda X: X.astype(str),
    "zeros": lambda X: np.zeros_like(X),
}
"""Arrays that are read, or refused."""

BAD: dict[str, Callable[[Numbers], Any]] = {
    "nan": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 1, np.nan, X),
    "inf": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 0, np.inf, X),
    "masked": lambda X: np.ma.array(X, mask=np.arange(X.size).reshape(X.shape) == 1),
    "objects with NA": lambda X: _with(X, pd.NA),
    "objects with NaT": lambda X: _with(X, pd.NaT),
    "objects with None": lambda X: _with(X, None),
    "objects with text": lambda X: _with(X, "n/a"),
    "objects with a list": lambda X: _with(X, [1]),
    "dates": lambda X: np.full(X.shape, np.datetime64("2026-01-01")),
    "dates with NaT": lambda X: np.full(X.shape, np.datetime64("NaT", "s")),
    "durations": lambda X: np.round(X).astype("timedelta64[s]"),
    "complex": lambda X: X + 1j,
    "text": lambda X: np.full(X.shape, "a"),
    "bytes": lambda X: np.full(X.shape, b"a"),
    "structured": lambda X: np.zeros(len(X), dtype=[("a", "f8"), ("b", "f8")]),
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
    "one dimension": lambda X: X[:, 0],
    "three dimensions": lambda X: X[:, :, None],
    "a number": lambda X: 3.0,
    "None": lambda X: None,
    "a text": lambda X: "table.csv",
    "ragged": lambda X: [[1.0], *([[1.0, 2.0]] * (len(X) - 1))],
    "dict": lambda X: {"a": X[:, 0].tolist()},
    "object": lambda X: object(),
    "sparse": lambda X: sparse.csr_matrix(X),
    "list of None": lambda X: [[None] * X.shape[1]] * len(X),
    "a series": lambda X: pd.Series(X[:, 0]),
}
"""Arrays and other things that are no table of numbers, and must be refused."""

FRAMES: dict[str, Callable[[Numbers], Any]] = {
    "pandas": _frame,
    "polars": lambda X: pl.DataFrame({f"c{j}": X[:, j] for j in range(X.shape[1])}),
    "pyarrow": lambda X: pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])}),
    "numbers as names": lambda X: pd.DataFrame(X),
    "names of several types": lambda X: pd.DataFrame(X, columns=[0, "a", *range(2, X.shape[1])][: X.shape[1]]),
    "two names twice": lambda X: pd.DataFrame(X, columns=["a"] * X.shape[1]),
    "names on two levels": lambda X: pd.DataFrame(
        X, columns=pd.MultiIndex.from_tuples([("a", j) for j in range(X.shape[1])])
    ),
    "rows on two levels": lambda X: pd.DataFrame(
        X,
        index=pd.MultiIndex.from_tuples([("r", i) for i in range(len(X))]),
        columns=[f"c{j}" for j in range(X.shape[1])],
    ),
    "missing numbers": lambda X: _frame(np.where(np.arange(X.size).reshape(X.shape) % 5 == 1, np.nan, X)),
    "nullable integers": lambda X: _frame(X, k=pd.array(_repeated(X, [1, None, 3, 4]), dtype="Int64")),
    "nullable booleans": lambda X: _frame(X, k=pd.array(_repeated(X, [True, None, False]), dtype="boolean")),
    "categories with nan": lambda X: _frame(X, k=pd.Categorical(_repeated(X, ["a", None, "b", "c"]))),
    "ordered categories": lambda X: _frame(X, k=pd.Categorical(_repeated(X, ["lo", "hi"]), ["lo", "hi"], ordered=True)),
    "text": lambda X: _frame(X, k=_repeated(X, ["red", "green", "red", None])),
    "dates with time zone": lambda X: _frame(X, k=pd.date_range("2026-01-01", periods=len(X), tz="Europe/Berlin")),
    "dates with NaT": lambda X: _frame(X, k=_repeated(X, [pd.Timestamp("2026-01-01"), pd.NaT])),
    "only NaT": lambda X: _frame(X, k=pd.Series([pd.NaT] * len(X))),
    "durations": lambda X: _frame(X, k=pd.to_timedelta(np.arange(len(X)), unit="h")),
    "only missing": lambda X: _frame(X, k=[None] * len(X)),
    "infinite numbers": lambda X: _frame(np.where(np.arange(X.size).reshape(X.shape) == 1, np.inf, X)),
    "huge numbers": lambda X: _frame(X * 1e307),
    "integers of Python": lambda X: _frame(X, k=pd.Series([10**30 + i for i in range(len(X))], dtype=object)),
    "lists in cells": lambda X: _frame(X, k=[[1, 2]] * len(X)),
    "complex numbers": lambda X: _frame(X, k=X[:, 0] + 1j),
    "mixed types": lambda X: _frame(X, k=_repeated(X, [1, "a", None, 2.5])),
    "objects": lambda X: _frame(X, k=[object()] * len(X)),
    "bytes in cells": lambda X: _frame(X, k=[b"a"] * len(X)),
    "no rows": lambda X: _frame(X)[:0],
    "no columns": lambda X: _frame(X)[[]],
    "polars nulls": lambda X: pl.DataFrame(
        {"a": [None, *X[1:, 0].tolist()], "b": ["x", None] * (len(X) // 2) + ["y"] * (len(X) % 2)}
    ),
    "polars only nulls": lambda X: pl.DataFrame({"a": X[:, 0], "b": [None] * len(X)}),
    "polars lists": lambda X: pl.DataFrame({"a": X[:, 0], "b": [[1.0]] * len(X)}),
    "polars lazy": lambda X: pl.LazyFrame({"a": X[:, 0]}),
    "pyarrow nulls": lambda X: pa.table({"a": [None, *X[1:, 0].tolist()], "b": ["x"] * len(X)}),
    "sparse columns": lambda X: pd.DataFrame({"a": pd.arrays.SparseArray(X[:, 0]), "b": X[:, -1]}),
    "text that reads as numbers": lambda X: _frame(X, k=[f"{x:.3f}" for x in X[:, 0]]),
    "intervals": lambda X: _frame(X, k=pd.cut(X[:, 0], 3)),
    "periods": lambda X: _frame(X, k=pd.period_range("2026-01", periods=len(X), freq="M")),
}
"""Data frames: a fit uses them or says which column it cannot use."""

TABLES = (*ARRAYS, *EXTREME, *BAD, *(f"frame: {name}" for name in FRAMES))


def table(kind: str, X: Numbers) -> Given:
    """Return a table of a kind made of numbers; ``means`` is None if it must be refused."""
    if kind.startswith("frame: "):
        return Given(kind, FRAMES[kind[7:]](X), X, may_refuse=True)
    if kind in ARRAYS:
        return Given(kind, ARRAYS[kind](X), X)
    return Given(kind, EXTREME[kind](X), X, may_refuse=True) if kind in EXTREME else Given(kind, BAD[kind](X), None)
