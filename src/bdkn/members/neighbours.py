"""Neighbours of rows: training rows that share leaves of a forest with them, as Gaussian components of a density."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, NamedTuple

import numpy as np

from bdkn.errors import DivergedError, InvalidParameterError
from bdkn.lazy import lazy
from bdkn.members.encoding import LIMIT, Standardizer
from bdkn.members.forest import Forest, Ints, sortable
from bdkn.persistence.fields import NonNegative, Positive, floats, integers, stored
from bdkn.predictive import StudentT
from bdkn.typing import BoolArray, Float32Array, FloatArray, IndexArray

_MOST_SLOTS = 1 << 16
_BROAD = 4
"""Training rows of a broad node, at least."""

_FARTHEST = 1e37
"""Distances, in scales of a prediction, that a mixture can have: it keeps them in single precision."""


class Kind(NamedTuple):
    """A kind of component: of targets or errors of neighbours, in leaves or broad nodes, with a bandwidth.

    At most ``slots`` Gaussians are kept for a row. The bandwidth is in units of a typical scale of predictions. Targets
    are weighted by this power of their density under the Student-t, so that those it finds likely count for more.
    """

    of_errors: bool
    is_broad: bool
    slots: int
    bandwidth: float
    power: float


KINDS = (
    Kind(False, False, 32, 0.02, 0.3),
    Kind(False, False, 32, 0.1, 0.3),
    Kind(False, False, 12, 0.5, 0.3),
    Kind(False, True, 32, 0.1, 1.0),
    Kind(False, True, 12, 0.5, 1.0),
    Kind(True, True, 32, 0.1, 0.0),
    Kind(True, True, 12, 0.5, 0.0),
)


@dataclass(frozen=True, eq=False)
class Components:
    """Gaussian components of rows around a Student-t, by kind, with masses that sum to one in each kind."""

    position: FloatArray
    width: FloatArray
    mass: FloatArray
    agreement: FloatArray

    @classmethod
    def empty(cls, n: int, slots: int) -> Components:
        """Return room for the components of n rows."""
        position, width, mass = (np.empty((n, slots)) for _ in range(3))
        return cls(position, width, mass, np.empty(n))

    def rows(self, numbers: IndexArray | slice) -> Components:
        """Return the components of some rows; of a slice without a copy."""
        return Components(*(getattr(self, field.name)[numbers] for field in fields(self)))

    def slots(self, chosen: IndexArray) -> Components:
        """Return some of the components of all rows."""
        position, width, mass = (
            np.ascontiguousarray(part[:, chosen]) for part in (self.position, self.width, self.mass)
        )
        return Components(position, width, mass, self.agreement)


@stored
@dataclass(frozen=True, eq=False)
class Neighbours:
    """A forest over training rows, with their targets and standardised errors, in scaled units.

    ``unit`` is a typical scale of predictions, ``floor`` the least bandwidth. ``kinds`` (K, 5) are those of components.
    ``rows`` are the numbers of the training rows if not all are used.
    """

    inputs: Standardizer
    forest: Forest
    targets: Annotated[FloatArray, floats("n")]
    errors: Annotated[FloatArray, floats("n")]
    unit: Positive
    floor: NonNegative
    kinds: Annotated[FloatArray, floats("K", 5)]
    rows: Annotated[IndexArray | None, integers("n")] = None

    def check(self) -> None:
        """Raise unless the forest, its rows and the kinds of components belong together.

        Compiled code, which does not check where it reads, relies on that.
        """
        forest, n, p = self.forest, len(self.targets), self.inputs.n_columns
        forest.check()
        _require(len(self.errors) == n and forest.rows.min() >= 0 and forest.rows.max() < n, "its rows in the forest")
        _require(forest.feature.max() < p, f"trees that divide columns from 0 to {p - 1}")
        _require(self.kinds.ndim == 2 and self.kinds.shape[1] == 5, "kinds of 5 numbers")
        slots, numbers = self.kinds[:, 2], self.kinds[:, 3:]
        _require(np.isin(self.kinds[:, :2], (0.0, 1.0)).all(), "kinds that say 0 or 1 of errors and broad nodes")
        _require(((slots >= 1.0) & (slots == np.floor(slots))).all() and slots.sum() <= _MOST_SLOTS, "whole slots")
        _require((numbers[:, 0] > 0.0).all() and (numbers >= 0.0).all(), "bandwidths > 0 and powers >= 0")

    @lazy
    def _plan(self) -> tuple[IndexArray, IndexArray, IndexArray, IndexArray, FloatArray, FloatArray]:
        self.check()
        of_errors, is_broad, slots, bandwidth, power = self.kinds.T
        last = np.cumsum(slots.astype(np.intp))
        width = np.where(of_errors > 0.0, bandwidth, bandwidth * self.unit)
        first = last - slots.astype(np.intp)
        return of_errors.astype(np.intp), is_broad.astype(np.intp), first, last, width, np.ascontiguousarray(power)

    @property
    def slots(self) -> tuple[IndexArray, IndexArray]:
        """First and last slot of each kind of component."""
        return self._plan[2:4]

    def encode(self, table: Any) -> Ints:
        """Return the inputs as the forest reads them; missing values are larger than all others."""
        return sortable(encode_inputs(self.inputs, table))

    def components(self, student: StudentT, keys: Ints, absent: BoolArray | None = None) -> Components:
        """Return the components of rows around a Student-t; ``absent`` (n, trees): trees a row may use (None: all)."""
        found = self.room(len(keys))
        self.write_components(student, keys, absent, found)
        return found

    def room(self, n: int) -> Components:
        """Return room for the components of n rows."""
        return Components.empty(n, int(self.slots[1][-1]))

    def write_components(self, student: StudentT, keys: Ints, absent: BoolArray | None, out: Components) -> None:
        """Write to ``out`` what ``components`` returns."""
        from bdkn.kernels import forest as kernel

        n, forest = len(keys), self.forest
        may_use = np.ones((n, len(forest.roots)), dtype=np.bool_) if absent is None else absent
        self._check_rows(student, keys, may_use)
        room, values = (out.position, out.width, out.mass, out.agreement), (self.targets, self.errors)
        own = (np.ascontiguousarray(student.df), student.loc, student.scale)
        nodes = kernel.find_nodes(forest.nodes, forest.roots, keys, _BROAD)
        kernel.components(nodes, forest.drawn, may_use, values, own, self._plan, self.floor, room)

    def _check_rows(self, student: StudentT, keys: Ints, may_use: BoolArray) -> None:
        """Raise unless rows are as compiled code takes them: their distances from all targets must be numbers."""
        n = len(keys)
        if (
            len(student) != n
            or keys.shape != (n, self.inputs.n_columns)
            or may_use.shape != (n, len(self.forest.roots))
        ):
            raise InvalidParameterError(f"rows must be (n, {self.inputs.n_columns}); got {keys.shape}, {len(student)}")
        largest, relative = self._largest
        with np.errstate(all="ignore"):
            farthest = (np.abs(student.loc).max(initial=0.0) + largest) / student.scale.min(initial=np.inf)
        if not max(farthest, relative) < _FARTHEST:
            raise DivergedError(
                "predictions are infinite, or so far from the training targets that their distance is no number: check "
                "the rows, or fit again with targets in other units"
            )

    @lazy
    def _largest(self) -> tuple[float, float]:
        """The largest target or bandwidth, and the largest error or bandwidth of errors, in scales of a prediction."""
        of_errors, width = self._plan[0] > 0, self._plan[4]
        values = np.concatenate([np.abs(self.targets), width[~of_errors], [self.floor]])
        return float(values.max()), float(np.concatenate([np.abs(self.errors), width[of_errors]]).max())


def _require(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise InvalidParameterError(f"neighbours must have {what}; these are damaged: fit again")


def encode_inputs(inputs: Standardizer, table: Any) -> Float32Array:
    """Return the inputs of the forest; missing values are larger than all others."""
    scaled = inputs.transform(table)
    return scaled if np.isfinite(scaled).all() else np.nan_to_num(scaled, nan=LIMIT)
