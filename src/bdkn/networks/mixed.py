"""Networks of several shapes as one stack."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bdkn.networks.predictor import Predictor
from bdkn.typing import Array


@dataclass(frozen=True)
class MixedNetworks:
    """Stacks of one shape each; network h of all is number ``order[h]`` in the stacks put one after the other."""

    stacks: tuple[Predictor, ...]
    order: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, members: Sequence[int] | NDArray[np.intp]) -> Predictor:
        wanted, kept, places, start = self.order[members], [], np.empty(0, dtype=np.intp), 0
        for stack in self.stacks:
            mine = np.flatnonzero((start <= wanted) & (wanted < start + len(stack)))
            if len(mine):
                kept.append(stack[wanted[mine] - start])
                places = np.append(places, mine)
            start += len(stack)
        return _stacked(tuple(kept), np.argsort(places))

    @classmethod
    def concatenate(cls, parts: Sequence[Predictor]) -> Predictor:
        """Return the networks of all parts, in their order; those of one shape share a stack."""
        return join(parts)

    def is_finite(self) -> NDArray[np.bool_]:
        """Tell for each network whether all its weights are finite."""
        return np.concatenate([stack.is_finite() for stack in self.stacks])[self.order]

    def outputs(self, X: Array) -> tuple[Array, Array]:
        """Return means and variances, each of shape (H, n)."""
        means, variances = zip(*(stack.outputs(X) for stack in self.stacks), strict=True)
        return np.concatenate(means)[self.order], np.concatenate(variances)[self.order]


def join(parts: Sequence[Predictor]) -> Predictor:
    """Return the networks of all parts, in their order; those of one shape share a stack."""
    stocks: dict[Hashable, list[Predictor]] = {}
    places: dict[Hashable, list[NDArray[np.intp]]] = {}
    first = 0
    for part in parts:
        stacks, order = (part.stacks, part.order) if isinstance(part, MixedNetworks) else ((part,), range(len(part)))
        by_stack = np.split(first + np.argsort(order), np.cumsum([len(stack) for stack in stacks])[:-1])
        for stack, numbers in zip(stacks, by_stack, strict=True):
            shape = type(stack), getattr(stack, "spec", None)
            stocks.setdefault(shape, []).append(stack)
            places.setdefault(shape, []).append(numbers)
        first += len(part)
    merged = tuple(type(stock[0]).concatenate(stock) for stock in stocks.values())
    return _stacked(merged, np.argsort(np.concatenate([numbers for found in places.values() for numbers in found])))


def _stacked(stacks: tuple[Predictor, ...], order: NDArray[np.intp]) -> Predictor:
    """Return the stacks as one; a single one needs no other around it."""
    return stacks[0][order] if len(stacks) == 1 else MixedNetworks(stacks, order)
