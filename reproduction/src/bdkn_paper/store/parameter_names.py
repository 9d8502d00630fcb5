"""Parameters that were renamed or grouped after records had been written.

A record is stored under a key that is a hash of its cell, parameter names included. So that earlier records are found
under their keys after a parameter gets a new name, a cell holds the names of today, and is hashed and stored under the
names in use when the first records were written. ``RENAMED`` maps the one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from bdkn import CombinationOptions, TrainingOptions

OPTIONS: Mapping[str, type[Any]] = MappingProxyType({"training": TrainingOptions, "combination": CombinationOptions})
"""Parameters of today that are objects with options; a cell holds a table of the options that are given."""


@dataclass(frozen=True)
class Renamed:
    """A parameter with its names in records and today.

    Today it is an option of the parameter ``group``, if there is one. ``values`` are pairs of a value in records and
    that of today, for values that changed. With ``only``, those values of today had the name in
    records for which it returns True.
    """

    stored: str
    today: str
    group: str = ""
    values: tuple[tuple[Any, Any], ...] = ()
    only: Callable[[Any], bool] | None = None

    def takes(self, value: Any) -> bool:
        """Return whether a value of today had this name in records."""
        return self.only is None or self.only(value)

    def today_value(self, value: Any) -> Any:
        """Return today's value for one in a record."""
        return next((today for stored, today in self.values if _is_same(stored, value)), value)

    def stored_value(self, value: Any) -> Any:
        """Return the value in records for one of today."""
        return next((stored for stored, today in self.values if _is_same(today, value)), value)


_TRAINING = tuple(Renamed(option.name, option.name, "training") for option in fields(TrainingOptions))

_COMBINATION = (
    Renamed("evidence", "prior_variance", "combination", (("exact", "evidence"),)),
    *(Renamed(name, name, "combination") for name in ("tempering", "tails", "select_members")),
)

_FOLDS = (
    Renamed("n_folds", "cv", only=lambda cv: type(cv) is int),
    Renamed("holdout_fraction", "cv", only=lambda cv: type(cv) is float),
)

_LINEAR = Renamed(
    "linear_member",
    "members",
    values=((True, ["networks", "linear"]), (False, ["networks"]), ("auto", "networks")),
    only=lambda members: members != "auto",
)

_BDKN = (*_TRAINING, *_COMBINATION, *_FOLDS, _LINEAR)

RENAMED: Mapping[str, tuple[Renamed, ...]] = MappingProxyType(
    {
        "BDKNRegressor": _BDKN,
        "BayesianStackingRegressor": _BDKN,
        "DeepEnsembleRegressor": _TRAINING,
    }
)
"""The renamed parameters of each regressor; other regressors may have parameters of the same names."""


def stored_parameters(regressor: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters under the names and with the values that records hold."""
    renamed, found = RENAMED.get(regressor, ()), {}
    for name, value in parameters.items():
        group = name if name in OPTIONS and isinstance(value, Mapping) else ""
        for option, given in value.items() if group else [(name, value)]:
            former = next(
                (each for each in renamed if (each.today, each.group) == (option, group) and each.takes(given)), None
            )
            if former is not None:
                found[former.stored] = former.stored_value(given)
            elif group:
                found.setdefault(group, {})[option] = given
            else:
                found[option] = given
    return found


def today_parameters(regressor: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of a record under the names and with the values of today."""
    known = {renamed.stored: renamed for renamed in RENAMED.get(regressor, ())}
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        renamed = known.get(name)
        if renamed is None:
            found[name] = {**found.get(name, {}), **value} if name in OPTIONS and isinstance(value, Mapping) else value
            continue
        place = found.setdefault(renamed.group, {}) if renamed.group else found
        place[renamed.today] = renamed.today_value(value)
    return found


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
