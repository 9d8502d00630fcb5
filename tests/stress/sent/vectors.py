"""What users and enemies send: vectors of every kind, each with the numbers that it means, if it means any."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Given:
    """A value, the numbers that it means (None: it must be refused), and whether it may be refused nevertheless."""

    kind: str
    value: Any
    means: Numbers | None
    may_refuse: bool = False


def _objects(values: list[Any]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _with(v: Numbers, place: int, value: Any) -> NDArray[Any]:
    array = _objects(v.tolist())
    array[place % len(v)] = value
    return array


def _frozen(v: Numbers) -> Numbers:
    v = v.copy()
    v.flags.writeable = False
    return v


def _strided(v: Numbers) -> Numbers:
    wide = np.full(2 * len(v), np.nan)
    wide[::2] = v
    return wide[::2]


def _nullable(v: Numbers, missing: bool) -> Any:
    series = pd.Series(np.round(v)).astype("Int64")
    if missing:
        series[len(v) // 2] = pd.NA
    return series


_DAY = np.datetime64("2026-01-01")

GOOD: dict[str, Callable[[Numbers], tuple[Any, Numbers]]] = {
    "float64": lambda v: (v, v),
    "list": lambda v: (v.tolist(), v),
    "tuple": lambda v: (tuple(v.tolist()), v),
    "float32": lambda v: (v.astype(np.float32), v.astype(np.float32).astype(float)),
    "float16": lambda v: (v.astype(np.float16), v.astype(np.float16).astype(float)),
    "longdouble": lambda v: (v.astype(np.longdouble), v),
    "big-endian": lambda v: (v.astype(">f8"), v),
    "int64": lambda v: (np.round(v).astype(np.int64), np.round(v)),
    "int8": lambda v: (np.round(v).astype(np.int8), np.round(v)),
    "uint64": lambda v: (np.abs(np.round(v)).astype(np.uint64), np.abs(np.round(v))),
    "bool": lambda v: (v > 0, (v > 0).astype(float)),
    "read-only": lambda v: (_frozen(v), v),
    "not contiguous": lambda v: (_strided(v), v),
    "reversed": lambda v: (v[::-1].copy()[::-1], v),
    "objects": lambda v: (_objects(v.tolist()), v),
    "objects of integers": lambda v: (_objects([int(x) for x in np.round(v)]), np.round(v)),
    "Decimal": lambda v: (_objects([Decimal(x) for x in v.tolist()]), v),
    "Fraction": lambda v: (_objects([Fraction(x) for x in v.tolist()]), v),
    "NumPy numbers": lambda v: ([np.float64(x) for x in v], v),
    "pandas": lambda v: (pd.Series(v), v),
    "pandas with other index": lambda v: (pd.Series(v, index=np.arange(len(v))[::-1] * 7), v),
    "pandas with text as index": lambda v: (pd.Series(v, index=[f"r{i}" for i in range(len(v))]), v),
    "pandas Int64": lambda v: (_nullable(v, False), np.round(v)),
    "pandas Float64": lambda v: (pd.Series(v).astype("Float64"), v),
    "pandas boolean": lambda v: (pd.Series(v > 0).astype("boolean"), (v > 0).astype(float)),
    "polars": lambda v: (pl.Series(v), v),
    "pyarrow": lambda v: (pa.array(v), v),
    "masked without mask": lambda v: (np.ma.array(v), v),
    "memmap-like subclass": lambda v: (v.view(np.memmap) if False else np.asarray(v), v),
}
"""Vectors that mean numbers and must be read as these."""

PERHAPS: dict[str, Callable[[Numbers], tuple[Any, Numbers]]] = {
    "one column": lambda v: (v[:, None], v),
    "frame of one column": lambda v: (pd.DataFrame({"y": v}), v),
    "numbers as text": lambda v: ([repr(x) for x in v.tolist()], v),
    "numbers as bytes": lambda v: (np.array([repr(x).encode() for x in v.tolist()]), v),
    "categories of numbers": lambda v: (pd.Series(v).astype("category"), v),
    "huge": lambda v: (v * 1e307, v * 1e307),
    "large": lambda v: (v * 1e200, v * 1e200),
    "tiny": lambda v: (v * 1e-200, v * 1e-200),
    "denormal": lambda v: (v * 1e-318, v * 1e-318),
    "one huge": lambda v: ((w := np.append(v[:-1], 1.7e308)), w),
    "zeros": lambda v: (np.zeros_like(v), np.zeros_like(v)),
    "large integers": lambda v: (_objects([int(x) * 10**25 for x in np.round(v)]), np.round(v) * 1e25),
}
"""Vectors that may be read as these numbers or be refused."""

BAD: dict[str, Callable[[Numbers], Any]] = {
    "nan": lambda v: np.append(v[:-1], np.nan),
    "inf": lambda v: np.append(v[:-1], np.inf),
    "-inf in a list": lambda v: [*v[:-1].tolist(), float("-inf")],
    "masked": lambda v: np.ma.array(v, mask=np.arange(len(v)) == len(v) // 2),
    "all masked": lambda v: np.ma.masked_all(len(v)),
    "pandas Int64 with NA": lambda v: _nullable(v, True),
    "pandas boolean with NA": lambda v: pd.Series([True, None] * len(v), dtype="boolean")[: len(v)],
    "objects with NA": lambda v: _with(v, 1, pd.NA),
    "objects with NaT": lambda v: _with(v, 1, pd.NaT),
    "objects with None": lambda v: _with(v, 1, None),
    "objects with text": lambda v: _with(v, 2, "n/a"),
    "objects with a date": lambda v: _with(v, 0, datetime.date(2026, 1, 2)),
    "objects with a list": lambda v: _with(v, 0, [1.0, 2.0]),
    "objects with a dict": lambda v: _with(v, 0, {"a": 1}),
    "objects with a complex number": lambda v: _with(v, 0, 1j),
    "objects with a number too large": lambda v: _with(v, 0, 10**400),
    "dates": lambda v: _DAY + np.arange(len(v)),
    "dates with NaT": lambda v: np.array([*(_DAY + np.arange(len(v) - 1)), np.datetime64("NaT")]),
    "dates with time zone": lambda v: pd.Series(pd.date_range("2026-01-01", periods=len(v), tz="Europe/Berlin")),
    "durations": lambda v: np.arange(len(v)).astype("timedelta64[s]"),
    "durations of pandas": lambda v: pd.Series(pd.to_timedelta(np.arange(len(v)), unit="h")),
    "complex": lambda v: v + 1j,
    "text": lambda v: ["a"] * len(v),
    "array of text": lambda v: np.array(["b"] * len(v)),
    "bytes": lambda v: np.array([b"xy"] * len(v)),
    "one text": lambda v: "price",
    "ragged": lambda v: [[1.0], *([[1.0, 2.0]] * (len(v) - 1))],
    "dict": lambda v: dict(enumerate(v.tolist())),
    "set": lambda v: set(v.tolist()),
    "object": lambda v: object(),
    "function": lambda v: np.sin,
    "generator": lambda v: (x for x in v),
    "three dimensions": lambda v: v[:, None, None],
    "two columns": lambda v: np.column_stack([v, v]),
    "one row": lambda v: np.tile(v, (1, 1)) if len(v) > 1 else np.ones((1, 2)),
    "no rows": lambda v: v[:0],
    "empty list": lambda v: [],
    "one too many": lambda v: np.append(v, 0.0),
    "one too few": lambda v: v[:-1],
    "structured": lambda v: np.array([(x, 1) for x in v], dtype=[("a", "f8"), ("b", "i4")]),
    "sparse": lambda v: sparse.csr_matrix(v),
    "sparse column": lambda v: sparse.csc_matrix(v[:, None]),
    "polars with null": lambda v: pl.Series([None, *v[1:].tolist()]),
    "polars text": lambda v: pl.Series(["x"] * len(v)),
    "pyarrow with null": lambda v: pa.array([None, *v[1:].tolist()]),
    "categories with nan": lambda v: pd.Series(["a", None] * len(v), dtype="category")[: len(v)],
    "void": lambda v: np.zeros(len(v), dtype="V8"),
}
"""Vectors that must be refused."""


def vector(kind: str, v: Numbers) -> Given:
    """Return a vector of a kind made of numbers."""
    if kind in GOOD:
        value, means = GOOD[kind](v)
        return Given(kind, value, np.asarray(means, dtype=float))
    if kind in PERHAPS:
        value, means = PERHAPS[kind](v)
        return Given(kind, value, np.asarray(means, dtype=float), may_refuse=True)
    return Given(kind, BAD[kind](v), None)


FINE = (*GOOD, *PERHAPS)
KINDS = (*FINE, *BAD)

SCALARS: tuple[Any, ...] = (
    0,
    1,
    2,
    3,
    5,
    7,
    0.5,
    0.9,
    1.0,
    0.05,
    1e-3,
    -1,
    -0.5,
    -7,
    1.5,
    0.0,
    -0.0,
    1e-300,
    5e-324,
    1e300,
    1.7e308,
    10**30,
    10**400,
    2**63,
    -(10**30),
    float("nan"),
    float("inf"),
    float("-inf"),
    True,
    False,
    None,
    "auto",
    "abc",
    "",
    "1",
    "0.5",
    b"x",
    1j,
    np.int64(3),
    np.int8(2),
    np.float32(0.5),
    np.float64(0.25),
    np.bool_(True),
    np.float16(0.5),
    np.array(0.5),
    np.array([0.5]),
    np.array([0.5, 0.9]),
    np.array([]),
    [0.5],
    [0.1, 0.9],
    (),
    [],
    {},
    {"a": 1},
    set(),
    Decimal("0.5"),
    Fraction(1, 2),
    pd.NA,
    pd.NaT,
    np.datetime64("NaT"),
    np.datetime64("2026-01-01"),
    datetime.date(2026, 1, 1),
    object(),
    np.sin,
    lambda x: x,
    int,
    range(3),
    slice(None),
    [[0.5]],
    np.ma.masked,
    np.longdouble("0.5"),
    [None],
    ["a"],
    "x" * 10_000,
    list(range(300)),
    np.zeros(300),
)
"""Values of a parameter."""
