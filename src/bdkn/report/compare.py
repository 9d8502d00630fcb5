"""Scores of several models on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from bdkn.metrics import predictive_of, summary

LEVEL = 0.9
"""Nominal coverage of the intervals in scores, tables and captions."""


@dataclass(frozen=True)
class Score:
    """The metrics of one model on test rows; coverage and width are of central 90 % intervals."""

    model: str
    rmse: float
    nll: float
    crps: float
    coverage: float
    interval_width: float
    calibration_error: float
    seconds: float | None = None


def compare(
    models: Mapping[str, Any], X: Any, y: ArrayLike, *, seconds: Mapping[str, float] | None = None
) -> list[Score]:
    """Return the scores of fitted ``models`` on the rows of ``X`` and ``y``; ``seconds`` are their fit times."""
    took = seconds or {}
    return [
        Score(name, **summary(y, predictive_of(model, X), LEVEL), seconds=took.get(name))
        for name, model in models.items()
    ]
