"""Objectives: the loss of each row and its gradient by the outputs of the network.

With μ the mean, v = softplus(r) + 1e-6 the variance and e = μ - y the error of a row:

- ``nll``: ½ (log v + e²/v), the Gaussian negative log-likelihood of the paper without its constant;
- ``beta_nll``: the same times v^β, held constant (Seitzer et al., 2022): rows of small variance dominate less;
- ``mse``: ½ e², which does not train the variance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from bdkn.errors import InvalidParameterError, check_choice
from bdkn.networks.spec import MEAN_VARIANCE, Functions, Values


class Objective(Protocol):
    """A loss function of the outputs of a network; hashable, equal objectives compare equal."""

    @property
    def name(self) -> str:
        """Name in messages."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network with this objective."""

    @property
    def trains_variance(self) -> bool:
        """Whether the variances of networks are trained by this objective."""

    def loss_and_gradient(self, fn: Functions, outputs: Values, y: Values) -> tuple[Values, Values]:
        """Return the loss (...,) of each row and its gradient (..., n_outputs) by the outputs (..., n_outputs).

        Arrays are NumPy arrays or PyTorch tensors, and ``fn`` has their functions. PyTorch does not differentiate
        through this function.
        """


@dataclass(frozen=True)
class GaussianNLL:
    """½ (log v + e²/v)."""

    name: ClassVar[str] = "nll"
    n_outputs: ClassVar[int] = MEAN_VARIANCE.n_outputs
    trains_variance: ClassVar[bool] = True

    def loss_and_gradient(self, fn: Functions, outputs: Values, y: Values) -> tuple[Values, Values]:
        """Return the loss and its gradient."""
        mean, v = MEAN_VARIANCE.mean_and_variance(fn, outputs)
        error = mean - y
        loss = (fn.log(v) + error * error / v) / 2
        d_raw = (1 - error * error / v) / v / 2 * fn.sigmoid(outputs[..., 1])
        return loss, fn.stack([error / v, d_raw])


@dataclass(frozen=True)
class BetaNLL:
    """½ (log v + e²/v) times v^β, held constant."""

    beta: float
    name: ClassVar[str] = "beta_nll"
    n_outputs: ClassVar[int] = MEAN_VARIANCE.n_outputs
    trains_variance: ClassVar[bool] = True

    def loss_and_gradient(self, fn: Functions, outputs: Values, y: Values) -> tuple[Values, Values]:
        """Return the loss and its gradient."""
        loss, gradient = GaussianNLL().loss_and_gradient(fn, outputs, y)
        factor = MEAN_VARIANCE.mean_and_variance(fn, outputs)[1] ** self.beta
        return loss * factor, gradient * factor[..., None]


@dataclass(frozen=True)
class SquaredError:
    """½ e², with the first output as the mean."""

    n_outputs: int = MEAN_VARIANCE.n_outputs
    name: ClassVar[str] = "mse"
    trains_variance: ClassVar[bool] = False

    def loss_and_gradient(self, fn: Functions, outputs: Values, y: Values) -> tuple[Values, Values]:
        """Return the loss and its gradient."""
        error = outputs[..., 0] - y
        return error * error / 2, fn.stack([error] + [fn.zeros_like(error)] * (self.n_outputs - 1))


_BY_NAME: dict[str, Callable[[float], Objective]] = {
    GaussianNLL.name: lambda beta: GaussianNLL(),
    BetaNLL.name: BetaNLL,
    SquaredError.name: lambda beta: SquaredError(),
}

OBJECTIVES = tuple(_BY_NAME)
"""The names of the library's objectives."""


def get_objective(objective: str | Objective, beta: float) -> Objective:
    """Return the objective of that name, with the ``beta`` of beta_nll, or the objective itself."""
    if isinstance(objective, str):
        check_choice("objective", objective, OBJECTIVES)
        return _BY_NAME[objective](beta)
    if all(hasattr(objective, name) for name in ("name", "n_outputs", "trains_variance", "loss_and_gradient")):
        return objective
    raise InvalidParameterError(
        f"objective must be one of {', '.join(map(repr, OBJECTIVES))}, or an object with name, n_outputs, "
        f"trains_variance and a method loss_and_gradient; got {objective!r}"
    )
