"""Schemas of the encoders of data frames."""

from __future__ import annotations

from typing import Any

from bdkn.persistence.schema import Flag, Items, Number, Part, Plain, Schema, Sizes, Text, floats, must
from bdkn.tables import TableEncoder
from bdkn.tables.columns import CYCLES, CategoryColumn, DateColumn, NumberColumn, UnusedColumn
from bdkn.tables.text import BUCKETS, TextColumn

COLUMNS = (CategoryColumn, DateColumn, NumberColumn, TextColumn, UnusedColumn)
"""The classes of encoders of columns."""


class _Name:
    """The name of a column: text, a number or, with several headers, a tuple of them."""

    def check(self, value: Any, sizes: Sizes) -> None:
        for part in value if isinstance(value, tuple) else (value,):
            Plain(single=True).check(part, sizes)


def _check_date(column: DateColumn) -> None:
    must(set(column.cycles) <= set(CYCLES), f"cycles must be among {tuple(CYCLES)}")


def _check_category(column: CategoryColumn) -> None:
    k, q = len(column.values), len(column.features)
    must(len(set(column.values)) == k, "no value must be there twice")
    must(column.inputs.shape == (k + 2, q), f"inputs must have shape {(k + 2, q)}; got {column.inputs.shape}")
    must(column.n_target in (0, 2) and column.n_target <= q, "n_target must be 0 or 2")


def _check_encoder(encoder: TableEncoder) -> None:
    must(len(encoder.notes) in (0, len(encoder.columns)), "must have a note for each column, or none")
    must(len(set(encoder.names)) == len(encoder.names), "no column must be there twice")
    must(sum(column.n_codes for column in encoder.columns) > 0, "must use at least one column")


_NAME = _Name()

SCHEMAS = (
    Schema(
        NumberColumn,
        {
            "name": _NAME,
            "fill": Number(),
            "some_missing": Flag(),
            "kind": Text(("number", "boolean", "duration")),
            "form": Text(),
        },
    ),
    Schema(
        DateColumn,
        {
            "name": _NAME,
            "fill": Number(),
            "some_missing": Flag(),
            "cycles": Items(Number(above=0.0)),
            "form": Text(),
        },
        _check_date,
    ),
    Schema(
        CategoryColumn,
        {
            "name": _NAME,
            "values": Items(Text()),
            "some_missing": Flag(),
            "inputs": floats("k", "q"),
            "features": Items(Text(), "q"),
            "n_target": Number(low=0, whole=True),
            "ordered": Flag(),
        },
        _check_category,
    ),
    Schema(
        UnusedColumn,
        {
            "name": _NAME,
            "kind": Text(),
            "why": Text(),
            "n_codes": Number(low=0, high=0, whole=True),
            "features": Items(Text(), 0),
        },
    ),
    Schema(
        TextColumn,
        {"name": _NAME, "rarity": floats(BUCKETS), "directions": floats(BUCKETS, "k")},
        least={"k": 1},
    ),
    Schema(TableEncoder, {"columns": Items(Part(*COLUMNS), least=1), "notes": Items(Text())}, _check_encoder),
)
