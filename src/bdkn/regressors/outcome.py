"""The distribution that decisions are made by: values with probabilities, and a density for all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError
from bdkn.members.value_model import quantiles_with_masses
from bdkn.predictive import Predictive
from bdkn.predictive.absolute import excess_and_shortfall
from bdkn.predictive.expectation import expectation
from bdkn.predictive.target_maps import TargetMap
from bdkn.predictive.transformed import row_quantiles
from bdkn.typing import FloatArray, IndexArray

Cost = Callable[[FloatArray, IndexArray], FloatArray]
"""A cost of targets (m, k) and of the numbers (m,) of their rows."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The distribution of each of n targets: ``values`` (k,) with the probabilities ``shares`` (n, k), and the rest.

    ``rest`` is the distribution of targets with none of the values, None if all have one. It is the distribution of
    which ``predict_interval`` returns intervals.
    """

    values: FloatArray
    shares: FloatArray
    rest: Predictive | None

    @classmethod
    def of(cls, dist: Predictive) -> Outcome:
        """Return the outcome of predictions without point masses."""
        return cls(np.empty(0), np.empty((len(dist), 0)), dist)

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def others(self) -> FloatArray:
        """The probability (n,) of a target with none of the values."""
        return np.clip(1.0 - self.shares.sum(axis=1), 0.0, 1.0) if len(self.values) else np.ones(len(self))

    def restored(self, transformation: TargetMap) -> Outcome:
        """Return the outcome of targets that were transformed before they were predicted."""
        rest = None if self.rest is None else transformation.restore(self.rest)
        return replace(self, values=transformation.inverse(self.values), rest=rest)

    def above(self, threshold: FloatArray) -> FloatArray:
        """Return the probability (n, k) of a target above ``threshold`` (n, k)."""
        found = np.asarray(np.einsum("nv,nkv->nk", self.shares, self.values > threshold[:, :, None]))
        if self.rest is not None:
            found = found + self.others[:, None] * (1.0 - self.rest.cdf(threshold))
        return np.asarray(np.clip(found, 0.0, 1.0))

    def quantiles(self, levels: FloatArray) -> FloatArray:
        """Return the quantile (n,) of each row at its own level (n,)."""
        columns = levels[:, None]
        if not len(self.values) and self.rest is not None:
            return row_quantiles(self.rest, columns)[:, 0]
        shares = self.shares if self.rest is None else np.column_stack([self.shares, self.others])
        return quantiles_with_masses(columns, self.values, shares, self.rest)[:, 0]

    def linear_cost(self, decision: FloatArray, under: FloatArray, over: FloatArray) -> FloatArray:
        """Return E[under max(y - d, 0) + over max(d - y, 0)] (n, k) of decisions d (n, k), with costs (n,) each."""
        under, over = under[:, None], over[:, None]
        apart = self.values - decision[:, :, None]
        unit = np.where(apart > 0.0, under[:, :, None] * apart, -over[:, :, None] * apart)
        found = np.asarray(np.einsum("nv,nkv->nk", self.shares, unit))
        if self.rest is None:
            return found
        known = excess_and_shortfall(self.rest, decision)
        if known is not None:
            return np.asarray(found + self.others[:, None] * _weighted(under, over, *known))
        parts = [expectation(self.rest, _linear(under, over, column[:, None])) for column in decision.T]
        return np.asarray(found + self.others[:, None] * np.stack(parts, axis=1))

    def expected(self, cost: Cost, tolerance: float) -> FloatArray:
        """Return the expectation (n,) of a cost."""
        found = np.zeros(len(self))
        if len(self.values):
            rows = np.arange(len(self))
            found = np.einsum("nv,nv->n", self.shares, cost(np.broadcast_to(self.values, self.shares.shape), rows))
        return found if self.rest is None else found + self.others * expectation(self.rest, cost, tolerance)


def _linear(under: FloatArray, over: FloatArray, decision: FloatArray) -> Cost:
    """Return the cost of a decision (n, 1) with unit costs (n, 1), as a function of targets."""
    return lambda y, rows: _weighted(under[rows], over[rows], y - decision[rows], decision[rows] - y)


def _weighted(under: FloatArray, over: FloatArray, excess: FloatArray, shortfall: FloatArray) -> FloatArray:
    """Return under max(excess, 0) + over max(shortfall, 0), where a cost of zero counts nothing."""
    with np.errstate(invalid="ignore", over="ignore"):
        pairs = ((under, excess), (over, shortfall))
        return np.asarray(sum(np.where(unit > 0.0, unit * np.maximum(part, 0.0), 0.0) for unit, part in pairs))


def numbers_per_row(name: str, given: object, n: int) -> tuple[FloatArray, bool]:
    """Return numbers (n, k) for each of n rows, and whether they were several per row.

    A number is that of all rows, an array (n,) one per row; several are a list, or an array (1, k) or (n, k).
    """
    numbers = read_numbers(name, given)
    is_list = isinstance(given, (list, tuple)) and numbers.ndim == 1
    if np.isnan(numbers).any():
        raise InvalidParameterError(f"{name} must be numbers; {int(np.isnan(numbers).sum())} of {numbers.size} are nan")
    k = len(numbers) if numbers.ndim == 1 else 0
    if (is_list and k == n and n > 1) or (numbers.ndim == 1 and not is_list and k != n):
        raise InvalidParameterError(
            f"{name} could be one per row or several for all rows; got {'a list' if is_list else 'an array'} of {k} "
            f"for {n} rows: for one per row give an array of shape ({n},), such as np.asarray(...), for several give "
            f"shape (1, {k}), such as [[...]]"
        )
    if numbers.ndim == 0 or (numbers.ndim == 1 and not is_list):
        return np.broadcast_to(numbers, n)[:, None], False
    several = numbers[None, :] if is_list else numbers
    if several.ndim != 2 or len(several) not in (1, n):
        raise InvalidParameterError(
            f"{name} must be a number, an array of shape ({n},), or several of shape (1, k) or ({n}, k); got shape "
            f"{numbers.shape}"
        )
    return np.broadcast_to(several, (n, several.shape[1])), True
