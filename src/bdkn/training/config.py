"""How networks are trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bdkn.errors import check_choice, check_number
from bdkn.training.objective import Objective, SquaredError, get_objective

SCHEDULES = ("constant", "cosine")

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's decay rates and its guard against division by zero, PyTorch's defaults."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Adam on mini-batches.

    ``objective`` is a name or an ``Objective``; during the first ``warmup_epochs`` it is squared error.
    ``validation_fraction`` > 0 turns early stopping on: each job holds out rows of its own, stops if its loss on them
    has not improved by ``tol`` for ``patience`` epochs, and keeps the weights of its best epoch.
    """

    epochs: int = 500
    batch_size: int = 32
    learning_rate: float = 1e-3
    schedule: str = "constant"
    weight_decay: float = 0.0
    objective: str | Objective = "nll"
    beta: float = 0.5
    warmup_epochs: int = 0
    validation_fraction: float = 0.0
    patience: int = 20
    tol: float = 1e-4
    main_objective: Objective = field(init=False, repr=False, compare=False)
    """The objective after the warm-up, which validation uses, too."""

    def __post_init__(self) -> None:
        check_number("epochs", self.epochs, low=1, whole=True)
        check_number("batch_size", self.batch_size, low=1, whole=True)
        check_number("learning_rate", self.learning_rate, low=0, strict=True)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_number("weight_decay", self.weight_decay, low=0)
        check_number("beta", self.beta, low=0, high=1)
        object.__setattr__(self, "main_objective", get_objective(self.objective, self.beta))
        check_number("warmup_epochs", self.warmup_epochs, low=0, whole=True)
        check_number("validation_fraction", self.validation_fraction, low=0, high=0.9)
        check_number("patience", self.patience, low=1, whole=True)
        check_number("tol", self.tol, low=0)

    def objective_in(self, epoch: int) -> Objective:
        """Return the objective of an epoch: squared error during the warm-up, then the main one."""
        return SquaredError(self.main_objective.n_outputs) if epoch < self.warmup_epochs else self.main_objective

    def learning_rate_at(self, step: Any, steps: Any) -> Any:
        """Return the rate of a step out of ``steps``: constant, or half a cosine wave that falls to zero."""
        share = 1.0 if self.schedule == "constant" else (1 + np.cos(np.pi * step / steps)) / 2
        return self.learning_rate * share
