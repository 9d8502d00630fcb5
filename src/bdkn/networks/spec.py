"""Architecture of a network: its layers, activation and output head; layouts of its weights in one array.

Formulas get ``exp``, ``log`` and other functions by an argument ``fn``, so that they work with NumPy and with PyTorch.
Compiled versions of the activations are in ``bdkn.networks.compiled`` and ``bdkn.networks.gpu``.
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
"""Type of the arrays that losses and output heads compute with: NumPy arrays or PyTorch tensors."""

_SOFTPLUS_THRESHOLD = 40
"""Value above which PyTorch computes softplus(x) as x; PyTorch's default, 20, is inaccurate in double precision."""


@dataclass(frozen=True, kw_only=True)
class Functions:
    """Mathematical functions of arrays, for NumPy or for PyTorch; ``stack`` joins arrays along a new last axis."""

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
"""Functions in ``Functions`` that have the same name in NumPy and in PyTorch."""

NUMPY = Functions(
    **{name: getattr(np, name) for name in _COMMON_NAMES},
    sigmoid=expit,
    softplus=softplus,
    stack=lambda parts: np.stack(parts, axis=-1),
)


@cache
def torch_functions() -> Functions:
    """Return the mathematical functions of PyTorch tensors. The first call imports PyTorch."""
    import torch

    return Functions(
        **{name: getattr(torch, name) for name in _COMMON_NAMES},
        sigmoid=torch.sigmoid,
        softplus=lambda raw: torch.nn.functional.softplus(raw, threshold=_SOFTPLUS_THRESHOLD),
        stack=lambda parts: torch.stack(parts, dim=-1),
    )


LEAK = 0.01
"""Slope of the activation function leaky_relu below zero; the default of PyTorch."""


@dataclass(frozen=True)
class Activation:
    """An activation function: its name, number in compiled code, value (NumPy) and derivative (NumPy or PyTorch)."""

    name: str
    code: int
    value: Callable[[Array], Array]
    slope: Callable[[Functions, Values], Values]

    @property
    def torch(self) -> Any:
        """PyTorch's version of this activation function; PyTorch is imported on first use."""
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
"""Activation functions that networks can have, by name."""


MIN_VARIANCE = 1e-6
"""Lower bound of predicted variances: the variance is softplus(output) + 1e-6 (Lakshminarayanan et al., 2017)."""


class Head(Protocol):
    """Interface of functions that convert the outputs of a network to means and variances.

    The first output must be the mean, since squared error trains it. Heads are hashable; equal heads compare equal.
    """

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network with this head."""

    def mean_and_variance(self, fn: Functions, outputs: Values) -> tuple[Values, Values]:
        """Return means and variances, each (...,), for outputs (..., n_outputs) of networks."""


@stored
@dataclass(frozen=True)
class MeanVarianceHead:
    """Head of networks with two outputs: the mean, and a number r; the variance is softplus(r) + 1e-6."""

    n_outputs: ClassVar[int] = 2

    def mean_and_variance(self, fn: Functions, outputs: Values) -> tuple[Values, Values]:
        """Return means and variances, each (...,), for outputs (..., 2) of networks."""
        return outputs[..., 0], fn.softplus(outputs[..., 1]) + MIN_VARIANCE


MEAN_VARIANCE = MeanVarianceHead()
"""Default output head of networks: mean and variance. Compiled code has the same formula in single precision."""


Weights = Annotated[Array, floats(..., types=("f4", "f8"))]

Layer = tuple[Weights, Weights]
"""Type of the weights of a layer: a matrix W (..., n_out, n_in) and a bias b (..., n_out)."""


@stored
@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """Architecture of a fully connected network: number of inputs, widths of hidden layers, activation, output head."""

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
        """Number of units of each layer, from the inputs to the outputs."""
        return (self.n_inputs, *self.hidden, self.head.n_outputs)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shape (outputs, inputs) of the weight matrix of each layer."""
        widths = self.widths
        return tuple(zip(widths[1:], widths[:-1], strict=True))

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases of one network."""
        return sum(n_out * (n_in + 1) for n_out, n_in in self.shapes)

    def check_layers(self, layers: Sequence[Layer]) -> None:
        """Raise unless W (H, n_out, n_in) and b (H, n_out) of each layer have the shapes of this architecture."""
        H = len(layers[0][0]) if layers and layers[0][0].ndim else 0
        expected = [((H, n_out, n_in), (H, n_out)) for n_out, n_in in self.shapes]
        found = [(W.shape, b.shape) for W, b in layers]
        if found != expected:
            raise InvalidParameterError(f"layers must have the shapes {expected}; got {found}")

    def initial_layers(self, generator: np.random.Generator) -> list[Layer]:
        """Draw initial weights and biases uniformly between ±1/√n_in, like PyTorch's ``nn.Linear`` (float32)."""
        layers: list[Layer] = []
        for n_out, n_in in self.shapes:
            bound = 1 / np.sqrt(n_in)
            W = generator.uniform(-bound, bound, (n_out, n_in)).astype(np.float32)
            b = generator.uniform(-bound, bound, n_out).astype(np.float32)
            layers.append((W, b))
        return layers


