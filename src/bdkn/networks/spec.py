"""The shape of networks: activations, output heads, architectures, and layouts of weights.

Formulas receive the functions of arrays as an argument ``fn``, so that they work with NumPy and with PyTorch.
``bdkn.networks.compiled`` and ``bdkn.networks.gpu`` have compiled versions of activations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bdkn.errors import InvalidParameterError, check_choice, check_number
from bdkn.storage.fields import Instance, floats, stored
from bdkn.typing import Array, Float32Array

Values = Any
"""A NumPy array or a PyTorch tensor."""

_SOFTPLUS_THRESHOLD = 40
"""Value above which PyTorch replaces softplus by the identity; its default of 20 is too inaccurate in double precision.
"""


@dataclass(frozen=True, kw_only=True)
class Functions:
    """Element-wise functions of arrays; ``stack`` joins arrays along a new last axis."""

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


_COMMON_NAMES = ("abs", "exp", "log", "log1p", "sign", "sqrt", "tanh", "where", "ones_like", "zeros_like")
"""Functions that have the same name in NumPy and PyTorch."""

NUMPY = Functions(
    **{name: getattr(np, name) for name in _COMMON_NAMES},
    sigmoid=expit,
    softplus=softplus,
    stack=lambda parts: np.stack(parts, axis=-1),
)


@cache
def torch_functions() -> Functions:
    """Return the functions of PyTorch tensors; imports PyTorch."""
    import torch

    return Functions(
        **{name: getattr(torch, name) for name in _COMMON_NAMES},
        sigmoid=torch.sigmoid,
        softplus=lambda raw: torch.nn.functional.softplus(raw, threshold=_SOFTPLUS_THRESHOLD),
        stack=lambda parts: torch.stack(parts, dim=-1),
    )


LEAK = 0.01
"""Slope of leaky_relu below zero, PyTorch's default."""


@dataclass(frozen=True)
class Activation:
    """An activation function: its number in compiled code, its value in NumPy, its slope in NumPy or PyTorch."""

    name: str
    code: int
    value: Callable[[Array], Array]
    slope: Callable[[Functions, Values], Values]

    @property
    def torch(self) -> Any:
        """The function of PyTorch; imports PyTorch."""
        import torch

        return getattr(torch.nn.functional, self.name)


def _leaky_relu_slope(fn: Functions, z: Values) -> Values:
    return fn.where(z > 0, fn.ones_like(z), LEAK)


def _silu_slope(fn: Functions, z: Values) -> Values:
    s = fn.sigmoid(z)
    return s * (1 + z * (1 - s))


ACTIVATIONS = {
    activation.name: activation
    for activation in (
        Activation("relu", 0, lambda z: np.maximum(z, 0), lambda fn, z: fn.where(z > 0, fn.ones_like(z), 0.0)),
        Activation("leaky_relu", 1, lambda z: np.where(z > 0, z, LEAK * z), _leaky_relu_slope),
        Activation("tanh", 2, np.tanh, lambda fn, z: 1 - fn.tanh(z) ** 2),
        Activation("silu", 3, lambda z: z * expit(z), _silu_slope),
    )
}
"""All activation functions by name."""


MIN_VARIANCE = 1e-6
"""Added to the softplus of the raw variance, as in Lakshminarayanan et al. (2017)."""


