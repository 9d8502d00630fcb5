"""Multilayer perceptrons: shapes, activations, weights and prediction.

A formula that takes its functions from here, as an argument ``fn``, serves every engine.

These two functions are the compiled twins of the table, in ``bdkn.networks.compiled``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from bdkn.errors import InvalidParameterError, check_choice, check_number, warn_user
from bdkn.lazy import lazy
from bdkn.networks.gpu.cuda import PREDICT, Device, upload
from bdkn.storage.fields import Part, floats, integers, must, sizes, stored
from bdkn.threads import one_blas_thread, run_on_threads
from bdkn.typing import Array, BoolArray, Float32Array, FloatArray, IndexArray

if TYPE_CHECKING:
    from bdkn.networks.compiled import Bins, Packed


Values = Any
"""A NumPy array or a PyTorch tensor."""

_IS_LINEAR = 40
"""From here on PyTorch takes softplus for the identity; its default of 20 would show in double precision."""


@dataclass(frozen=True, kw_only=True)
class Functions:
    """Functions of arrays, element by element; ``stack`` joins arrays along a new last axis."""

    abs: Callable[[Values], Values]
    exp: Callable[[Values], Values]
    log: Callable[[Values], Values]
    log1p: Callable[[Values], Values]
    sign: Callable[[Values], Values]
    sqrt: Callable[[Values], Values]
    tanh: Callable[[Values], Values]
    sigmoid: Callable[[Values], Values]
    softplus: Callable[[Values], Values]
    where: Callable[[Values, Values, Values], Values]
    ones_like: Callable[[Values], Values]
    zeros_like: Callable[[Values], Values]
    stack: Callable[[list[Values]], Values]


def softplus(raw: Array) -> Array:
    """Return log(1 + exp(raw)) without overflow."""
    return np.logaddexp(raw, raw.dtype.type(0))


_SHARED = ("abs", "exp", "log", "log1p", "sign", "sqrt", "tanh", "where", "ones_like", "zeros_like")
"""Functions that NumPy and PyTorch both have, under these names."""

NUMPY = Functions(
    **{name: getattr(np, name) for name in _SHARED},
    sigmoid=expit,
    softplus=softplus,
    stack=lambda parts: np.stack(parts, axis=-1),
)


@cache
def torch_functions() -> Functions:
    """Return the functions of PyTorch tensors; imports PyTorch."""
    import torch

    return Functions(
        **{name: getattr(torch, name) for name in _SHARED},
        sigmoid=torch.sigmoid,
        softplus=lambda raw: torch.nn.functional.softplus(raw, threshold=_IS_LINEAR),
        stack=lambda parts: torch.stack(parts, dim=-1),
    )


LEAK = 0.01
"""Slope of leaky_relu below zero, PyTorch's default."""


@dataclass(frozen=True)
class Activation:
    """An activation: its values in NumPy and in PyTorch, its slope in either, and its number in compiled code."""

    name: str
    code: int
    value: Callable[[Array], Array]
    slope: Callable[[Functions, Values], Values]
    torch_name: str

    @lazy
    def torch(self) -> Callable[[Any], Any]:
        """The function of PyTorch; imports PyTorch."""
        import torch

        found: Any = torch
        for name in self.torch_name.split("."):
            found = getattr(found, name)
        return cast(Callable[[Any], Any], found)


def _silu_slope(fn: Functions, z: Values) -> Values:
    s = fn.sigmoid(z)
    return s * (1 + z * (1 - s))


_TABLE = (
    Activation(
        "relu",
        0,
        lambda z: np.maximum(z, 0),
        lambda fn, z: fn.where(z > 0, fn.ones_like(z), 0.0),
        "relu",
    ),
    Activation(
        "leaky_relu",
        1,
        lambda z: np.where(z > 0, z, LEAK * z),
        lambda fn, z: fn.where(z > 0, fn.ones_like(z), LEAK),
        "nn.functional.leaky_relu",
    ),
    Activation(
        "tanh",
        2,
        np.tanh,
        lambda fn, z: 1 - fn.tanh(z) ** 2,
        "tanh",
    ),
    Activation(
        "silu",
        3,
        lambda z: z * expit(z),
        _silu_slope,
        "nn.functional.silu",
    ),
)

