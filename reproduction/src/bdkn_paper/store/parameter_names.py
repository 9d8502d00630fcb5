"""Parameters that were renamed after records had been written.

A record is stored under a key that is a hash of its cell, parameter names included. So that earlier records are found
under their keys after a parameter gets a new name, a cell holds the names of today, and is hashed and stored under the
names in use when the first records were written. ``RENAMED`` maps the one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Renamed:
    """A parameter with its names in records and today; ``values`` maps values in records to those of today."""

    stored: str
    today: str
    values: Mapping[str, str] = field(default_factory=dict)

    def today_value(self, value: Any) -> Any:
        """Return today's value for one in a record."""
        return self.values.get(value, value) if isinstance(value, str) else value

    def stored_value(self, value: Any) -> Any:
        """Return the value in records for one of today."""
        back = {today: stored for stored, today in self.values.items()}
        return back.get(value, value) if isinstance(value, str) else value


_PRIOR_VARIANCE = Renamed("evidence", "prior_variance", {"exact": "evidence"})

RENAMED: Mapping[str, tuple[Renamed, ...]] = MappingProxyType(
    {"BDKNRegressor": (_PRIOR_VARIANCE,), "BayesianStackingRegressor": (_PRIOR_VARIANCE,)}
)
"""The renamed parameters of each regressor; other regressors may have parameters of the same names."""


def stored_parameters(regressor: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters under the names and with the values that records hold."""
    known = {renamed.today: renamed for renamed in RENAMED.get(regressor, ())}
    return {
        known[name].stored if name in known else name: known[name].stored_value(value) if name in known else value
        for name, value in parameters.items()
    }


def today_parameters(regressor: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of a record under the names and with the values of today."""
    known = {renamed.stored: renamed for renamed in RENAMED.get(regressor, ())}
    return {
        known[name].today if name in known else name: known[name].today_value(value) if name in known else value
        for name, value in parameters.items()
    }
