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

Then = Callable[[Any, list[float]], None]
"""Given the learner after an epoch, and the losses so far."""

_JUDGEMENTS = 500
"""Times a long descent is judged on the rows held out; a short one is after every epoch."""


_WITHIN_PATIENCE = 20
"""Judgements at least that patience waits for."""


class Learner(Protocol):
    """What can be trained."""

    def parameters(self) -> list[Tensor]:
        """Return what the optimiser moves."""

    def decayed(self) -> list[Tensor]:
        """Return those of the parameters that weight decay pulls to zero."""

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
    then: Then | None = None,
) -> Curves:
    """Train the learner as planned and return how it went; it is left as it was after the last epoch.

    After each epoch ``hook`` is told its number and loss, and ``then`` is given the learner and all losses so far.
    """
    parameters, curves = learner.parameters(), Curves()
    optimiser = _optimiser(learner, plan)
    every = _judge_every(plan)
    for epoch in range(plan.epochs):
        curves.losses.append(_epoch_or_nan(learner, optimiser, parameters, plan.clip))
        _check_finite(curves.losses[-1], epoch, plan)
        if hook is not None:
            hook(epoch, curves.losses[-1])
        if then is not None:
            then(learner, curves.losses)
        if judge and ((epoch + 1) % every == 0 or epoch == plan.epochs - 1):
            curves.judged[epoch] = _judgement(learner)
        if _has_settled(curves.losses, plan) or _has_waited(curves, epoch, plan):
            break
    return curves


def _judge_every(plan: Plan) -> int:
    """Return after how many epochs to judge; often enough for patience to mean something."""
    often = plan.epochs // _JUDGEMENTS
    return max(1, often if plan.patience is None else min(often, plan.patience // _WITHIN_PATIENCE))


def _optimiser(learner: Learner, plan: Plan) -> torch.optim.Optimizer:
    """Return Adam; a learner with nothing to learn is given something that does not matter."""
    moved = learner.parameters() or [torch.zeros(1, requires_grad=True)]
    decayed = {id(part) for part in learner.decayed()}
    groups = [
        {"params": [part for part in moved if id(part) in decayed], "weight_decay": plan.weight_decay},
        {"params": [part for part in moved if id(part) not in decayed], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], plan.learning_rate, fused=_can_fuse(moved))


def _epoch_or_nan(
    learner: Learner, optimiser: torch.optim.Optimizer, parameters: list[Tensor], clip: float | None
) -> float:
    """Run one epoch and return its mean loss, NaN where weights have become so large that it cannot be computed."""
    try:
        loss = _epoch(learner, optimiser, parameters, clip)
    except (torch.linalg.LinAlgError, ValueError):  # type: ignore[attr-defined]
        return math.nan  # a distribution of PyTorch's says of parameters that are not numbers that they have no value
    return loss if all(bool(part.isfinite().all()) for part in parameters) else math.nan


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


def _judgement(learner: Learner) -> float:
    """Return the held-out score, infinite where nothing can be predicted any more."""
    try:
        score = learner.held_out_nll()
    except (torch.linalg.LinAlgError, ValueError):  # type: ignore[attr-defined]
        return math.inf  # ours, or a distribution's of PyTorch's, of parameters that are not numbers
    return score if math.isfinite(score) else math.inf


def _can_fuse(parameters: list[Tensor]) -> bool:
    """Tell whether the optimiser can move all parameters in one call: for small networks that is most of its time."""
    return all(part.device.type in ("cpu", "cuda") and part.is_floating_point() for part in parameters)
