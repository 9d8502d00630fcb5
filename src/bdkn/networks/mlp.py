"""Trained networks as plain arrays: prediction, piecewise-linear encoding of inputs, and loss curves of training."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from bdkn.blocks import row_slices
from bdkn.errors import warn_user
from bdkn.networks.spec import (
    ACTIVATIONS,
    MEAN_VARIANCE,
    NO_BINS,
    NUMPY,
    Bins,
    Layer,
    NetworkSpec,
)
from bdkn.storage.fields import Instance, integers, must, singles, sizes, stored
from bdkn.threads import one_blas_thread, run_on_threads
from bdkn.typing import Array, BoolArray, Float32Array, FloatArray, IndexArray

if TYPE_CHECKING:
    from bdkn.networks.gpu.cuda import Cuda

_CHUNK_ROWS = 2048
"""Number of rows that are predicted at once in double precision."""

_DEVICE: ContextVar[Cuda | None] = ContextVar("bdkn device of predictions", default=None)
"""GPU that ``predict_on`` has set for predictions; None is the CPU."""


@contextmanager
def predict_on(device: Cuda | None) -> Iterator[None]:
    """Make networks predict on a GPU inside a ``with`` block, if there are enough rows; None is the CPU."""
    token = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(token)


def exact_outputs(spec: NetworkSpec, layers: Sequence[Layer], X: ArrayLike) -> tuple[Array, Array]:
    """Return the means and variances that H networks predict for n rows, each (H, n), by NumPy in double precision."""
    rows, wide = np.asarray(X), [(W.astype(np.float64), b.astype(np.float64)) for W, b in layers]
    means, variances = np.empty((2, len(layers[0][0]), len(rows)))
    activation = ACTIVATIONS[spec.activation].value

    def predict(part: slice) -> None:
        chunk = rows[part].astype(np.float64)
        for h in range(len(means)):
            value = chunk @ wide[0][0][h].T + wide[0][1][h]
            for W, b in wide[1:]:
                value = activation(value) @ W[h].T + b[h]
            means[h, part], variances[h, part] = spec.head.mean_and_variance(NUMPY, value)

    with one_blas_thread():
        run_on_threads(predict, row_slices(len(rows), _CHUNK_ROWS))
    return means, variances


class Predictor(Protocol):
    """Interface of H trained networks, which predict means and variances of scaled rows. Engines return them."""

    def __len__(self) -> int:
        """Return the number of networks, H."""

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> Predictor:
        """Return the networks with these numbers."""

    @classmethod
    def concatenate(cls, parts: Sequence[Any]) -> Predictor:
        """Return the networks of all parts as one object; all have this class and the same architecture."""

    def is_finite(self) -> BoolArray:
        """Return, for each network, whether all its weights are finite."""

    def outputs(self, X: Array) -> tuple[Array, Array]:
        """Return the means and variances that all networks predict for rows, each (H, n)."""


_FIT_ROWS = 50_000
"""Maximum number of rows from which bins are computed; from a larger table, evenly spaced rows are used."""

_MIN_SCALE = 1e-2
"""Minimum standard deviation by which a bin's feature is divided, for features that are equal in nearly all rows."""


