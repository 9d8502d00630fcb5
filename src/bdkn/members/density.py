"""The shape of predictions: the Student-t of the combination, mixed with densities of neighbours.

The neighbours of a row are the training rows that share leaves of a forest with it. Their targets, and their errors in
units of the scale predicted for them, are smoothed to densities by a few bandwidths each. ``members.shape`` learns the
weights of the mixture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from scipy.special import betaln

from bdkn.errors import InvalidParameterError
from bdkn.members.neighbours import Components, Neighbours
from bdkn.persistence.fields import NonNegative, Number, floats, must, sizes, stored
from bdkn.predictive import StudentT, StudentTMixture
from bdkn.threads import run_on_threads
from bdkn.typing import Float32Array, FloatArray

DENSITIES = ("auto", "student-t")

BLOCK_ROWS = 1 << 12
"""Rows that one thread processes at once."""

_LEAST_AGREEMENT = 1e-3


@stored
@dataclass(frozen=True, eq=False)
class NeighbourDensity:
    """How predictions are mixed from the Student-t and the densities of neighbours.

    ``shares`` (J, 1 + K) are the weights of the Student-t and of each kind of component at ``knots``, values of the
    logarithm of the agreement of the trees. Components far out in the mixture lose weight by the power ``tilt``, and
    the Student-t is made narrower by the factor ``narrowing``: a mixture of calibrated densities is too wide.
    ``columns`` are the names of the columns of a data frame that the forest sees; None: all columns.
    """

    neighbours: Annotated[Neighbours, sizes(K=lambda neighbours: len(neighbours.kinds))]
    knots: Annotated[FloatArray, floats("J")]
    shares: Annotated[FloatArray, floats("J", "K+1", low=0.0)]
    tilt: NonNegative = 0.0
    narrowing: Annotated[float, Number(low=0.1, high=1.0)] = 1.0
    columns: tuple[str, ...] | None = None

    def check(self) -> None:
        """Raise unless knots are in order, shares at most one, and the names those of all columns."""
        must(bool((np.diff(self.knots) >= 0.0).all()), "knots must be in order")
        must(bool((self.shares <= 1.0 + 1e-9).all()), "shares must not exceed one")
        p = self.neighbours.inputs.n_columns
        must(self.columns is None or len(self.columns) == p, f"must have the names of {p} columns")

    def mix(self, student: StudentT, table: Any, inside: FloatArray | None = None) -> StudentTMixture:
        """Return the mixture for rows of a table, in scaled units.

        ``inside`` (n,), between 0 and 1, is how far a row belongs to the training rows: where it is 0, the neighbours
        have no weight and the Student-t is as it was.
        """
        keys, n = self.neighbours.encode(table), len(student)
        trust = np.where(student.scale > 0.0, 1.0 if inside is None else inside, 0.0)  # a point mass has no shape
        around = StudentT(student.df, student.loc, np.where(student.scale > 0.0, student.scale, 1.0))
        out = self._room(n)

        def compute(rows: slice) -> None:
            parts = self.neighbours.components(around[rows], keys[rows])
            self._weigh(parts, trust[rows], tuple(array[rows] for array in out))

        run_on_threads(compute, [slice(i, i + BLOCK_ROWS) for i in range(0, n, BLOCK_ROWS)])
        return self._mixture(student, trust, out)

    def weigh(self, student: StudentT, parts: Components) -> StudentTMixture:
        """Return the mixture of a Student-t and components that have masses by kind."""
        out, inside = self._room(len(student)), np.ones(len(student))
        self._weigh(parts, inside, out)
        return self._mixture(student, inside, out)

    def _room(self, n: int) -> tuple[FloatArray, Float32Array, Float32Array, Float32Array]:
        position, width, mass = (np.empty((n, self.neighbours.slots[1][-1]), dtype=np.float32) for _ in range(3))
        return np.empty(n), position, width, mass

    def _weigh(self, parts: Components, inside: FloatArray, out: tuple[Any, ...]) -> None:
        from bdkn.kernels import forest as kernel

        slots = self.neighbours.slots
        if self.shares.shape != (len(self.knots), 1 + len(slots[0])) or len(inside) != len(parts.agreement):
            raise InvalidParameterError(f"shares must be of all kinds at each knot; got shape {self.shares.shape}")
        even = math.exp(self.tilt * math.log(4.0) + float(betaln(1.0 + self.tilt, 1.0 + self.tilt)))
        calibration = (self.tilt, even, self.narrowing)
        arrays = (parts.position, parts.width, parts.mass)
        g = gate(parts.agreement)
        kernel.weigh(arrays, slots, g, self.knots, self.shares, inside, calibration, out)

    def _mixture(self, student: StudentT, inside: FloatArray, out: tuple[Any, ...]) -> StudentTMixture:
        scale = student.scale * (1.0 - inside * (1.0 - self.narrowing))
        return StudentTMixture(student.df, student.loc, scale, *out)

    def with_errors(self, errors: FloatArray) -> NeighbourDensity:
        """Return the density with other standardised errors of the training rows."""
        rows = self.neighbours.rows
        return replace(self, neighbours=replace(self.neighbours, errors=errors if rows is None else errors[rows]))


def carry(student: StudentT, mixture: StudentT | StudentTMixture, drawn: FloatArray) -> FloatArray:
    """Return draws (n, size) of the Student-t carried to the mixture, row by row and quantile to quantile."""
    if isinstance(mixture, StudentT):
        return drawn
    levels = np.clip(student.cdf(drawn), 1e-300, 1.0 - 1e-16)
    return mixture.carry(levels)


def gate(agreement: FloatArray) -> FloatArray:
    """Return the number that the weights of a row depend on."""
    return np.log(np.maximum(agreement, _LEAST_AGREEMENT))
