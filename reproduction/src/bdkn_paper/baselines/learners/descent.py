"""Training of a learner by Adam, for a number of epochs that is given or found on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bdkn.data.rows import Rows
from bdkn.errors import DivergedError, InvalidParameterError
from bdkn.typing import FloatArray
from bdkn_paper.baselines.plan import Plan

Hook = Callable[[int, float], None]
"""Called after each epoch with its number, from 0, and its loss."""

_SCORES = 500
"""Times that the held-out rows are scored in a long descent; in a short one, they are scored after every epoch."""

_SCORES_WITHIN_PATIENCE = 20
"""Least number of scores among the epochs of ``patience``."""


class Learner(Protocol):
    """A model in training."""

    def parameters(self) -> list[Tensor]:
        """Return the parameters that the optimiser changes."""

    def decayed(self) -> list[Tensor]:
        """Return those of the parameters that weight decay applies to."""

    def losses(self) -> Iterator[Tensor]:
        """Yield the loss of each step of one epoch; the optimiser steps before the next is computed."""

    def held_out_nll(self) -> float:
        """Return the mean negative log density of the held-out targets under the present predictions."""


Progress = Callable[[int], AbstractContextManager[Hook | None]]
"""Function of a number of epochs that returns a context with the hook of a progress bar, or with None."""

MakeLearner = Callable[[Rows, Rows | None], Any]
"""Function of the rows to train on and the held-out rows that returns a new learner."""


@dataclass
class Curves:
    """The loss of every epoch, and the held-out score of those epochs, from 0, that have one."""

    losses: list[float] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)

    @property
    def best(self) -> int:
        """The number of epochs with the lowest held-out score."""
        return min(self.scores, key=self.scores.__getitem__) + 1

    @property
    def validation_curve(self) -> FloatArray:
        """Numbers of epochs and their held-out scores, (2, n)."""
        return np.array([[epoch + 1 for epoch in self.scores], list(self.scores.values())])


def train(
    make: MakeLearner,
    rows: Rows,
    plan: Plan,
    seed: np.random.SeedSequence,
    *,
    progress: Progress,
    after_epoch: Callable[[Any, Curves], None] | None = None,
) -> tuple[Any, Curves]:
    """Train a learner on all rows, with early stopping for as many epochs as were best for held-out rows.

    Parameters
    ----------
    make : callable
        Function that returns a new learner.
    rows : Rows
        Encoded training rows.
    plan : Plan
        How long and how fast to train.
    seed : SeedSequence
        Seed of the choice of the held-out rows.
    progress : callable
        Shows the progress of one descent.
    after_epoch : callable, optional
        Function to call with the learner and the curves after every epoch on all rows.

    Returns
    -------
    learner : Learner
        The trained learner.
    curves : Curves
        The losses on all rows, and the scores of the held-out rows.
    """
    scores: dict[int, float] = {}
    if plan.early_stopping:
        stopped = _score_epochs(make, rows, plan, seed, progress)
        plan, scores = replace(plan, epochs=stopped.best), stopped.scores

    def call_after_epoch(learner: Learner, losses: list[float]) -> None:
        if after_epoch is not None:
            after_epoch(learner, Curves(losses, scores))

    learner = make(rows, None)
    with progress(plan.epochs) as hook:
        curves = descend(learner, plan, hook=hook, after_epoch=call_after_epoch)
    return learner, Curves(curves.losses, scores)


def _score_epochs(
    make: MakeLearner, rows: Rows, plan: Plan, seed: np.random.SeedSequence, progress: Progress
) -> Curves:
    """Train on part of the rows and score the others after the epochs; raise if no score is finite."""
    n = len(rows)
    order = np.random.default_rng(seed).permutation(n)
    held = round(plan.validation_fraction * n)
    if not 0 < held < n:
        raise InvalidParameterError(
            f"early_stopping needs rows to train on and rows to hold out; got n_samples={n}, of which "
            f"validation_fraction={plan.validation_fraction:g} is {held}: add rows, or set early_stopping=False"
        )
    learner = make(rows[order[held:]], rows[order[:held]])
    with progress(plan.epochs) as hook:
        curves = descend(learner, plan, score=True, hook=hook)
    if not np.isfinite(min(curves.scores.values())):
        raise DivergedError(
            "held-out rows must be predicted with finite densities after some epoch; they were after none: "
            f"try a learning_rate below {plan.learning_rate:g}"
        )
    return curves


def descend(
    learner: Learner,
    plan: Plan,
    *,
    score: bool = False,
    hook: Hook | None = None,
    after_epoch: Callable[[Any, list[float]], None] | None = None,
) -> Curves:
    """Train the learner and return the course of its training; it is left as it was after the last epoch.

    With ``score``, held-out rows are scored, and training stops when the patience of the plan is over. After each
    epoch ``hook`` is called with its number and loss, and ``after_epoch`` with the learner and all losses so far.
    """
    parameters, curves = learner.parameters(), Curves()
    optimiser = _optimiser(learner, plan)
    every = _score_interval(plan)
    for epoch in range(plan.epochs):
        curves.losses.append(_epoch_or_nan(learner, optimiser, parameters, plan.clip))
        _check_finite(curves.losses[-1], epoch, plan)
        if hook is not None:
            hook(epoch, curves.losses[-1])
        if after_epoch is not None:
            after_epoch(learner, curves.losses)
        if score and ((epoch + 1) % every == 0 or epoch == plan.epochs - 1):
            curves.scores[epoch] = _held_out_score(learner)
        if _has_settled(curves.losses, plan) or _is_out_of_patience(curves, epoch, plan):
            break
    return curves


def _score_interval(plan: Plan) -> int:
    """Return the number of epochs between scores, small enough for ``patience`` to be followed."""
    often = plan.epochs // _SCORES
    return max(1, often if plan.patience is None else min(often, plan.patience // _SCORES_WITHIN_PATIENCE))


def _optimiser(learner: Learner, plan: Plan) -> torch.optim.Optimizer:
    """Return Adam; a learner without parameters gets one that has no effect."""
    changed = learner.parameters() or [torch.zeros(1, requires_grad=True)]
    decayed = {id(part) for part in learner.decayed()}
    groups = [
        {"params": [part for part in changed if id(part) in decayed], "weight_decay": plan.weight_decay},
        {"params": [part for part in changed if id(part) not in decayed], "weight_decay": 0.0},
    ]
    used = [group for group in groups if group["params"]]
    return torch.optim.AdamW(used, plan.learning_rate, fused=_can_fuse(changed))


def _epoch_or_nan(
    learner: Learner, optimiser: torch.optim.Optimizer, parameters: list[Tensor], clip: float | None
) -> float:
    """Run one epoch and return its mean loss, NaN if it cannot be computed or parameters are not finite."""
    try:
        loss = _epoch(learner, optimiser, parameters, clip)
    except (DivergedError, torch.linalg.LinAlgError, ValueError):  # type: ignore[attr-defined]
        return math.nan  # PyTorch's distributions raise ValueError for parameters that are NaN
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
    """Return whether the mean loss fell by less than the fraction ``tol`` from one window to the next."""
    κ = plan.window
    if plan.tol is None or len(losses) < 2 * κ:
        return False
    before, last = np.mean(losses[-2 * κ : -κ]), np.mean(losses[-κ:])
    return bool(before - last < plan.tol * abs(before))


def _is_out_of_patience(curves: Curves, epoch: int, plan: Plan) -> bool:
    return bool(curves.scores) and plan.patience is not None and epoch + 1 - curves.best >= plan.patience


def _held_out_score(learner: Learner) -> float:
    """Return the NLL of the held-out rows, infinite if it cannot be computed."""
    try:
        score = learner.held_out_nll()
    except (DivergedError, torch.linalg.LinAlgError, ValueError):  # type: ignore[attr-defined]
        return math.inf  # raised here, or by PyTorch's distributions, for parameters that are NaN
    return score if math.isfinite(score) else math.inf


def _can_fuse(parameters: list[Tensor]) -> bool:
    """Return whether the optimiser can change all parameters in one call, which small networks need to be fast."""
    return all(part.device.type in ("cpu", "cuda") and part.is_floating_point() for part in parameters)
