"""The plan of a descent: number of epochs, size of steps, and when to stop. It needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from bdkn.errors import check_flag, check_number


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Number and size of the steps by which a learner is trained; parameters are checked when a plan is made.

    Training runs at most ``epochs`` epochs. With ``tol``, it ends when the mean loss of the last ``window`` epochs is
    less than a fraction ``tol`` below that of the ``window`` epochs before. With ``early_stopping``, a fraction
    ``validation_fraction`` of the rows is held out to find the best number of epochs; the search for it ends when
    ``patience`` epochs did not improve their score.
    """

    learning_rate: float
    epochs: int
    weight_decay: float = 0.0
    clip: float | None = None
    tol: float | None = None
    window: int = 11
    early_stopping: bool = False
    validation_fraction: float = 0.2
    patience: int | None = None

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate, low=0, strict=True)
        check_number("epochs", self.epochs, low=1, whole=True)
        check_number("weight_decay", self.weight_decay, low=0)
        check_number("window", self.window, low=1, whole=True)
        check_flag("early_stopping", self.early_stopping)
        check_number("validation_fraction", self.validation_fraction, low=0, high=0.9, strict=True)
        check_optional("clip", self.clip, low=0, strict=True)
        check_optional("tol", self.tol, low=0)
        check_optional("patience", self.patience, low=1, whole=True)


def check_optional(name: str, given: object, *, low: float, strict: bool = False, whole: bool = False) -> None:
    """Raise unless ``given`` is None or a number as ``check_number`` requires it."""
    if given is not None:
        check_number(f"{name}, if not None,", given, low=low, strict=strict, whole=whole)