ACTIVATIONS = {activation.name: activation for activation in _TABLE}
"""Every activation by its name."""


def activate(name: str, z: Array) -> Array:
    """Return the activation of pre-activations ``z``."""
    return ACTIVATIONS[name].value(z)


def slope(name: str, z: Array) -> Array:
    """Return the activation's derivative at pre-activations ``z``."""
    found: Array = ACTIVATIONS[name].slope(NUMPY, z)
    return found


MIN_VARIANCE = 1e-6
"""Added to the softplus of the raw variance, as in Lakshminarayanan et al. (2017)."""


class Head(Protocol):
    """Maps the outputs of a network to means and variances; hashable, equal heads compare equal.

    The first output is the mean: it is what squared error trains.
    """

    @property
    def n_outputs(self) -> int:
        """How many outputs a network with this head has."""

    def mean_and_variance(self, fn: Functions, outputs: Values) -> tuple[Values, Values]:
        """Return the mean and the variance (...,) of outputs (..., n_outputs)."""


@stored
@dataclass(frozen=True)
class MeanVarianceHead:
    """Two outputs: the mean, and a raw variance r; the variance is softplus(r) + 1e-6."""

    n_outputs: ClassVar[int] = 2

    def mean_and_variance(self, fn: Functions, outputs: Values) -> tuple[Values, Values]:
        """Return the mean and the variance (...,) of outputs (..., 2)."""
        return outputs[..., 0], fn.softplus(outputs[..., 1]) + MIN_VARIANCE

    def variance_slope(self, fn: Functions, outputs: Values) -> Values:
        """Return the derivative of the variance by the raw variance."""
        return fn.sigmoid(outputs[..., 1])


MEAN_VARIANCE = MeanVarianceHead()
"""The head of every network unless another is given. Compiled code has the same formula, in single precision."""


Weights = Annotated[Array, floats(..., types=("f4", "f8"))]

Layer = tuple[Weights, Weights]
"""A weight matrix W (..., n_out, n_in) and a bias b (..., n_out)."""


@stored
@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """A fully connected network: its inputs, hidden layers, activation, and the head that reads its outputs."""

    n_inputs: int
    hidden: tuple[int, ...] = (50, 50)
    activation: str = "relu"
    head: Annotated[Head, Part(MeanVarianceHead)] = MEAN_VARIANCE

    def __post_init__(self) -> None:
        check_number("n_inputs", self.n_inputs, low=1, whole=True)
        for width in self.hidden:
            check_number("each of hidden_layer_sizes", width, low=1, whole=True)
        check_choice("activation", self.activation, ACTIVATIONS)

    @property
    def widths(self) -> tuple[int, ...]:
        """Units per layer, inputs first, outputs last."""
        return (self.n_inputs, *self.hidden, self.head.n_outputs)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(outputs, inputs) of each layer's weight matrix."""
        widths = self.widths
        return tuple(zip(widths[1:], widths[:-1], strict=True))

    @property
    def n_parameters(self) -> int:
        """Weights and biases of one network."""
        return sum(n_out * (n_in + 1) for n_out, n_in in self.shapes)

    def check_layers(self, layers: Sequence[Layer]) -> None:
        """Raise unless layers of stacked networks, W (H, n_out, n_in) and b (H, n_out), have this shape."""
        H = len(layers[0][0]) if layers and layers[0][0].ndim else 0
        wanted = [((H, n_out, n_in), (H, n_out)) for n_out, n_in in self.shapes]
        found = [(W.shape, b.shape) for W, b in layers]
        if found != wanted:
            raise InvalidParameterError(f"layers must have the shapes {wanted}; got {found}")

    def initial_layers(self, generator: np.random.Generator) -> list[Layer]:
        """Draw weights and biases uniform in ±1/√n_in, as PyTorch's ``nn.Linear`` does, in single precision."""
        layers: list[Layer] = []
        for n_out, n_in in self.shapes:
            bound = 1 / np.sqrt(n_in)
            W = generator.uniform(-bound, bound, (n_out, n_in)).astype(np.float32)
            b = generator.uniform(-bound, bound, n_out).astype(np.float32)
            layers.append((W, b))
        return layers


