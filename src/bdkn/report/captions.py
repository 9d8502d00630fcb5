"""What each figure says, in a sentence or two."""

from __future__ import annotations

import numpy as np

from bdkn.plots.envelope import binomial_envelope
from bdkn.report.compare import LEVEL
from bdkn.report.trial import Trial


def on_intervals(trial: Trial) -> str:
    """Return how many test rows lie in the intervals of the first model."""
    rows, score = len(trial.data.y_test), trial.scores[0]
    return (
        "Each place on the horizontal axis is one test row, in the order of the predicted mean; dots are what was "
        f"observed. The {LEVEL:.0%} intervals of {score.model} hold {round(score.coverage * rows)} of {rows} "
        f"observations ({score.coverage:.0%}). {by_chance(rows)}"
    )


def on_calibration(trial: Trial) -> str:
    """Return how far the models are from calibrated, on average over the levels."""
    gaps = ", ".join(
        f"{score.calibration_error:.1%} for {score.model}" for score in trial.scores if score.model in trial.learners
    )
    return (
        "An interval that claims p% should hold p% of the observations: the nearer to the diagonal, the better. "
        f"The mean gap is {gaps}; within the grey band it is no more than chance brings."
    )


def on_weights(trial: Trial) -> str:
    """Return how many networks of the first model clearly contribute."""
    weights = trial.models[trial.first].weight_posterior()
    lower, upper = weights.interval(0.95)
    clear = int(np.sum((lower > 0) | (upper < 0)))
    return (
        f"{trial.first} weighs each network by how well it explains rows it was not trained on. The 95% credible "
        f"intervals of {clear} of {len(weights)} networks leave out zero; equal weights are {1 / len(weights):.2f}."
    )


def by_chance(rows: int) -> str:
    """Return how far the coverage of a calibrated model strays on so many rows."""
    low, high = binomial_envelope(rows, LEVEL, 0.95)
    return (
        f"By chance alone, {LEVEL:.0%} intervals of a calibrated model hold between {low:.0%} and {high:.0%} of {rows} "
        "rows, in 95% of samples."
    )
