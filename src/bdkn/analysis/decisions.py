"""Probabilities above thresholds, expected costs and optimal order quantities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bdkn.arrays import read_numbers
from bdkn.data.rows import as_frame
from bdkn.errors import InvalidParameterError, check_number
from bdkn.model.value_model import quantiles_with_masses
from bdkn.predictive import Predictive
from bdkn.predictive.expectation import excess_and_shortfall, expectation
from bdkn.predictive.transformed import TargetMap, row_quantiles
from bdkn.typing import FloatArray, IndexArray

Cost = Callable[[FloatArray, IndexArray], FloatArray]
"""Type of cost functions: they return costs (m, k), given targets (m, k) and the numbers (m,) of their rows."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predicted distributions of n targets: point masses at ``values`` (k,) with probabilities ``shares`` (n, k).

    ``rest`` is the distribution of targets that differ from all these values; None if there are no such targets.
    Intervals, probabilities and expected costs are computed from these distributions.
    """

    values: FloatArray
    shares: FloatArray
    rest: Predictive | None

    @classmethod
    def of(cls, dist: Predictive) -> Outcome:
        """Return an ``Outcome`` without point masses, from predicted distributions."""
        return cls(np.empty(0), np.empty((len(dist), 0)), dist)

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def others(self) -> FloatArray:
        """Probability (n,) of a target that differs from all ``values``."""
        return np.clip(1.0 - self.shares.sum(axis=1), 0.0, 1.0) if len(self.values) else np.ones(len(self))

    def restored(self, transformation: TargetMap) -> Outcome:
        """Return the outcome in the original units of the targets, before ``transformation`` was applied to them."""
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
        """Return the expected costs E[under max(y - d, 0) + over max(d - y, 0)] (n, k) of decisions d (n, k)."""
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
        """Return the expected cost (n,) of each row, for a cost that is a function of the target."""
        found = np.zeros(len(self))
        if len(self.values):
            rows = np.arange(len(self))
            found = np.einsum("nv,nv->n", self.shares, cost(np.broadcast_to(self.values, self.shares.shape), rows))
        return found if self.rest is None else found + self.others * expectation(self.rest, cost, tolerance)


def _linear(under: FloatArray, over: FloatArray, decision: FloatArray) -> Cost:
    """Return a function of targets: the linear cost of the decision (n, 1) with the unit costs (n, 1) of each row."""
    return lambda y, rows: _weighted(under[rows], over[rows], y - decision[rows], decision[rows] - y)


def _weighted(under: FloatArray, over: FloatArray, excess: FloatArray, shortfall: FloatArray) -> FloatArray:
    """Return the linear cost under max(excess, 0) + over max(shortfall, 0), where zero times infinity is zero."""
    with np.errstate(invalid="ignore", over="ignore"):
        pairs = ((under, excess), (over, shortfall))
        return np.asarray(sum(np.where(unit > 0.0, unit * np.maximum(part, 0.0), 0.0) for unit, part in pairs))


def numbers_per_row(name: str, given: object, n: int) -> tuple[FloatArray, bool]:
    """Return thresholds or decisions as an array (n, k), and whether several per row were given.

    A number applies to all n rows; an array (n,) has one per row; a list, or an array (1, k) or (n, k), has several.
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


CostGiven = Callable[..., Any] | tuple[float, float]


@dataclass(frozen=True, eq=False)
class Order:
    """Optimal orders for each row, with their expected costs. Made by ``optimal_order``.

    Parameters
    ----------
    quantity : array (n,)
        The order with the least expected cost: the quantile of the target at ``level``.
    cost : array (n,)
        Expected cost of this order.
    level : array (n,)
        under / (under + over): the probability that the target does not exceed the order.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> X = np.linspace(-1.0, 1.0, 60)[:, None]
    >>> model = BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
    >>> order = model.optimal_order(X[:2], under=3.0, over=1.0)
    >>> order.level.tolist()
    [0.75, 0.75]
    """

    quantity: FloatArray
    cost: FloatArray
    level: FloatArray

    def table(self) -> dict[str, FloatArray]:
        """Return a dict of the columns ``quantity``, ``cost`` and ``level``."""
        return {"quantity": self.quantity, "cost": self.cost, "level": self.level}

    def to_frame(self) -> Any:
        """Return ``table`` as a pandas data frame, one row per order."""
        return as_frame(self.table())


def check_quantiles(quantiles: ArrayLike) -> FloatArray:
    """Return the levels of quantiles as a one-dimensional array; raise unless they are probabilities."""
    levels = np.atleast_1d(read_numbers("quantiles", quantiles))
    if levels.ndim > 1 or not levels.size:
        raise InvalidParameterError(f"quantiles must be a level, or a list of levels; got shape {levels.shape}")
    for level in levels:
        check_number("each level in quantiles", float(level), low=0, high=1)
    return levels