def padded(n: int) -> int:
    """Return the next multiple of eight: products are computed in tiles of eight numbers."""
    return (n + 7) & ~7


@dataclass(frozen=True)
class Packing:
    """Where the weights of one network lie: layer after layer, row k the weights of input k, then a row of biases."""

    spec: NetworkSpec

    @cached_property
    def places(self) -> tuple[tuple[int, int, int], ...]:
        """Where each layer begins, its rows, and the numbers of a row."""
        places, start = [], 0
        for n_out, n_in in self.spec.shapes:
            places.append((start, padded(n_in + 1), padded(n_out)))
            start += padded(n_in + 1) * padded(n_out)
        return tuple(places)

    @cached_property
    def size(self) -> int:
        """Numbers of one network."""
        start, rows, columns = self.places[-1]
        return start + rows * columns

    def _views(self, flat: Float32Array) -> Iterator[Float32Array]:
        return (
            flat[..., start : start + rows * columns].reshape(*flat.shape[:-1], rows, columns)
            for start, rows, columns in self.places
        )

    def pack(self, layers: Sequence[Layer], into: Float32Array) -> None:
        """Write the weights of one network, or of a stack (J, ...), into zeros of shape (..., size)."""
        for view, (W, b) in zip(self._views(into), layers, strict=True):
            n_out, n_in = W.shape[-2:]
            view[..., :n_in, :n_out] = W.mT
            view[..., n_in, :n_out] = b

    def unpack(self, flat: Float32Array) -> tuple[Layer, ...]:
        """Return the weights (J, n_out, n_in) and biases (J, n_out) of every layer of networks (J, size)."""
        return tuple(
            (np.ascontiguousarray(view[:, :n_in, :n_out].mT), view[:, n_in, :n_out].copy())
            for view, (n_out, n_in) in zip(self._views(flat), self.spec.shapes, strict=True)
        )


@lru_cache(maxsize=256)
def packing_of(spec: NetworkSpec) -> Packing:
    """Return the packing of networks of one shape."""
    return Packing(spec)


_CHUNK_ROWS = 2048
"""Rows per forward pass."""


def exact_outputs(spec: NetworkSpec, layers: Sequence[Layer], X: ArrayLike) -> tuple[Array, Array]:
    """Return the means and variances, each (H, n), of stacked networks."""
    rows, wide = np.asarray(X), [(W.astype(np.float64), b.astype(np.float64)) for W, b in layers]
    means = np.empty((len(layers[0][0]), len(rows)))
    variances = np.empty_like(means)

    def fill(part: slice) -> None:
        chunk = rows[part].astype(np.float64)
        for h in range(len(means)):
            out = _forward(spec.activation, [(W[h], b[h]) for W, b in wide], chunk)
            means[h, part], variances[h, part] = spec.head.mean_and_variance(NUMPY, out)

    with one_blas_thread():
        run_on_threads(fill, [slice(start, start + _CHUNK_ROWS) for start in range(0, len(rows), _CHUNK_ROWS)])
    return means, variances


def _forward(activation: str, layers: Sequence[Layer], value: Array) -> Array:
    for W, b in layers[:-1]:
        value = activate(activation, value @ W.T + b)
    W, b = layers[-1]
    return value @ W.T + b


MAX_LAYERS = 10

_LEAST_PRODUCTS = 1e9
"""Multiplications of a call from which on a device is used: a twenty-fifth of a second on one core."""

_OUTPUTS = 2**26
"""Outputs that are on the device at a time."""

_BATCHES = (64, 32, 16, 8)
"""Rows that a block predicts at a time, as many as there is shared memory for."""

