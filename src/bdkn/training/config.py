"""How members are trained."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from bdkn.errors import check_choice, check_number

OBJECTIVES = ("nll", "beta_nll", "mse")
SCHEDULES = ("constant", "cosine")

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's decay rates and its guard against division by zero, PyTorch's defaults."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Adam on mini-batches.

    ``validation_fraction`` > 0 turns early stopping on: each member holds out its own rows, stops once its loss on them
    has not improved by ``tol`` for ``patience`` epochs, and keeps the weights of its best epoch.
    """

    epochs: int = 500
    batch_size: int = 32
    learning_rate: float = 1e-3
    schedule: str = "constant"
    weight_decay: float = 0.0
    objective: str = "nll"
    beta: float = 0.5
    warmup_epochs: int = 0
    validation_fraction: float = 0.0
    patience: int = 20
    tol: float = 1e-4

    def __post_init__(self) -> None:
        check_number("epochs", self.epochs, low=1, whole=True)
        check_number("batch_size", self.batch_size, low=1, whole=True)
        check_number("learning_rate", self.learning_rate, low=0, strict=True)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_number("weight_decay", self.weight_decay, low=0)
        check_choice("objective", self.objective, OBJECTIVES)
        check_number("beta", self.beta, low=0, high=1)
        check_number("warmup_epochs", self.warmup_epochs, low=0, whole=True)
        check_number("validation_fraction", self.validation_fraction, low=0, high=0.9)
        check_number("patience", self.patience, low=1, whole=True)
        check_number("tol", self.tol, low=0)

    def objective_at(self, epoch: int) -> str:
        """Return the objective of an epoch: squared error while warming up, then the chosen one."""
        return "mse" if epoch < self.warmup_epochs else self.objective

    def learning_rates(self, steps: int) -> Iterator[float]:
        """Yield the rate of each of ``steps`` steps: constant, or half a cosine wave that falls to zero."""
        for t in range(steps):
            share = 1.0 if self.schedule == "constant" else (1 + math.cos(math.pi * t / steps)) / 2
            yield self.learning_rate * share
