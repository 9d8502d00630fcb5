"""How the networks of an ensemble are made: what the user leaves open, and what they differ in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bdkn.errors import InvalidParameterError, check_choice

AUTO = "auto"
"""The value of a parameter that follows from the number of rows."""

_SOME_ROWS, _MANY_ROWS = 1000, 4000
"""Rows from which on fewer epochs do, and rows from which on depth pays more than further networks."""


class Size(NamedTuple):
    """How many networks, of which hidden layers, trained for how many epochs."""

    n_members: int
    hidden: tuple[int, ...]
    epochs: int


class Recipe(NamedTuple):
    """What members of one ensemble may differ in."""

    activation: str
    decay: float


def usual_size(n_rows: int) -> Size:
    """Return the size that serves a table of so many rows.

    With few rows many small networks pay best, trained for long; with many rows fewer and deeper ones do. Epochs fall
    while the steps still grow.
    """
    if n_rows <= _MANY_ROWS:
        return Size(12, (50, 50), round(500 * min(1.0, _SOME_ROWS / n_rows) ** 0.5))
    return Size(6, (36,) * 5, max(1, round(250 * (_MANY_ROWS / n_rows) ** 0.25)))


def is_auto(name: str, given: Any) -> bool:
    """Return whether a parameter is left to the number of rows; no other string will do."""
    if isinstance(given, str):
        check_choice(f"{name}, if a string,", given, (AUTO,))
        return True
    return False


def recipes(activations: Any, decays: Any, numbers: Sequence[int]) -> dict[Recipe, list[int]]:
    """Return which networks are made in which way, given the number of the member each belongs to."""
    activations, decays = in_turn("activation", activations), in_turn("weight_decay", decays)
    found: dict[Recipe, list[int]] = {}
    for place, h in enumerate(numbers):
        # Activations change fastest, so that every weight decay is tried with each of them.
        recipe = Recipe(activations[h % len(activations)], decays[h // len(activations) % len(decays)])
        found.setdefault(recipe, []).append(place)
    return found


def in_turn(name: str, given: Any) -> list[Any]:
    """Return what members take in turn: a single value, or several."""
    several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    if several and (np.ndim(given) != 1 or not len(given)):
        raise InvalidParameterError(f"{name} must be one value, or a list of values to take in turn; got {given!r}")
    return list(given) if several else [given]
