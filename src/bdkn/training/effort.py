"""How much a fit spends: presets of the sizes that "auto" means, and sizes that fit into a time limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from bdkn.errors import check_choice, check_number

LEAST_MEMBERS = 4
"""Members that are trained within any time limit, if there are so many."""

LEAST_EPOCHS = 0.1
"""Share of the epochs that are trained within any time limit."""

_TRAINING = 0.85
"""Share of the remaining time that training may take; the rest is for held-out predictions and the combination."""

_PIECE = 0.02
"""Share of the time limit that the piece of training should take by which the time of all of it is estimated."""


@dataclass(frozen=True)
class Effort:
    """A preset: the factors by which it changes the default numbers of members and of epochs."""

    members: float
    epochs: float

    def n_members(self, balanced: int) -> int:
        """Return the number of members where the default is ``balanced``; at least two if that has so many."""
        return max(min(2, balanced), round(self.members * balanced))

    def n_epochs(self, balanced: int) -> int:
        """Return the number of epochs where the default is ``balanced``."""
        return max(1, round(self.epochs * balanced))


EFFORTS = {"fast": Effort(1 / 3, 0.5), "balanced": Effort(1.0, 1.0), "best": Effort(2.0, 1.0)}


def get_effort(name: str) -> Effort:
    """Return the preset of that name."""
    check_choice("effort", name, EFFORTS)
    return EFFORTS[name]


def check_time_limit(time_limit: object) -> None:
    """Raise unless ``time_limit`` is None or a positive number of seconds."""
    if time_limit is not None:
        check_number("time_limit", time_limit, low=0, strict=True, infinite=True)


@dataclass(frozen=True)
class Clock:
    """The time a fit began, and the seconds it may take."""

    began: float
    seconds: float

    @classmethod
    def start(cls, seconds: float) -> Clock:
        """Return a clock that starts now."""
        return cls(time.monotonic(), seconds)

    @property
    def left(self) -> float:
        """Seconds that are left, negative after the limit."""
        return self.began + self.seconds - time.monotonic()

    def share(self, train: Callable[[int], object], epochs: int, work: float) -> float:
        """Return the share of all training for which there is time.

        ``train`` trains some networks for a number of epochs; all training is ``work`` times that for ``epochs``.
        """
        _seconds(train, 1)  # compiled code is loaded
        piece = 1
        while (took := _seconds(train, piece)) < _PIECE * self.seconds and 8 * piece < epochs:
            piece = min(4 * piece, math.ceil(epochs / 8))
        return max(0.0, _TRAINING * self.left) / max(work * epochs * took / piece, 1e-9)


def reduced(n_members: int, epochs: int, share: float) -> tuple[int, int]:
    """Return numbers of members and of epochs that take ``share`` of the time: fewer members, then fewer epochs.

    At least ``LEAST_MEMBERS`` members and ``LEAST_EPOCHS`` of the epochs remain, whatever the share.
    """
    if share >= 1:
        return n_members, epochs
    members = max(min(LEAST_MEMBERS, n_members), math.floor(share * n_members))
    left = min(1.0, share * n_members / members)
    return members, max(1, math.ceil(LEAST_EPOCHS * epochs), math.floor(left * epochs))


def _seconds(train: Callable[[int], object], epochs: int) -> float:
    began = time.monotonic()
    train(epochs)
    return time.monotonic() - began
