"""Data sets times methods, mean ± standard deviation over splits, the best marked as in the paper.

Where methods have run on different splits, those that all have decide which is best.
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

DEVIATION = "± is the standard deviation over splits, divided by n (a single split has 0, as in the paper)."


@dataclass(frozen=True)
class Metric:
    """What a metric is called and, where it has one, the value it should have: else the smaller the better."""

    title: str
    ideal: float | None = None
    ranked: bool = True

    def loss(self, value: float) -> float:
        """Return what makes one value better than another, the smaller the better."""
        return value if self.ideal is None else abs(value - self.ideal)


METRICS = MappingProxyType(
    {
        "rmse": Metric("RMSE"),
        "nll": Metric("NLL"),
        "crps": Metric("CRPS"),
        "calibration_error": Metric("Calibration error"),
        **{f"coverage_{level}": Metric(f"Coverage of {level}% intervals", level / 100) for level in (50, 90, 95)},
        # Narrow is good only among intervals that hold what they claim.
        **{f"width_{level}": Metric(f"Width of {level}% intervals", ranked=False) for level in (50, 90, 95)},
    }
)


@dataclass(frozen=True)
class Entry:
    """A cell of a grid; without a sample it is empty."""

    sample: Sample | None
    mark: Mark = ""


@dataclass(frozen=True)
class Grid:
    """A line a data set, a column a method."""

    title: str
    metric: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    entries: tuple[tuple[Entry, ...], ...]
    digits: tuple[int, ...]
    """Digits after the point, of each line."""
    notes: tuple[str, ...]


def score_grid(results: Results, metric: str, digits: int = 2, figures: int = 0) -> Grid:
    """Return a metric of all data sets and methods of an experiment.

    With ``figures`` a line has as many digits more as its smallest mean needs to show so many figures.
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

    As in the paper means are compared as they are printed, so that several can be best, and then several second.
    """
    losses = [inf if sample is None else metric.loss(round(sample.mean, digits)) for sample in line]
    ranks = sorted({round(loss, digits) for loss in losses if isfinite(loss)}) if metric.ranked else []
    names: dict[float, Mark] = dict(zip(ranks, ("best", "second"), strict=False))
    return [names.get(round(loss, digits), "") if isfinite(loss) else "" for loss in losses]