def probability_above(outcome: Outcome, threshold: ArrayLike) -> FloatArray:
    """Return the probabilities P(y > threshold): shape (n,), or (n, k) for several thresholds."""
    numbers, several = numbers_per_row("threshold", threshold, len(outcome))
    found = outcome.above(numbers)
    return found if several else found[:, 0]


def expected_cost(
    outcome: Outcome, cost: CostGiven, decision: ArrayLike | None = None, tolerance: float = 1e-6
) -> FloatArray:
    """Return the expected cost of each row: shape (n,), or (n, k) for several decisions."""
    check_number("tolerance", tolerance, low=1e-12, high=0.1)
    if not callable(cost):
        return _linear_cost(outcome, cost, decision)
    if decision is None:
        return outcome.expected(_checked_cost(cost), tolerance)
    numbers, several = numbers_per_row("decision", decision, len(outcome))
    columns = [outcome.expected(_checked_cost(cost, column), tolerance) for column in numbers.T]
    return np.stack(columns, axis=1) if several else columns[0]


def optimal_order(outcome: Outcome, under: ArrayLike, over: ArrayLike) -> Order:
    """Return the order with the least expected cost for each row, given the unit costs of too little and too much."""
    n = len(outcome)
    costs = [_unit_cost(name, given, n) for name, given in (("under", under), ("over", over))]
    total = costs[0] + costs[1]
    if not (total > 0.0).all():
        raise InvalidParameterError("under and over must not both be 0, where every order costs nothing")
    level = costs[0] / total
    if not ((level > 0.0) & (level < 1.0)).all():
        raise InvalidParameterError(
            "under and over must be > 0: if one of them is free, the best order has no bound; got a least under of "
            f"{costs[0].min():g} and a least over of {costs[1].min():g}"
        )
    quantity = outcome.quantiles(level)
    return Order(quantity, outcome.linear_cost(quantity[:, None], *costs)[:, 0], level)


def _linear_cost(outcome: Outcome, cost: Any, decision: ArrayLike | None) -> FloatArray:
    if not (isinstance(cost, (tuple, list)) and len(cost) == 2):
        raise InvalidParameterError(
            "cost must be a function of the target, or a pair (under, over): the cost of each unit by which the "
            f"target is above the decision, and of each unit by which it is below; got {cost!r}"
        )
    if decision is None:
        raise InvalidParameterError("a cost (under, over) is that of a decision: give decision=, a number per row")
    numbers, several = numbers_per_row("decision", decision, len(outcome))
    if not np.isfinite(numbers).all():
        raise InvalidParameterError("decision must be finite; some are not")
    under, over = (_unit_cost(name, given, len(outcome)) for name, given in zip(("under", "over"), cost, strict=True))
    found = outcome.linear_cost(numbers, under, over)
    return found if several else found[:, 0]


def _unit_cost(name: str, given: ArrayLike, n: int) -> FloatArray:
    """Return a unit cost as an array (n,); raise unless it is one number, or one per row, finite and at least 0."""
    numbers, several = numbers_per_row(name, given, n)
    if several:
        raise InvalidParameterError(f"{name} must be a number, or an array with one number per row; got several")
    if not (np.isfinite(numbers) & (numbers >= 0.0)).all():
        raise InvalidParameterError(f"{name} must be finite and >= 0; got {numbers[~(numbers >= 0.0)][:1]}")
    return np.ascontiguousarray(numbers[:, 0])


def _checked_cost(cost: Callable[..., Any], decision: FloatArray | None = None) -> Cost:
    """Return a function of targets and row numbers that calls the user's ``cost`` and checks what it returns."""

    def of_rows(y: FloatArray, rows: IndexArray) -> FloatArray:
        arguments = (y,) if decision is None else (y, np.broadcast_to(decision[rows, None], y.shape))
        try:
            found = np.asarray(cost(*arguments), dtype=np.float64)
        except TypeError as error:
            raise InvalidParameterError(
                "cost must be a function of arrays, of targets or of targets and decisions, such as lambda y: "
                f"np.maximum(y - 10, 0); this one raised TypeError: {error}"
            ) from error
        if found.ndim == 0:
            return np.full(y.shape, found)
        if found.shape != y.shape:
            raise InvalidParameterError(
                "cost must be a function of arrays that returns a cost for each number, such as "
                f"lambda y: np.maximum(y - 10, 0); given shape {y.shape} it returned shape {found.shape}"
            )
        return found

    return of_rows
