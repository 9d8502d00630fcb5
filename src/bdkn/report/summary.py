"""The numbers of a trial in a form that JSON can represent."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

import numpy as np

from bdkn.report.compare import LEVEL
from bdkn.report.environment import hardware, versions
from bdkn.report.trial import Trial


def summarize_trial(trial: Trial) -> dict[str, Any]:
    """Return data, scores, weights, settings and versions; numbers that are not finite become None."""
    model = trial.models[trial.first]
    members = model.member_table()
    return {
        "data": {"name": trial.data.name, "train": len(trial.data.y_train), "test": len(trial.data.y_test)},
        "level": LEVEL,
        "scores": [_numbers(asdict(score)) for score in trial.scores],
        "weights": [_numbers(dict(zip(members, cells, strict=True))) for cells in zip(*members.values(), strict=True)],
        "told_apart": model.members_told_apart_,
        "models": trial.expressions,
        "versions": {**versions(["matplotlib"]), "machine": _machine()},
    }


def _machine() -> str:
    about = hardware()
    return f"{about['system']}, {about['cores']} cores"


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with NumPy's numbers as Python's."""
    plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in row.items()}
    return {key: None if isinstance(value, float) and not isfinite(value) else value for key, value in plain.items()}