class Bins(NamedTuple):
    """The m bins of a ``PiecewiseLinear`` as arrays: columns (m,); lower limits, widths, means and scales (4, m)."""

    columns: NDArray[np.int64]
    numbers: Float32Array


NO_BINS = Bins(np.zeros(0, dtype=np.int64), np.zeros((4, 0), dtype=np.float32))


def multiple(n: int, of: int) -> int:
    """Round n up to a multiple of ``of``."""
    return -(-n // of) * of


@dataclass(frozen=True, eq=False)
class Packing:
    """Layout of a network's weights in a flat array: for each layer the matrix [W, b], padded, or its transpose."""

    spec: NetworkSpec
    places: list[tuple[int, int, int]]  # offset, number of rows and number of columns of each padded matrix
    size: int  # number of floats
    is_transposed: bool = False

    @classmethod
    def of(
        cls, spec: NetworkSpec, shape: Callable[[int, int], tuple[int, int]], align: int = 1, transposed: bool = False
    ) -> Packing:
        """Return the layout; ``shape(n_out, n_in + 1)`` is a matrix's padded shape, ``align`` divides the full size."""
        places, end = [], 0
        for n_out, n_in in spec.shapes:
            rows, columns = shape(n_out, n_in + 1)
            places.append((end, rows, columns))
            end += rows * columns
        return cls(spec, places, multiple(end, align), transposed)

    def packed(self, layers: Sequence[Layer]) -> Float32Array:
        """Return the weights of H networks in this layout, (H, size); raise if ``layers`` have wrong shapes."""
        self.spec.check_layers(layers)
        weights = np.zeros((len(layers[0][0]), self.size), dtype=np.float32)
        self.pack(layers, weights)
        return weights

    def pack(self, layers: Sequence[Layer], into: Array) -> None:
        """Write the weights of one network, or of J networks (J, ...), to ``into``, an array of zeros (..., size)."""
        for matrix, (W, b) in zip(self._matrices(into), layers, strict=True):
            n_out, n_in = W.shape[-2:]
            matrix[..., :n_out, :n_in] = W
            matrix[..., :n_out, n_in] = b

    def unpack(self, flat: Array) -> tuple[Layer, ...]:
        """Return W (..., n_out, n_in) and b (..., n_out) of every layer from weights (..., size) in this layout."""
        return tuple(
            (np.array(matrix[..., :n_out, :n_in], order="C"), np.array(matrix[..., :n_out, n_in], order="C"))
            for matrix, (n_out, n_in) in zip(self._matrices(flat), self.spec.shapes, strict=True)
        )

    def _matrices(self, flat: Array) -> list[Array]:
        """Return the matrix [W, b] of each layer as a view of ``flat``."""
        views = [flat[..., at : at + r * c].reshape(*flat.shape[:-1], r, c) for at, r, c in self.places]
        return [view.mT for view in views] if self.is_transposed else views
