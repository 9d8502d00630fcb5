"""What PyTorch trains: the library's networks stacked, or a module of the user's. Imported once torch is asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from bdkn.errors import InvalidParameterError
from bdkn.networks import MIN_VARIANCE, Networks, Predictor, softplus
from bdkn.networks.activation import LEAK
from bdkn.training.progress import choose_networks
from bdkn.typing import Array

CHUNK_ROWS = 4096
"""Rows a forward pass without gradients takes at once."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "leaky_relu": lambda z: functional.leaky_relu(z, LEAK),
    "tanh": torch.tanh,
    "silu": functional.silu,
}
"""Activations by the names of ``bdkn.networks``."""


class Model(Protocol):
    """H networks in the course of their training."""

    def parameters(self) -> Iterable[Tensor]:
        """Return what the optimiser moves."""

    def train(self, mode: bool) -> object:
        """Switch between training and evaluation, for layers that differ between the two."""

    def forward(self, X: Tensor) -> Tensor:
        """Map (H, B, n_inputs) to means and raw variances, (H, B, 2)."""

    def outputs(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return means and variances of rows, each (H, n), with the weights of this moment."""

    def remember(self, members: NDArray[np.bool_]) -> None:
        """Remember these members as they are now."""

    def remembered(self) -> Predictor:
        """Return the networks as they were remembered."""


class StackedModel:
    """Networks of one spec, with one batched product a layer."""

    def __init__(self, networks: Networks, like: Tensor) -> None:
        self._spec = networks.spec
        self._layers = [(_parameter(W, like), _parameter(b, like)) for W, b in networks.layers]
        self._kept = self._current()

    def parameters(self) -> Iterable[Tensor]:
        """Return what the optimiser moves."""
        return (part for layer in self._layers for part in layer)

    def train(self, mode: bool) -> None:
        """Do nothing: these networks train and predict alike."""

    def forward(self, X: Tensor) -> Tensor:
        """Map (H, B, n_inputs) to means and raw variances, (H, B, 2)."""
        *hidden, (W_out, b_out) = self._layers
        for W, b in hidden:
            X = ACTIVATIONS[self._spec.activation](torch.baddbmm(b[:, None], X, W.mT))
        return torch.baddbmm(b_out[:, None], X, W_out.mT)

    def outputs(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return means and variances of rows, each (H, n), with the weights of this moment."""
        return self._current().outputs(X)

    def remember(self, members: NDArray[np.bool_]) -> None:
        """Remember these members as they are now."""
        self._kept = choose_networks(members, self._current(), self._kept)

    def remembered(self) -> Networks:
        """Return the networks as they were remembered."""
        return self._kept

    def _current(self) -> Networks:
        return Networks(self._spec, tuple((_array(W), _array(b)) for W, b in self._layers))


class ModuleModel:
    """One module of the user's making: H = 1."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._kept = copy.deepcopy(module.state_dict())
        self.parameters, self.train = module.parameters, module.train

    def forward(self, X: Tensor) -> Tensor:
        """Map (1, B, n_inputs) to means and raw variances, (1, B, 2)."""
        return two_columns(self._module(X[0]), X.shape[1])[None]

    def outputs(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return means and variances of rows, each (1, n), with the weights of this moment."""
        return ModuleNetworks((self._module,)).outputs(X)

    def remember(self, members: NDArray[np.bool_]) -> None:
        """Remember the module as it is now."""
        self._kept = copy.deepcopy(self._module.state_dict())

    def remembered(self) -> ModuleNetworks:
        """Return the module as it was remembered."""
        self._module.load_state_dict(self._kept)
        return ModuleNetworks((self._module,))


@dataclass(frozen=True)
class ModuleNetworks:
    """Trained modules, one a member."""

    modules: tuple[nn.Module, ...]

    def __len__(self) -> int:
        return len(self.modules)

    def __getitem__(self, members: Sequence[int] | NDArray[np.intp]) -> ModuleNetworks:
        chosen = np.arange(len(self))[members]
        return ModuleNetworks(tuple(self.modules[member] for member in chosen))

    @classmethod
    def concatenate(cls, parts: Sequence[ModuleNetworks]) -> ModuleNetworks:
        """Return the modules of all parts."""
        return cls(tuple(module for part in parts for module in part.modules))

    def is_finite(self) -> NDArray[np.bool_]:
        """Tell for each module whether all its weights and buffers are finite."""
        states = [module.state_dict().values() for module in self.modules]
        return np.array([all(bool(part.isfinite().all()) for part in state) for state in states])

    def outputs(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return means and variances, each of shape (H, n)."""
        rows = np.asarray(X)
        out = np.stack([_evaluate(module, rows) for module in self.modules])
        return out[..., 0], softplus(out[..., 1]) + MIN_VARIANCE


def two_columns(answer: object, n: int) -> Tensor:
    """Bring what a module returned for ``n`` rows into the shape (n, 2)."""
    if isinstance(answer, Tensor) and answer.shape == (n, 2):
        return answer
    parts = list(answer) if isinstance(answer, tuple | list) else [answer]
    columns = [part.reshape(n) for part in parts if isinstance(part, Tensor) and part.shape in ((n,), (n, 1))]
    if len(columns) == len(parts) == 2:
        return torch.stack(columns, dim=1)
    shapes = ", ".join(str(tuple(part.shape)) if isinstance(part, Tensor) else repr(part) for part in parts)
    raise InvalidParameterError(
        "a network made by `module` must return a mean and a raw variance for each of B rows: two tensors of shape "
        f"(B,) or (B, 1), or one of shape (B, 2); got {type(answer).__name__} with {shapes} for B = {n}; "
        "try torch.nn.Linear(width, 2) as its last layer"
    )


@torch.no_grad()
def _evaluate(module: nn.Module, rows: Array) -> Array:
    like = next(module.parameters())
    module.eval()
    parts = [rows[start : start + CHUNK_ROWS] for start in range(0, len(rows), CHUNK_ROWS)]
    outputs = [two_columns(module(torch.tensor(part).to(like)), len(part)) for part in parts]
    return np.concatenate([out.cpu().double().numpy() for out in outputs])


def _parameter(array: Array, like: Tensor) -> Tensor:
    return torch.tensor(array).to(like).requires_grad_()


def _array(parameter: Tensor) -> Array:
    array: Array = parameter.numpy(force=True)
    return array