_FORWARD = np.dtype(
    [(name, np.uint64) for name in ("X", "weights", "bins", "bin_columns", "means", "variances")]
    + [("n_rows", np.int64)]
    + [(name, np.int32) for name in ("n_columns", "n_bins", "n_layers", "activation", "size", "batch", "parts")]
    + [("width", np.int32, MAX_LAYERS), ("unused", np.int32)]
)

_device: ContextVar[Device | None] = ContextVar("bdkn device of predictions", default=None)


@contextmanager
def predict_on(device: Device | None) -> Iterator[None]:
    """Let networks predict on a device inside the block, where rows are many; None: on the CPU."""
    token = _device.set(device)
    try:
        yield
    finally:
        _device.reset(token)


def device_for(spec: NetworkSpec, n_networks: int, n_rows: int) -> Device | None:
    """Return the device for a prediction of so many rows, None if the CPU is to be used."""
    device = _device.get()
    if device is None or 1.0 * n_networks * n_rows * spec.n_parameters < _LEAST_PRODUCTS:
        return None
    return device if len(spec.hidden) < MAX_LAYERS and _batch(packing_of(spec), device) is not None else None


def outputs_on(
    device: Device, spec: NetworkSpec, layers: Sequence[Layer], X: ArrayLike, bins: Bins
) -> tuple[FloatArray, FloatArray]:
    """Return the means and variances of rows, each (H, n): the numbers of the CPU up to rounding.

    ``bins`` are those of an encoding; their features are inputs that follow the columns of ``X``.
    """
    rows, packing, n_networks = np.ascontiguousarray(X, dtype=np.float32), packing_of(spec), len(layers[0][0])
    weights = np.zeros((n_networks, packing.size), dtype=np.float32)
    packing.pack(layers, weights)
    place = upload(device, weights)
    numbers, columns = upload(device, bins.numbers), upload(device, bins.columns.astype(np.int32))
    means, variances = np.empty((2, n_networks, len(rows)))
    queue, step = device.queue(), max(1, _OUTPUTS // n_networks)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        shape = (n_networks, len(part))
        given, found = upload(device, part), [device.allocate(4 * n_networks * len(part)) for _ in range(2)]
        call = _call(device, packing, n_networks, part, len(bins.columns))
        pointers = (given, place, numbers, columns, *found)
        for name, buffer in zip(("X", "weights", "bins", "bin_columns", "means", "variances"), pointers, strict=True):
            call[name] = buffer.address
        blocks, batch = n_networks * int(call["parts"][0]), int(call["batch"][0])
        device.launch(queue, PREDICT, call.tobytes(), blocks, _shared_bytes(packing, batch, device.threads))
        device.wait(queue)
        for into, buffer in zip((means, variances), found, strict=True):
            into[:, start : start + step] = device.download(buffer, np.float32, shape)
    return means, variances


def _call(device: Device, packing: Packing, n_networks: int, rows: Float32Array, n_bins: int) -> np.ndarray:
    """Return the arguments of the program that are not addresses."""
    call, batch, spec = np.zeros(1, dtype=_FORWARD), _batch(packing, device), packing.spec
    assert batch is not None
    parts = min(-(-len(rows) // batch), -(-4 * device.multiprocessors // n_networks))
    call["n_rows"], call["n_columns"], call["n_bins"] = len(rows), rows.shape[1], n_bins
    call["n_layers"], call["activation"] = len(spec.shapes), ACTIVATIONS[spec.activation].code
    call["size"], call["batch"], call["parts"] = packing.size, batch, parts
    call["width"][0, : len(spec.shapes)] = spec.widths[1:]
    return call


def _batch(packing: Packing, device: Device) -> int | None:
    """Return the rows that a block predicts at a time; None if there is too little shared memory for any."""
    fitting = (n for n in _BATCHES if _shared_bytes(packing, n, device.threads) <= device.shared_bytes)
    return next(fitting, None)


def _shared_bytes(packing: Packing, batch: int, threads: int) -> int:
    rows = padded(batch)
    beyond = 8 * max(rows, *(columns for _, _, columns in packing.places))  # tiles of 16 rows may read so far
    return 4 * (packing.size + sum(n for _, n, _ in packing.places) * rows + beyond)


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
