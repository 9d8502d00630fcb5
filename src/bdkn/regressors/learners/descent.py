"""Adam on whatever yields losses, watched on rows held out if there are any."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bdkn.errors import DivergedError

Hook = Callable[[int, float], None]
"""Told the number of each epoch, from 0, and its loss."""

_JUDGEMENTS = 500
"""Times a long descent is judged on the rows held out; a short one is after every epoch."""


class Learner(Protocol):
    """What can be trained."""

    def parameters(self) -> list[Tensor]:
        """Return what the optimiser moves."""

    def losses(self) -> Iterator[Tensor]:
        """Yield the loss of each step of one epoch; the optimiser moves before the next is asked for."""

    def held_out_nll(self) -> float:
        """Return the mean negative log density of the targets held out, as the method would now predict them."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long to descend, and how fast.

    ``window`` and ``tol`` end it once the mean loss of the last ``window`` epochs is less than ``tol`` of itself below
    that of the ``window`` before; ``patience``, of rows held out, once that many epochs did not better the best.
    """

    learning_rate: float
    epochs: int
    weight_decay: float = 0.0
    clip: float | None = None
    window: int = 11
    tol: float | None = None
    patience: int | None = None


@dataclass
class Curves:
    """The loss of every epoch, and the held-out score of those that were judged."""

    losses: list[float] = field(default_factory=list)
    judged: dict[int, float] = field(default_factory=dict)

    @property
    def best(self) -> int:
        """How many epochs had been run at the lowest held-out score."""
        return min(self.judged, key=self.judged.__getitem__) + 1


def descend(
    learner: Learner,
    plan: Plan,
    *,
    judge: bool = False,
    hook: Hook | None = None,
    then: Callable[[Any], None] | None = None,
) -> Curves:
    """Train the learner as planned and return how it went; it is left as it was after the last epoch.

    After each epoch ``hook`` is told its number and loss, and ``then`` is given the learner.
    """
    parameters, curves = learner.parameters(), Curves()
    optimiser = _optimiser(parameters, plan)
    every = max(1, plan.epochs // _JUDGEMENTS)
    for epoch in range(plan.epochs):
        curves.losses.append(_epoch_or_nan(learner, optimiser, parameters, plan.clip))
        _check_finite(curves.losses[-1], epoch, plan)
        if hook is not None:
            hook(epoch, curves.losses[-1])
        if then is not None:
            then(learner)
        if judge and ((epoch + 1) % every == 0 or epoch == plan.epochs - 1):
            curves.judged[epoch] = _finite_or_inf(learner.held_out_nll())
        if _has_settled(curves.losses, plan) or _has_waited(curves, epoch, plan):
            break
    return curves


def _optimiser(parameters: list[Tensor], plan: Plan) -> torch.optim.Optimizer:
    """Return Adam; a learner with nothing to learn is given something that does not matter."""
    moved = parameters or [torch.zeros(1, requires_grad=True)]
    return torch.optim.AdamW(moved, lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=_can_fuse(moved))


def _epoch_or_nan(
    learner: Learner, optimiser: torch.optim.Optimizer, parameters: list[Tensor], clip: float | None
) -> float:
    """Run one epoch and return its mean loss, NaN where weights have become so large that it cannot be computed."""
    try:
        return _epoch(learner, optimiser, parameters, clip)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        return math.nan


def _epoch(learner: Learner, optimiser: torch.optim.Optimizer, parameters: list[Tensor], clip: float | None) -> float:
    """Run one epoch and return its mean loss."""
    total, steps = torch.zeros((), dtype=torch.float64), 0
    for loss in learner.losses():
        optimiser.zero_grad()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimiser.step()
        total, steps = total + loss.detach().double().cpu(), steps + 1
    return float(total) / max(1, steps)


def _check_finite(loss: float, epoch: int, plan: Plan) -> None:
    if not math.isfinite(loss):
        raise DivergedError(
            f"the loss must stay finite; it is {loss} after epoch {epoch + 1}: try a learning_rate below "
            f"{plan.learning_rate:g}, or standardize_y=True"
        )


def _has_settled(losses: list[float], plan: Plan) -> bool:
    """Tell whether the loss falls by less than a share of itself from one window to the next."""
    κ = plan.window
    if plan.tol is None or len(losses) < 2 * κ:
        return False
    before, last = np.mean(losses[-2 * κ : -κ]), np.mean(losses[-κ:])
    return bool(before - last < plan.tol * abs(before))


def _has_waited(curves: Curves, epoch: int, plan: Plan) -> bool:
    return bool(curves.judged) and plan.patience is not None and epoch + 1 - curves.best >= plan.patience


def _finite_or_inf(score: float) -> float:
    return score if math.isfinite(score) else math.inf


def _can_fuse(parameters: list[Tensor]) -> bool:
    """Tell whether the optimiser can move all parameters in one call: for small networks that is most of its time."""
    return all(part.device.type in ("cpu", "cuda") and part.is_floating_point() for part in parameters)
