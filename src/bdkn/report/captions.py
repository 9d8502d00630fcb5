"""Captions of the figures: one or two sentences each, with numbers."""

from __future__ import annotations

import numpy as np

from bdkn.plots.envelope import binomial_envelope
from bdkn.regressors.aggregation import ALIKE
from bdkn.report.compare import LEVEL
from bdkn.report.trial import Trial


def describe_intervals(trial: Trial) -> str:
    """Return the caption of the interval figure: how many observations the intervals of the first model contain."""
    rows, score = len(trial.data.y_test), trial.scores[0]
    return (
        "Each position on the horizontal axis is one test row, in the order of the predicted mean; dots are "
        f"observations. The {LEVEL:.0%} intervals of {score.model} contain {round(score.coverage * rows)} of {rows} "
        f"observations ({score.coverage:.0%}). {describe_chance(rows)}"
    )


def describe_calibration(trial: Trial) -> str:
    """Return the caption of the calibration figure: the calibration error of each model."""
    errors = ", ".join(
        f"{score.calibration_error:.1%} for {score.model}" for score in trial.scores if score.model in trial.with_inputs
    )
    return (
        "A p% interval should contain p% of the observations: the nearer to the diagonal, the better. The mean "
        f"difference is {errors}. Differences within the grey band can be due to chance."
    )


def describe_weights(trial: Trial) -> str:
    """Return the caption of the weights figure: how many weights of the first model differ clearly from zero."""
    model = trial.models[trial.first]
    weights, alike = model.weight_posterior(), "" if model.members_told_apart_ else f" Here {ALIKE}."
    lower, upper = weights.interval(0.95)
    clear = int(np.sum((lower > 0) | (upper < 0)))
    return (
        f"{trial.first} weights each network by how well it predicts rows that it was not trained on. The 95% credible "
        f"intervals of {clear} of {len(weights)} weights exclude zero; equal weights would be {1 / len(weights):.2f}."
        f"{alike}"
    )


def describe_chance(rows: int) -> str:
    """Return a sentence on the observed coverage that a calibrated model can have on ``rows`` rows by chance."""
    low, high = binomial_envelope(rows, LEVEL, 0.95)
    return (
        f"By chance, the {LEVEL:.0%} intervals of a calibrated model contain between {low:.0%} and {high:.0%} of "
        f"{rows} observations, in 95% of samples."
    )
