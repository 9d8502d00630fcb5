"""The content of a report, before it is written to files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bdkn.report.captions import describe_calibration, describe_chance, describe_intervals, describe_weights
from bdkn.report.figures import draw_calibration, draw_intervals, draw_weights
from bdkn.report.summary import summarize_trial
from bdkn.report.tables import Table, score_table, weight_table
from bdkn.report.trial import Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READING = "Smaller is better, except for coverage: the nearer to 90%, the better. Fit times exclude compilation."


@dataclass(frozen=True, eq=False)
class Illustration:
    """A figure with the stem of its file names, its title and its caption."""

    stem: str
    title: str
    caption: str
    figure: Figure


@dataclass(frozen=True, eq=False)
class Report:
    """The content of a report; ``numbers`` are all scores, settings and versions, as written to ``summary.json``."""

    title: str
    about: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    illustrations: tuple[Illustration, ...]
    numbers: Mapping[str, Any]


def trial_report(trial: Trial, remarks: Sequence[str] = ()) -> Report:
    """Return the report of a trial; ``remarks`` are further notes below the scores."""
    rows, members = len(trial.data.y_test), trial.models[trial.first].member_table()
    return Report(
        title=f"{trial.first} on the {trial.data.name} data",
        about=trial.data.about,
        tables=(
            score_table(trial.scores, f"Scores on {rows} test rows"),
            weight_table(members, f"Posterior weights of the networks of {trial.first}"),
        ),
        notes=(READING, describe_chance(rows), *remarks),
        illustrations=illustrations(trial),
        numbers=summarize_trial(trial),
    )


def illustrations(trial: Trial) -> tuple[Illustration, ...]:
    """Return the figures of a trial with their captions."""
    intervals, calibration, weights = draw_intervals(trial), draw_calibration(trial), draw_weights(trial)
    return (
        Illustration("intervals", "Predictions and observations", describe_intervals(trial), intervals.figure_),
        Illustration("calibration", "Calibration", describe_calibration(trial), calibration.figure_),
        Illustration("weights", "Weights of the networks", describe_weights(trial), weights.figure_),
    )