class Head(Protocol):
    """Maps the outputs of a network to means and variances; hashable, equal heads compare equal.

    The first output is the mean: it is what squared error trains.
    """

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network with this head."""

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


MEAN_VARIANCE = MeanVarianceHead()
"""The default head. Compiled code has the same formula in single precision."""


Weights = Annotated[Array, floats(..., types=("f4", "f8"))]

Layer = tuple[Weights, Weights]
"""A weight matrix W (..., n_out, n_in) and a bias b (..., n_out)."""


@stored
@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """Architecture of a fully connected network: number of inputs, widths of hidden layers, activation, and head."""

    n_inputs: int
    hidden: tuple[int, ...] = (50, 50)
    activation: str = "relu"
    head: Annotated[Head, Instance(MeanVarianceHead)] = MEAN_VARIANCE

    def __post_init__(self) -> None:
        check_number("n_inputs", self.n_inputs, low=1, whole=True)
        for width in self.hidden:
            check_number("each of hidden_layer_sizes", width, low=1, whole=True)
        check_choice("activation", self.activation, ACTIVATIONS)

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of units per layer, from inputs to outputs."""
        return (self.n_inputs, *self.hidden, self.head.n_outputs)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(outputs, inputs) of each layer's weight matrix."""
        widths = self.widths
        return tuple(zip(widths[1:], widths[:-1], strict=True))

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases of one network."""
        return sum(n_out * (n_in + 1) for n_out, n_in in self.shapes)

    def check_layers(self, layers: Sequence[Layer]) -> None:
        """Raise unless layers of stacked networks, W (H, n_out, n_in) and b (H, n_out), have this shape."""
        H = len(layers[0][0]) if layers and layers[0][0].ndim else 0
        expected = [((H, n_out, n_in), (H, n_out)) for n_out, n_in in self.shapes]
        found = [(W.shape, b.shape) for W, b in layers]
        if found != expected:
            raise InvalidParameterError(f"layers must have the shapes {expected}; got {found}")

    def initial_layers(self, generator: np.random.Generator) -> list[Layer]:
        """Draw weights and biases uniform in ±1/√n_in, as PyTorch's ``nn.Linear`` does, in single precision."""
        layers: list[Layer] = []
        for n_out, n_in in self.shapes:
            bound = 1 / np.sqrt(n_in)
            W = generator.uniform(-bound, bound, (n_out, n_in)).astype(np.float32)
            b = generator.uniform(-bound, bound, n_out).astype(np.float32)
            layers.append((W, b))
        return layers


class Bins(NamedTuple):
    """The bins of an encoding for compiled code: their columns, and their lower ends, widths, means, scales (4, m)."""

    columns: NDArray[np.int64]
    numbers: Float32Array


NO_BINS = Bins(np.zeros(0, dtype=np.int64), np.zeros((4, 0), dtype=np.float32))


def multiple(n: int, of: int) -> int:
    """Return the least multiple of ``of`` that is at least n."""
    return -(-n // of) * of


@dataclass(frozen=True, eq=False)
class Packing:
    """Layout of the weights of one network in one array: for each layer the padded matrix [W, b], or its transpose."""

    spec: NetworkSpec
    places: list[tuple[int, int, int]]  # the offset of each padded matrix, its number of rows, and their length
    size: int  # number of floats
    is_transposed: bool = False

    @classmethod
    def of(
        cls, spec: NetworkSpec, shape: Callable[[int, int], tuple[int, int]], align: int = 1, transposed: bool = False
    ) -> Packing:
        """Return the layout in which matrices have the ``shape`` for n_out and n_in + 1, and networks are aligned."""
        places, end = [], 0
        for n_out, n_in in spec.shapes:
            rows, columns = shape(n_out, n_in + 1)
            places.append((end, rows, columns))
            end += rows * columns
        return cls(spec, places, multiple(end, align), transposed)

    def packed(self, layers: Sequence[Layer]) -> Float32Array:
        """Return the weights (H, size) of networks with stacked layers, whose shapes are checked."""
        self.spec.check_layers(layers)
        weights = np.zeros((len(layers[0][0]), self.size), dtype=np.float32)
        self.pack(layers, weights)
        return weights

    def pack(self, layers: Sequence[Layer], into: Array) -> None:
        """Write the weights of one network, or of a stack (J, ...), into zeros of shape (..., size)."""
        for matrix, (W, b) in zip(self._matrices(into), layers, strict=True):
            n_out, n_in = W.shape[-2:]
            matrix[..., :n_out, :n_in] = W
            matrix[..., :n_out, n_in] = b

    def unpack(self, flat: Array) -> tuple[Layer, ...]:
        """Return the weights (..., n_out, n_in) and biases (..., n_out) of every layer of networks (..., size)."""
        return tuple(
            (np.array(matrix[..., :n_out, :n_in], order="C"), np.array(matrix[..., :n_out, n_in], order="C"))
            for matrix, (n_out, n_in) in zip(self._matrices(flat), self.spec.shapes, strict=True)
        )

    def _matrices(self, flat: Array) -> list[Array]:
        """Return views of the matrices [W, b]."""
        views = [flat[..., at : at + r * c].reshape(*flat.shape[:-1], r, c) for at, r, c in self.places]
        return [view.mT for view in views] if self.is_transposed else views
