"""Which members are fit to be combined."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import DivergedError, DivergedMemberWarning
from bdkn.members import Design, HeldOut, MemberScores, TrainingRows
from bdkn.networks import Predictor

Numbers = NDArray[np.intp]

_WEIGHTS = (
    "weights or outputs are not finite; try a lower learning_rate, standardize_y=True, or objective='beta_nll' with "
    "some warmup_epochs"
)


def screen(networks: Predictor, rows: TrainingRows, *, own_variance: bool) -> tuple[Numbers, MemberScores, Design]:
    """Return the numbers of the networks to keep, how they fit the training rows, and their design matrix.

    A network diverged if a weight, or an output on any training row, is not finite, or so large that its square is not.
    Such networks are named in a warning; if there is no other, it is an error.
    """
    finite = np.flatnonzero(networks.is_finite())
    design = Design(networks[finite], rows)
    scores = MemberScores.of(design.scored(), own_variance=own_variance)
    fine = scores.is_finite
    sound = finite[fine]
    tell_diverged([f"network {h + 1}" for h in range(len(networks)) if h not in sound], len(networks))
    return sound, scores[fine], design[np.flatnonzero(fine)]


def sound_members(
    scores: MemberScores, finite: NDArray[np.bool_], names: Sequence[str], why: str = _WEIGHTS
) -> Numbers:
    """Return the numbers of the members that are finite and score finitely; tell about the others."""
    fine = finite & scores.is_finite
    tell_diverged([name for name, is_fine in zip(names, fine, strict=True) if not is_fine], len(fine), why)
    return np.flatnonzero(fine)


def elimination(held_out: HeldOut) -> Iterator[Numbers]:
    """Yield the numbers of all members, then of all but one, and so on down to one.

    The prior trusts all members alike, so one that knows nothing, or talks in other units, would have to be unlearned.
    Each time the member goes without which the others' mean errs least on rows left out of training.
    """
    errors = held_out.means - held_out.y[:, None]
    products = errors.T @ (errors if held_out.counts is None else errors * held_out.counts[:, None])
    kept = np.arange(len(products))
    yield kept
    while len(kept) > 1:
        kept = min((np.delete(kept, h) for h in range(len(kept))), key=lambda some: _mean_squared(products, some))
        yield kept


def _mean_squared(products: NDArray[np.float64], members: Numbers) -> float:
    """Return the squared error of the mean of some members, from the products of all members' errors."""
    return float(products[np.ix_(members, members)].mean())


def tell_diverged(lost: Sequence[str], n_members: int, why: str = _WEIGHTS) -> None:
    """Warn about the members lost; raise if none is left."""
    if len(lost) == n_members:
        kind = "networks" if why == _WEIGHTS else "members"
        raise DivergedError(f"all {n_members} {kind} diverged: {why}")
    if len(lost):
        text = f"left out {', '.join(lost)} of {n_members}, which diverged: {why}"
        warnings.warn(text, DivergedMemberWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """Return how far up the stack the code is that called this library."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals["__name__"].startswith("bdkn."):
        frame, level = frame.f_back, level + 1
    return level
