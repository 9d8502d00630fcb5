"""Which columns of a table that lies elsewhere are inputs, and which are targets, weights and groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from bdkn.errors import InvalidParameterError, shown
from bdkn.row_sources.blocks import Words
from bdkn.row_sources.tables import worded


@dataclass(frozen=True)
class NamedColumns:
    """The names of the columns of X, and of those of targets, weights and groups; None where there are none."""

    inputs: tuple[Any, ...]
    target: Any
    sample_weight: Any = None
    groups: Any = None

    @classmethod
    def of(
        cls,
        place: str,
        names: Sequence[Any],
        target: Any,
        *,
        columns: Sequence[Any] | None = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> NamedColumns:
        """Return the columns of a table ``place`` with ``names``; raise if some are not there or are named twice."""
        roles = {"target": target, "sample_weight": sample_weight, "groups": groups}
        for role, name in roles.items():
            if name is not None or role == "target":
                _check_name(role, name, names, place)
        taken = [name for name in roles.values() if name is not None]
        if isinstance(columns, str):
            raise InvalidParameterError(f"columns must be a list of names; got {columns!r}: [{columns!r}]")
        inputs = [name for name in names if name not in taken] if columns is None else list(columns)
        for name in inputs:
            _check_name("columns", name, names, place)
        _check_different([*taken, *inputs])
        if not inputs:
            raise InvalidParameterError(f"{place} must have a column beside {worded(tuple(taken))}; it has no other")
        return cls(tuple(inputs), target, sample_weight, groups)

    @property
    def all(self) -> tuple[Any, ...]:
        """The names of all columns that are read."""
        return (*self.inputs, *self.others)

    @property
    def others(self) -> tuple[Any, ...]:
        """The names of the columns that are no inputs."""
        return tuple(name for name in (self.target, self.sample_weight, self.groups) if name is not None)

    @property
    def numeric(self) -> tuple[Any, ...]:
        """The names of the columns that must hold numbers."""
        return tuple(name for name in (self.target, self.sample_weight) if name is not None)

    @property
    def words(self) -> Words:
        """What messages call targets, weights and groups."""
        return Words(*(f"column {name!r}" for name in (self.target, self.sample_weight, self.groups)))


def not_numeric(name: Any, kind: object, place: str) -> InvalidParameterError:
    """Return the error for a column that must hold numbers and does not."""
    return InvalidParameterError(
        f"column {name!r} of {place} must hold numbers; it holds {kind}: convert it before, or name another column"
    )


def _check_name(role: str, name: Any, names: Sequence[Any], place: str) -> None:
    """Raise unless a table has a column of this name."""
    if isinstance(name, Hashable) and name in set(names):
        return
    near = get_close_matches(name, [one for one in names if isinstance(one, str)], 1) if isinstance(name, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidParameterError(
        f"{role} must be the name of a column of {place}, which has {worded(tuple(names))}; got {shown(name)}{hint}"
    )


def _check_different(names: Sequence[Any]) -> None:
    twice = list(dict.fromkeys(name for name in names if names.count(name) > 1))
    if twice:
        raise InvalidParameterError(
            f"a column is an input, the target, the weight or the group of a row; {worded(tuple(twice))} is named twice"
        )
