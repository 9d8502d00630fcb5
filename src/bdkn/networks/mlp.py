"""Stacks of trained networks: networks of one shape, and of several shapes, that predict together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import warn_user
from bdkn.lazy import lazy
from bdkn.networks.exact import exact_outputs
from bdkn.networks.head import MEAN_VARIANCE
from bdkn.networks.on_device import device_for, outputs_on
from bdkn.networks.spec import Layer, NetworkSpec
from bdkn.persistence.fields import Part, integers, must, sizes, stored
from bdkn.typing import Array, BoolArray, IndexArray

if TYPE_CHECKING:
    from bdkn.networks.compiled import Bins, Packed


class Predictor(Protocol):
    """H networks that map scaled rows to means and variances: the result of training, whatever the engine."""

    def __len__(self) -> int:
        """Return H."""

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> Predictor:
        """Return some of the networks."""

    @classmethod
    def concatenate(cls, parts: Sequence[Any]) -> Predictor:
        """Return the networks of all parts, which are of this class and of one shape."""

    def is_finite(self) -> BoolArray:
        """Return, for each network, whether all its weights are finite."""

    def outputs(self, X: Array) -> tuple[Array, Array]:
        """Return the means and variances of rows, each (H, n)."""


def initial_networks(spec: NetworkSpec, generators: Sequence[np.random.Generator]) -> Networks:
    """Draw the initial weights of one network from each generator."""
    drawn = [spec.initial_layers(generator) for generator in generators]
    layers = zip(*drawn, strict=True)
    return Networks(spec, tuple((np.stack([W for W, _ in layer]), np.stack([b for _, b in layer])) for layer in layers))


@stored
@dataclass(frozen=True)
class Networks:
    """H networks of one shape: for each layer W of shape (H, n_out, n_in) and b of shape (H, n_out)."""

    spec: NetworkSpec
    layers: tuple[Layer, ...]

    def check(self) -> None:
        """Raise unless weights have the shapes of ``spec``, before anything of a declared size is allocated."""
        self.spec.check_layers(self.layers)
        must(len(self) > 0, "must have at least one network")
        must(len({part.dtype for layer in self.layers for part in layer}) == 1, "all weights must have one type")

    @property
    def n_columns(self) -> int:
        """The number of columns that the networks receive."""
        return self.spec.n_inputs

    def __len__(self) -> int:
        return len(self.layers[0][0])

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> Networks:
        return Networks(self.spec, tuple((W[numbers], b[numbers]) for W, b in self.layers))

    @classmethod
    def concatenate(cls, parts: Sequence[Networks]) -> Networks:
        """Return all networks of several stacks of one shape."""
        layers = zip(*(part.layers for part in parts), strict=True)
        stacked = tuple(
            (np.concatenate([W for W, _ in layer]), np.concatenate([b for _, b in layer])) for layer in layers
        )
        return cls(parts[0].spec, stacked)

    def is_finite(self) -> BoolArray:
        """Return, for each network, whether all its weights are finite."""
        flat = np.concatenate([part.reshape(len(self), -1) for layer in self.layers for part in layer], axis=1)
        finite: BoolArray = np.isfinite(flat).all(axis=1)
        return finite

    def outputs(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return the means and variances of rows in double precision, each (H, n).

        Weights in single precision are computed with in single precision, by compiled code on all cores. Weights in
        double precision, which only a reference has, and heads other than the usual one are left to NumPy. The outputs
        for a row do not depend on the other rows.
        """
        return self.outputs_with(X) if self.is_compiled else exact_outputs(self.spec, self.layers, X)

    def outputs_with(self, X: ArrayLike, bins: Bins | None = None) -> tuple[Array, Array]:
        """Return the means and variances of rows by compiled code, whose inputs are columns and features of bins."""
        from bdkn.networks.compiled import NO_BINS

        used = NO_BINS if bins is None else bins
        device = device_for(self.spec, len(self), np.shape(X)[0])
        if device is not None:
            try:
                return outputs_on(device, self.spec, self.layers, self.packed.checked(X, used), used)
            except MemoryError as error:
                warn_user(f"engine='gpu': predicted on the CPU instead: {error}", UserWarning)
        return self.packed.outputs(X, bins=used)

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code can predict with these networks."""
        return bool(self.layers[0][0].dtype == np.float32 and self.spec.head == MEAN_VARIANCE)

    def __getstate__(self) -> dict[str, Any]:
        return {"spec": self.spec, "layers": self.layers}  # what is packed can be packed again

    @lazy
    def packed(self) -> Packed:
        """The networks as compiled code takes them."""
        from bdkn.networks.compiled import Packed, prepare

        prepare()
        return Packed.of(self.spec, self.layers)


@stored
@dataclass(frozen=True)
class MixedNetworks:
    """Networks of several shapes: network h is number ``order[h]`` of the stacks, taken one after the other."""

    stacks: tuple[Annotated[Predictor, Part("Networks", "EncodedNetworks"), sizes(p="n_columns")], ...]
    order: Annotated[IndexArray, integers("n")]

    def check(self) -> None:
        """Raise unless each network has its place."""
        total = sum(map(len, self.stacks))
        must(np.array_equal(np.sort(self.order), np.arange(total)), f"order must have each number below {total} once")

    @property
    def n_columns(self) -> int:
        """The number of columns that the networks receive."""
        return int(self.stacks[0].n_columns)  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> Predictor:
        wanted, kept, places, start = self.order[numbers], [], np.empty(0, dtype=np.intp), 0
        for stack in self.stacks:
            found = np.flatnonzero((start <= wanted) & (wanted < start + len(stack)))
            if len(found):
                kept.append(stack[wanted[found] - start])
                places = np.append(places, found)
            start += len(stack)
        return _mixed(tuple(kept), np.argsort(places))

    @classmethod
    def concatenate(cls, parts: Sequence[Predictor]) -> Predictor:
        """Return the networks of all parts, in their order; those of one shape share a stack."""
        return join(parts)

    def is_finite(self) -> BoolArray:
        """Return, for each network, whether all its weights are finite."""
        return np.concatenate([stack.is_finite() for stack in self.stacks])[self.order]

    def outputs(self, X: Array) -> tuple[Array, Array]:
        """Return the means and variances of rows, each (H, n)."""
        means, variances = np.empty((2, len(self), len(X)))
        places, start = np.argsort(self.order), 0
        for stack in self.stacks:
            numbers = places[start : start + len(stack)]
            means[numbers], variances[numbers] = stack.outputs(X)
            start += len(stack)
        return means, variances


def join(parts: Sequence[Predictor]) -> Predictor:
    """Return the networks of all parts, in their order; those of one shape share a stack."""
    by_shape: dict[Hashable, list[Predictor]] = {}
    places: dict[Hashable, list[IndexArray]] = {}
    first = 0
    for part in parts:
        stacks, order = (part.stacks, part.order) if isinstance(part, MixedNetworks) else ((part,), range(len(part)))
        by_stack = np.split(first + np.argsort(order), np.cumsum([len(stack) for stack in stacks])[:-1])
        for stack, numbers in zip(stacks, by_stack, strict=True):
            shape = type(stack), getattr(stack, "spec", None)
            by_shape.setdefault(shape, []).append(stack)
            places.setdefault(shape, []).append(numbers)
        first += len(part)
    merged = tuple(type(same[0]).concatenate(same) for same in by_shape.values())
    return _mixed(merged, np.argsort(np.concatenate([numbers for found in places.values() for numbers in found])))


def _mixed(stacks: tuple[Predictor, ...], order: IndexArray) -> Predictor:
    """Return the stacks as one; a single one needs no other around it."""
    return stacks[0][order] if len(stacks) == 1 else MixedNetworks(stacks, order)
