"""The part of a fitted state that rows absorbed after the fit change."""

from __future__ import annotations

from dataclasses import dataclass, field

from bdkn.inference import Absorbed
from bdkn.members.row_memory import RowMemory
from bdkn.persistence.fields import stored


@stored
@dataclass(frozen=True, eq=False)
class Updates:
    """What a regressor has absorbed since its fit.

    ``log_slopes`` is Σ c log g′(y) over later rows, with the link g in scaled units. ``merged`` are the digests of the
    statistics of other regressors that were merged.
    """

    absorbed: Absorbed
    log_slopes: float = 0.0
    memory: RowMemory = field(default_factory=RowMemory)
    merged: tuple[str, ...] = ()
