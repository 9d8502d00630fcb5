"""Schemas of the shape of predictions: forests, neighbours and how their densities are mixed."""

from __future__ import annotations

import numpy as np

from bdkn.errors import InvalidParameterError
from bdkn.members import Standardizer
from bdkn.members.density import NeighbourDensity
from bdkn.members.forest import Forest
from bdkn.members.neighbours import Neighbours
from bdkn.persistence.schema import (
    Array,
    Items,
    Maybe,
    Number,
    Part,
    Schema,
    Text,
    WrongContentError,
    floats,
    integers,
    must,
    singles,
)

_SIZE = Number(low=0.0)
_POSITIVE = Number(above=0.0)


def _check_neighbours(neighbours: Neighbours) -> None:
    try:
        neighbours.check()
    except InvalidParameterError as error:
        raise WrongContentError(str(error)) from error


def _check_density(density: NeighbourDensity) -> None:
    must(bool((np.diff(density.knots) >= 0.0).all()), "knots must be in order")
    must(bool((density.shares <= 1.0 + 1e-9).all()), "shares must not exceed one")
    columns, p = density.columns, density.neighbours.inputs.n_columns
    must(columns is None or len(columns) == p, f"must have the names of {p} columns")


_INTS = ("i4",)

SCHEMAS = (
    Schema(
        Forest,
        {
            "feature": integers("N", types=_INTS, low=-1),
            "threshold": singles("N"),
            "right": integers("N", types=_INTS),
            "start": integers("N", types=_INTS),
            "stop": integers("N", types=_INTS),
            "roots": integers("T", types=_INTS),
            "rows": integers("D", types=_INTS),
            "copies": Array(("D",), ("f4",), above=0.0),
        },
        least={"N": 1, "T": 1, "D": 1},
    ),
    Schema(
        Neighbours,
        {
            "inputs": Part(Standardizer),
            "forest": Part(Forest),
            "targets": floats("n"),
            "errors": floats("n"),
            "unit": _POSITIVE,
            "floor": _SIZE,
            "kinds": floats("K", "*"),
            "rows": Maybe(integers("n")),
        },
        _check_neighbours,
        {"n": 1, "K": 1},
    ),
    Schema(
        NeighbourDensity,
        {
            "neighbours": Part(Neighbours, K=lambda neighbours: len(neighbours.kinds)),
            "knots": floats("J"),
            "shares": floats("J", "K+1", low=0.0),
            "tilt": _SIZE,
            "narrowing": Number(low=0.1, high=1.0),
            "columns": Maybe(Items(Text())),
        },
        _check_density,
        {"J": 1},
    ),
)
