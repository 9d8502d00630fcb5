"""Scores of all data sets and methods: mean ± standard deviation over splits, the best marked as in the paper.

If methods were run on different splits, the splits that all of them have determine which is best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf, isfinite, log10
from types import MappingProxyType
from typing import Literal

from bdkn.errors import check_choice
from bdkn_paper.analysis.results import Results
from bdkn_paper.analysis.sample import Sample

Mark = Literal["best", "second", ""]

DEVIATION = "± is the standard deviation over splits, divided by n (0 for a single split, as in the paper)."


@dataclass(frozen=True)
class Metric:
    """The title of a metric and its ideal value; without one, smaller is better."""

    title: str
    ideal: float | None = None
    ranked: bool = True

    def loss(self, value: float) -> float:
        """Return a number that is smaller for better values."""
        return value if self.ideal is None else abs(value - self.ideal)


METRICS = MappingProxyType(
    {
        "rmse": Metric("RMSE"),
        "nll": Metric("NLL"),
        "crps": Metric("CRPS"),
        "calibration_error": Metric("Calibration error"),
        **{f"coverage_{level}": Metric(f"Coverage of {level}% intervals", level / 100) for level in (50, 90, 95)},
        # Narrow intervals are good only if their coverage is right.
        **{f"width_{level}": Metric(f"Width of {level}% intervals", ranked=False) for level in (50, 90, 95)},
    }
)


@dataclass(frozen=True)
class Entry:
    """An entry of a grid; without a sample it is empty."""

    sample: Sample | None
    mark: Mark = ""


@dataclass(frozen=True)
class Grid:
    """One row per data set, one column per method."""

    title: str
    metric: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    entries: tuple[tuple[Entry, ...], ...]
    digits: tuple[int, ...]
    """Decimals of each row."""
    notes: tuple[str, ...]


def score_grid(results: Results, metric: str, digits: int = 2, figures: int = 0) -> Grid:
    """Return a metric of all data sets and methods of an experiment.

    With ``figures``, a row has more decimals if its smallest mean needs them to show so many significant figures.
    """
    check_choice("metric", metric, METRICS)
    lines = [[results.sample(dataset, method, metric) for method in results.methods] for dataset in results.datasets]
    shared = [results.shared(dataset, metric) for dataset in results.datasets]
    each = tuple(_digits(line, digits, figures) for line in lines)
    return Grid(
        f"{METRICS[metric].title}, {results.experiment}",
        metric,
        results.datasets,
        results.methods,
        tuple(
            tuple(map(Entry, line, marks([found.get(method) for method in results.methods], METRICS[metric], n)))
            for line, found, n in zip(lines, shared, each, strict=True)
        ),
        each,
        (DEVIATION, *results.notes()),
    )


def _digits(line: Sequence[Sample | None], digits: int, figures: int) -> int:
    sizes = [abs(sample.mean) for sample in line if sample is not None and isfinite(sample.mean) and sample.mean]
    return max(digits, figures - 1 - floor(log10(min(sizes)))) if figures and sizes else digits


def marks(line: Sequence[Sample | None], metric: Metric, digits: int) -> list[Mark]:
    """Return which samples have the best mean and which the second best.

    As in the paper, means are compared as printed, so that several can be best or second best.
    """
    losses = [inf if sample is None else metric.loss(round(sample.mean, digits)) for sample in line]
    ranks = sorted({round(loss, digits) for loss in losses if isfinite(loss)}) if metric.ranked else []
    names: dict[float, Mark] = dict(zip(ranks, ("best", "second"), strict=False))
    return [names.get(round(loss, digits), "") if isfinite(loss) else "" for loss in losses]