@stored
@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """Encoding of standardized inputs that adds a feature per bin of a column: the position of the value in the bin.

    The feature of a bin is clip((x - lower) / width, 0, 1): 0 below the bin, 1 above it, linear within. A function that
    is linear in these features is continuous and piecewise linear in x, and constant outside the bins (Gorishniy et
    al., "On Embeddings for Numerical Features in Tabular Deep Learning", 2022). Features are standardized like the
    inputs. ``columns`` (m,), ``lower`` (m,) and ``width`` (m,) are the column, the lower limit and the width of each
    bin; ``mean`` (m,) and ``scale`` (m,) are the mean and the standard deviation of its feature.
    """

    columns: Annotated[IndexArray, integers("m")]
    lower: Annotated[Float32Array, singles("m")]
    width: Annotated[Float32Array, singles("m", above=0.0)]
    mean: Annotated[Float32Array, singles("m")]
    scale: Annotated[Float32Array, singles("m", above=0.0)]
    may_be_empty: ClassVar = ("m",)

    def check(self) -> None:
        """Raise unless the bins are sorted by column and, within a column, by lower limit."""
        same = np.diff(self.columns) == 0
        must(bool((np.diff(self.columns) >= 0).all()), "columns must be in order")
        must(bool((np.diff(self.lower)[same] > 0).all()), "the bins of a column must be in order")

    @classmethod
    def fit(cls, X: Float32Array, n_bins: int, counts: FloatArray | None = None) -> PiecewiseLinear:
        """Return the encoding with about ``n_bins`` bins per column, with about equal numbers of rows in each bin.

        A column with few distinct values has one bin between each two neighbouring values; with two values, no bins.
        """
        step = -(-len(X) // _FIT_ROWS)
        rows, share = X[::step], None if counts is None else counts[::step]
        edges = [_edges(column, n_bins, share) for column in rows.T]
        columns = np.repeat(np.arange(len(edges)), [max(0, len(edge) - 1) for edge in edges])
        lower = np.concatenate([edge[:-1] for edge in edges]).astype(np.float32)
        width = np.concatenate([np.diff(edge) for edge in edges]).astype(np.float32)
        features = np.clip((rows[:, columns] - lower) / width, 0.0, 1.0).astype(np.float64)
        mean = np.average(features, axis=0, weights=share)
        scale = np.sqrt(np.average((features - mean) ** 2, axis=0, weights=share))
        return cls(columns, lower, width, mean.astype(np.float32), np.maximum(scale, _MIN_SCALE).astype(np.float32))

    def __len__(self) -> int:
        return len(self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PiecewiseLinear) and self._bytes() == other._bytes()

    def __hash__(self) -> int:
        return hash(self._bytes())

    def _bytes(self) -> tuple[bytes, ...]:
        return tuple(part.tobytes() for part in (self.columns, self.lower, self.width, self.mean, self.scale))

    def transform(self, X: Array) -> Float32Array:
        """Return encoded inputs (n, p + m): the columns of ``X`` (n, p), then one feature for each of the m bins."""
        inputs = np.empty((len(X), X.shape[1] + len(self)), dtype=np.float32)
        inputs[:, : X.shape[1]] = X
        features = inputs[:, X.shape[1] :]
        np.subtract(X[:, self.columns], self.lower, out=features)
        np.divide(features, self.width, out=features)
        np.clip(features, 0.0, 1.0, out=features)
        np.subtract(features, self.mean, out=features)
        np.divide(features, self.scale, out=features)
        return inputs

    @property
    def bins(self) -> Bins:
        """The bins as arrays, for compiled code and GPU programs."""
        numbers = np.array([self.lower, self.width, self.mean, self.scale], dtype=np.float32)
        return Bins(self.columns.astype(np.int64), numbers)


def n_binned_columns(X: Float32Array) -> int:
    """Return the number of columns with more than two distinct values; only these columns get bins."""
    rows = X[:: -(-len(X) // _FIT_ROWS)]
    return sum(bool(((column > column.min()) & (column < column.max())).any()) for column in rows.T)


def _edges(column: Float32Array, n_bins: int, counts: FloatArray | None) -> FloatArray:
    """Return the sorted limits of a column's bins; an empty array if the column has at most two distinct values."""
    order = np.argsort(column, kind="stable")
    values = column[order].astype(np.float64)
    distinct = np.unique(values)
    if len(distinct) <= 2:
        return np.empty(0)
    if len(distinct) <= n_bins + 1:
        return distinct
    total = np.arange(1, len(values) + 1) if counts is None else np.cumsum(counts[order])
    levels = np.linspace(0.0, 1.0, n_bins + 1)[1:-1] * total[-1]
    inner = values[np.searchsorted(total, levels)]
    return np.unique(np.concatenate([values[:1], inner, values[-1:]]))


@stored
@dataclass(frozen=True)
class Networks:
    """H networks with the same architecture; each layer has weights W (H, n_out, n_in) and biases b (H, n_out)."""

    spec: NetworkSpec
    layers: tuple[Layer, ...]

    def check(self) -> None:
        """Raise unless the weights have the shapes that ``spec`` requires, and all have the same type."""
        self.spec.check_layers(self.layers)
        must(len(self) > 0, "must have at least one network")
        must(len({part.dtype for layer in self.layers for part in layer}) == 1, "all weights must have one type")

    @property
    def n_columns(self) -> int:
        """Number of columns of the rows that the networks predict."""
        return self.spec.n_inputs

    def __len__(self) -> int:
        return len(self.layers[0][0])

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> Networks:
        return Networks(self.spec, tuple((W[numbers], b[numbers]) for W, b in self.layers))

    @classmethod
    def concatenate(cls, parts: Sequence[Networks]) -> Networks:
        """Return the networks of all parts, which have the same architecture, as one object."""
        stacked = tuple(
            (np.concatenate([W for W, _ in layer]), np.concatenate([b for _, b in layer]))
            for layer in zip(*(part.layers for part in parts), strict=True)
        )
        return cls(parts[0].spec, stacked)

    def is_finite(self) -> BoolArray:
        """Return, for each network, whether all its weights are finite."""
        flat = np.concatenate([part.reshape(len(self), -1) for layer in self.layers for part in layer], axis=1)
        finite: BoolArray = np.isfinite(flat).all(axis=1)
        return finite

    def outputs(self, X: ArrayLike, encoding: PiecewiseLinear | None = None) -> tuple[Array, Array]:
        """Return the means and variances that all networks predict for rows, each (H, n), in double precision.

        ``encoding`` is applied to the rows first. Compiled code predicts on all cores, or on the GPU that
        ``predict_on`` sets; NumPy predicts if weights are in double precision or the head is not the default one. The
        outputs for a row do not depend on the other rows.
        """
        if self.layers[0][0].dtype != np.float32 or self.spec.head != MEAN_VARIANCE:
            inputs = X if encoding is None else encoding.transform(np.asarray(X))
            return exact_outputs(self.spec, self.layers, inputs)
        from bdkn.networks.compiled import check_rows, outputs_of, packing_of, prepare

        bins, device = NO_BINS if encoding is None else encoding.bins, _DEVICE.get()
        if device is not None:
            from bdkn.networks.gpu.prediction import can_predict, outputs_on

            if can_predict(device, self.spec, len(self), np.shape(X)[0]):
                try:
                    return outputs_on(device, self.spec, self.layers, check_rows(self.spec, X, bins), bins)
                except MemoryError as error:
                    warn_user(f"engine='gpu': predicted on the CPU instead: {error}", UserWarning)
        packed = self.__dict__.get("packed")
        if packed is None:  # once per object; threads that do it at the same time get equal arrays
            prepare()
            packed = self.__dict__["packed"] = packing_of(self.spec).packed(self.layers)
        return outputs_of(self.spec, packed, X, bins)

    def __getstate__(self) -> dict[str, Any]:
        return {"spec": self.spec, "layers": self.layers}  # packed weights are not stored, but computed again


def initial_networks(spec: NetworkSpec, generators: Sequence[np.random.Generator]) -> Networks:
    """Return networks with random initial weights, one network per generator."""
    drawn = zip(*(spec.initial_layers(generator) for generator in generators), strict=True)
    return Networks(spec, tuple((np.stack([W for W, _ in one]), np.stack([b for _, b in one])) for one in drawn))


@stored
@dataclass(frozen=True)
class EncodedNetworks:
    """Networks with the same architecture, and the encoding that is applied to their inputs."""

    encoding: PiecewiseLinear
    networks: Annotated[Predictor, Instance(Networks)]

    def check(self) -> None:
        """Raise unless the networks have one input per column and per bin, and all bins belong to existing columns."""
        n = self.n_columns
        must(n >= 1, "networks must have more inputs than there are bins")
        must(self.encoding.columns.max(initial=-1) < n, f"bins must be of columns from 0 to {n - 1}")

    @property
    def n_columns(self) -> int:
        """Number of columns of the rows that the networks predict."""
        return int(self.networks.n_columns) - len(self.encoding)  # type: ignore[attr-defined]

    @property
    def spec(self) -> tuple[PiecewiseLinear, Any]:
        """Encoding and architecture; networks can be concatenated if both are equal."""
        return self.encoding, getattr(self.networks, "spec", None)

    def __len__(self) -> int:
        return len(self.networks)

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> EncodedNetworks:
        return EncodedNetworks(self.encoding, self.networks[numbers])

    @classmethod
    def concatenate(cls, parts: Sequence[EncodedNetworks]) -> EncodedNetworks:
        """Return the networks of all parts, with equal encodings and architectures, as one object."""
        stacks = [part.networks for part in parts]
        return cls(parts[0].encoding, type(stacks[0]).concatenate(stacks))

    def is_finite(self) -> BoolArray:
        """Return, for each network, whether all its weights are finite."""
        return self.networks.is_finite()

    def outputs(self, X: Array) -> tuple[Array, Array]:
        """Return the means and variances that all networks predict for rows, each (H, n)."""
        if isinstance(self.networks, Networks):
            return self.networks.outputs(X, self.encoding)
        return self.networks.outputs(self.encoding.transform(X))


def with_encoding(encoding: PiecewiseLinear, networks: Predictor) -> Predictor:
    """Add the encoding to networks that were trained on encoded rows; the result predicts rows that are not encoded."""
    if isinstance(networks, MixedNetworks):
        return MixedNetworks(tuple(EncodedNetworks(encoding, stack) for stack in networks.stacks), networks.order)
    return EncodedNetworks(encoding, networks)


@stored
@dataclass(frozen=True)
class MixedNetworks:
    """Networks in one stack per architecture; network h is number ``order[h]`` if stacks are numbered one by one."""

    stacks: tuple[Annotated[Predictor, Instance("Networks", "EncodedNetworks"), sizes(p="n_columns")], ...]
    order: Annotated[IndexArray, integers("n")]

    def check(self) -> None:
        """Raise unless ``order`` has the number of each network exactly once."""
        total = sum(map(len, self.stacks))
        must(np.array_equal(np.sort(self.order), np.arange(total)), f"order must have each number below {total} once")

    @property
    def n_columns(self) -> int:
        """Number of columns of the rows that the networks predict."""
        return int(self.stacks[0].n_columns)  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> Predictor:
        chosen, kept, places, start = self.order[numbers], [], np.empty(0, dtype=np.intp), 0
        for stack in self.stacks:
            found = np.flatnonzero((start <= chosen) & (chosen < start + len(stack)))
            if len(found):
                kept.append(stack[chosen[found] - start])
                places = np.append(places, found)
            start += len(stack)
        return _mixed(tuple(kept), np.argsort(places))

    @classmethod
    def concatenate(cls, parts: Sequence[Predictor]) -> Predictor:
        """Return the networks of all parts as one object, in the order of the parts."""
        return join(parts)

    def is_finite(self) -> BoolArray:
        """Return, for each network, whether all its weights are finite."""
        return np.concatenate([stack.is_finite() for stack in self.stacks])[self.order]

    def outputs(self, X: Array) -> tuple[Array, Array]:
        """Return the means and variances that all networks predict for rows, each (H, n)."""
        means, variances = np.empty((2, len(self), len(X)))
        for stack, numbers in self.numbered_stacks():
            means[numbers], variances[numbers] = stack.outputs(X)
        return means, variances

    def numbered_stacks(self) -> Iterator[tuple[Predictor, IndexArray]]:
        """Yield each stack (networks with one architecture) and the numbers of its networks."""
        numbers, start = np.argsort(self.order), 0
        for stack in self.stacks:
            yield stack, numbers[start : start + len(stack)]
            start += len(stack)


def join(parts: Sequence[Predictor]) -> Predictor:
    """Return the networks of all parts as one object, in order; networks with equal architectures are in one stack."""
    groups: dict[Hashable, list[tuple[Predictor, IndexArray]]] = {}
    first = 0
    for part in parts:
        stacks = part.numbered_stacks() if isinstance(part, MixedNetworks) else [(part, np.arange(len(part)))]
        for stack, numbers in stacks:
            groups.setdefault((type(stack), getattr(stack, "spec", None)), []).append((stack, first + numbers))
        first += len(part)
    merged = tuple(type(same[0][0]).concatenate([stack for stack, _ in same]) for same in groups.values())
    return _mixed(merged, np.argsort(np.concatenate([numbers for same in groups.values() for _, numbers in same])))


def stacked(specs: Sequence[NetworkSpec], layers: Sequence[Sequence[Layer]]) -> Predictor:
    """Return networks as one object, from each network's spec and its layers, W (n_out, n_in) and b (n_out,)."""
    pairs = zip(specs, layers, strict=True)
    return join([Networks(spec, tuple((W[None], b[None]) for W, b in own)) for spec, own in pairs])


def _mixed(stacks: tuple[Predictor, ...], order: IndexArray) -> Predictor:
    """Return the networks of all stacks in the given order, as ``MixedNetworks``; a single stack is only reordered."""
    return stacks[0][order] if len(stacks) == 1 else MixedNetworks(stacks, order)


@dataclass(frozen=True)
class Trained:
    """Trained networks in the order of their jobs, with their losses and best epochs.

    Loss curves and validation curves have one value per epoch; validation curves are empty without early stopping. Each
    network has the weights after its best epoch; ``best_epochs`` count from 0.
    """

    networks: Predictor
    loss_curves: tuple[Array, ...]
    validation_curves: tuple[Array, ...]
    best_epochs: tuple[int, ...]

    @classmethod
    def join(cls, parts: Sequence[Trained], numbers: Sequence[int] | None = None) -> Trained:
        """Join the results of several trainings, part after part or, with ``numbers``, sorted by these numbers."""
        joined = cls(
            join([part.networks for part in parts]),
            tuple(curve for part in parts for curve in part.loss_curves),
            tuple(curve for part in parts for curve in part.validation_curves),
            tuple(epoch for part in parts for epoch in part.best_epochs),
        )
        return joined if numbers is None else joined[np.argsort(numbers)]

    def __getitem__(self, numbers: Sequence[int] | IndexArray) -> Trained:
        return Trained(
            self.networks[numbers],
            tuple(self.loss_curves[h] for h in numbers),
            tuple(self.validation_curves[h] for h in numbers),
            tuple(self.best_epochs[h] for h in numbers),
        )
