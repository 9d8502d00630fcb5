"""The figures of a trial, each on new axes or on given ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bdkn.plots import CalibrationDisplay, IntervalDisplay, WeightsDisplay
from bdkn.report.trial import Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WEIGHT_LEVELS = (0.5, 0.95)
"""Probabilities of the credible intervals drawn for the weight of a member."""


def draw_intervals(trial: Trial, ax: Axes | None = None) -> IntervalDisplay:
    """Draw the observations of the test rows and the intervals of the first model."""
    data, title = trial.data, f"{trial.first}, {len(trial.data.y_test)} test rows"
    return IntervalDisplay.from_predictions(
        data.y_test, trial.predictive(trial.first), ax=ax, name=title, target=data.target
    )


def draw_calibration(trial: Trial, ax: Axes | None = None) -> CalibrationDisplay:
    """Draw observed against nominal coverage of all models that use inputs, on the same axes."""
    for name in trial.with_inputs:
        display = CalibrationDisplay.from_predictions(trial.data.y_test, trial.predictive(name), ax=ax, name=name)
        ax = display.ax_
    return display


def draw_weights(trial: Trial, ax: Axes | None = None) -> WeightsDisplay:
    """Draw the posterior weights of the members of the first model."""
    model, title = trial.models[trial.first], f"{trial.first}, weights of its networks"
    return WeightsDisplay.from_estimator(model, name=title, levels=WEIGHT_LEVELS, ax=ax)
