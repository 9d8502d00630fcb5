"""A report as one value: everything it shows, before any of it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bdkn.report.captions import by_chance, on_calibration, on_intervals, on_weights
from bdkn.report.figures import draw_calibration, draw_intervals, draw_weights
from bdkn.report.record import record
from bdkn.report.tables import Table, score_table, weight_table
from bdkn.report.trial import Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READING = "Smaller is better, but for coverage: the nearer to 90%, the better. Compiling does not count as fit time."


@dataclass(frozen=True, eq=False)
class Illustration:
    """A figure with the name of its files, its title and what it says."""

    stem: str
    title: str
    says: str
    figure: Figure


@dataclass(frozen=True, eq=False)
class Report:
    """What a report shows; ``numbers`` holds all of them, the models' settings and the versions as JSON can."""

    title: str
    about: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    illustrations: tuple[Illustration, ...]
    numbers: Mapping[str, Any]


def trial_report(trial: Trial, remarks: Sequence[str] = ()) -> Report:
    """Return the report of a trial; ``remarks`` are notes that only who set it up can give."""
    rows, members = len(trial.data.y_test), trial.models[trial.first].member_table()
    return Report(
        title=f"{trial.first} on the {trial.data.name} data",
        about=trial.data.about,
        tables=(
            score_table(trial.scores, f"Scores on {rows} test rows"),
            weight_table(members, f"Posterior weights of the networks of {trial.first}"),
        ),
        notes=(READING, by_chance(rows), *remarks),
        illustrations=illustrations(trial),
        numbers=record(trial),
    )


def illustrations(trial: Trial) -> tuple[Illustration, ...]:
    """Return the figures of a trial with what they say."""
    intervals, calibration, weights = draw_intervals(trial), draw_calibration(trial), draw_weights(trial)
    return (
        Illustration("intervals", "Predictions against the truth", on_intervals(trial), intervals.figure_),
        Illustration("calibration", "Calibration", on_calibration(trial), calibration.figure_),
        Illustration("weights", "Weights of the networks", on_weights(trial), weights.figure_),
    )
