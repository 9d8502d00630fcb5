"""Expectations of functions of a prediction, by adaptive quadrature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from bdkn.errors import InvalidParameterError
from bdkn.predictive.base import Predictive
from bdkn.predictive.location_scale import LocationScale
from bdkn.predictive.transformed import row_quantiles
from bdkn.typing import BoolArray, FloatArray, IndexArray

Function = Callable[[FloatArray, IndexArray], FloatArray]
"""A function of targets (m, k) and of the numbers (m,) of their rows, which returns (m, k)."""

_END = 36.0
"""Levels are expit(s) with s from -_END to _END, so that the last ones differ from 0 and 1 by a rounding error."""

_GAUSSIAN_END = 9.0
"""Standard deviations beyond which a Gaussian has no probability."""

_PANELS = 12
"""Pieces of the range of s at first."""

_OUTERMOST = np.array([-1.0, 1.0, -0.875, 0.875])
"""Parts of the range of s from which tails are judged."""

_SHARES = 16.0
"""A piece may have one part in so many of the tolerance."""

_MOST_HALVINGS = 40
_ROWS_AT_ONCE = 2048

_HALF = np.array(
    [
        [0.991455371120812639206854697526329, 0.022935322010529224963732008058970, 0.0],
        [0.949107912342758524526189684047851, 0.063092092629978553290700663189204, 0.129484966168869693270611432679082],
        [0.864864423359769072789712788640926, 0.104790010322250183839876322541518, 0.0],
        [0.741531185599394439863864773280788, 0.140653259715525918745189590510238, 0.279705391489276667901467771423780],
        [0.586087235467691130294144691258380, 0.169004726639267902826583426598550, 0.0],
        [0.405845151377397166906606412076961, 0.190350578064785409913256402421014, 0.381830050505118944950369775488975],
        [0.207784955007898467600689403773245, 0.204432940075298892414161999234649, 0.0],
        [0.0, 0.209482141084727828012999174891714, 0.417959183673469387755102040816327],
    ]
)
NODES, KRONROD, GAUSS = np.vstack([_HALF * [-1.0, 1.0, 1.0], _HALF[-2::-1]]).T
"""The rule of Gauss and Kronrod on [-1, 1]: 15 nodes, their weights, and those of the rule of Gauss among them."""

_CLOSED = np.concatenate([[-1.0], NODES, [1.0]])
_BARYCENTRIC = 1.0 / np.prod(NODES[:, None] - NODES + np.eye(len(NODES)), axis=1)
_AT_END = _BARYCENTRIC / (1.0 - NODES) / np.sum(_BARYCENTRIC / (1.0 - NODES))
"""Weights by which values at the nodes give that of their polynomial at the end, 1."""


def expectation(dist: Predictive, function: Function, tolerance: float = 1e-6) -> FloatArray:
    """Return the expectation (n,) of a function of the target of each row.

    Pieces are halved until the two rules of each agree, so that the function may jump and bend. The error is at most
    about ``tolerance`` times the mean absolute value of the function; raise where that is not reached.
    """
    found = np.empty(len(dist))
    for start in range(0, len(dist), _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(dist)))
        found[rows] = _Integral(dist, function, tolerance).of(rows)
    return found


@dataclass(frozen=True, eq=False)
class _Integral:
    """The integral of a function of the target over all levels, by a variable s that takes the ends to infinity."""

    dist: Predictive
    function: Function
    tolerance: float

    def of(self, rows: IndexArray) -> FloatArray:
        """Return the expectations of some rows, numbered from the first of them."""
        edges = self._ends(rows)[:, None] * np.linspace(-1.0, 1.0, _PANELS + 1)
        row, low, high = np.repeat(rows, _PANELS), edges[:, :-1].ravel(), edges[:, 1:].ravel()
        value, error, size = self._pieces(row, low, high)
        unit = np.asarray(np.bincount(row - rows[0], weights=size, minlength=len(rows)), dtype=np.float64)
        total = np.zeros(len(rows))
        for _ in range(_MOST_HALVINGS):
            open_ = error > self.tolerance * unit[row - rows[0]] / _SHARES
            total += np.bincount((row - rows[0])[~open_], weights=value[~open_], minlength=len(rows))
            if not open_.any():
                break
            row, low, high = _halves(row[open_], low[open_], high[open_])
            value, error, _ = self._pieces(row, low, high)
        else:
            self._refuse(row, error > 10.0 * self.tolerance * unit[row - rows[0]])
            total += np.bincount(row - rows[0], weights=value, minlength=len(rows))
        self._check_tails(rows, unit)
        return total

    def _pieces(self, row: IndexArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the integral over each piece, the difference of the two rules, and the integral of the size of f."""
        half = (high - low) / 2.0
        y, mass = self._targets(row, (low + high)[:, None] / 2.0 + half[:, None] * _CLOSED)
        f = self._values(row, y) * mass * half[:, None]
        inner = f[:, 1:-1]
        # A jump beyond the outermost node is seen by neither rule: there the polynomial misses the value at the end.
        missed = np.abs(inner @ _AT_END - f[:, -1]) + np.abs(inner @ _AT_END[::-1] - f[:, 0])
        error = np.abs(inner @ (KRONROD - GAUSS)) + (1.0 - NODES[-1]) * missed
        return inner @ KRONROD, error, np.abs(inner) @ KRONROD

    def _ends(self, rows: IndexArray) -> FloatArray:
        """Return how far (m,) the variable of integration s extends to both sides, to levels of about 1e-16."""
        if not isinstance(self.dist, LocationScale):
            return np.full(len(rows), _END)
        quantile = self.dist[rows]._standard_ppf(np.array([expit(-_END)]))[..., 0]
        return np.broadcast_to(np.arcsinh(np.clip(-quantile, _GAUSSIAN_END, 1e100)), len(rows))

    def _targets(self, row: IndexArray, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the targets at s (m, k), and the derivative of the level by s.

        The level is expit(s); a location and scale have the target loc + scale sinh(s), as densities are cheaper than
        quantiles.
        """
        if not isinstance(self.dist, LocationScale):
            level = expit(s)
            return row_quantiles(self.dist[row], level), level * expit(-s)
        some, z = self.dist[row], np.sinh(s)
        return some.loc[:, None] + some.scale[:, None] * z, np.exp(some._standard_logpdf(z)) * np.cosh(s)

    def _values(self, row: IndexArray, y: FloatArray) -> FloatArray:
        f = self.function(y, row)
        wrong = ~np.isfinite(f)
        if wrong.any():
            raise InvalidParameterError(
                f"the function must be finite for every target; got {f[wrong][0]} at {y[wrong][0]:g}"
            )
        return f

    def _check_tails(self, rows: IndexArray, unit: FloatArray) -> None:
        """Raise if what lies beyond the last levels may count: if it is large, and grows as fast as tails fall."""
        y, _ = self._targets(rows, self._ends(rows)[:, None] * _OUTERMOST)
        centre, last = self.dist[rows].median()[:, None], y[:, :2]
        with np.errstate(divide="ignore", invalid="ignore"):
            stretch = np.nan_to_num((last - centre) / (y[:, 2:] - centre), nan=1.0, posinf=1.0)
        size = np.abs(self._values(rows, last))
        low, high = np.hsplit(self.dist[rows].ppf([0.0, 1.0]), 2)
        outside = centre + np.clip(stretch, 1.0, 1e6) * (last - centre)
        # On a bound itself, which no target reaches, the function may be infinite.
        outside = np.select([outside <= low, outside >= high], [(last + low) / 2.0, (last + high) / 2.0], outside)
        farther = np.abs(self._values(rows, outside))
        beyond = size.sum(axis=1) * expit(-_END)
        grows = (farther > 10.0 * size).any(axis=1)  # levels fall by a factor of about 100 each way
        self._refuse(rows, (beyond > 10.0 * self.tolerance * unit) & grows)

    def _refuse(self, row: IndexArray, failed: BoolArray) -> None:
        if failed.any():
            raise InvalidParameterError(
                f"the expectation of row {row[failed][0]} cannot be computed to the tolerance {self.tolerance:g}: the "
                "function grows too fast for the tails of the prediction, or jumps too often; bound it, for example "
                "by np.minimum, or allow a larger tolerance"
            )


def _halves(row: IndexArray, low: FloatArray, high: FloatArray) -> tuple[IndexArray, FloatArray, FloatArray]:
    middle = (low + high) / 2.0
    return np.concatenate([row, row]), np.concatenate([low, middle]), np.concatenate([middle, high])
