"""Our mean scores compared with the printed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import copysign, hypot, inf
from typing import Literal

from bdkn.errors import check_choice
from bdkn_paper import paper
from bdkn_paper.analysis.nll_floor import CONSTANT_VARIANCE, floor, printed_floor, shortfall
from bdkn_paper.analysis.results import Results
from bdkn_paper.analysis.sample import Sample
from bdkn_paper.paper import METRICS

Verdict = Literal["2 s.e.", "same digits", "last digit", "miss"]

ERRORS = 2.0
"""Two means agree within so many combined standard errors."""

NEAR = 3.0
"""Two means are near each other within so many combined standard errors."""

HEAVY_TAILED = (("setting1", "de"),)
"""Experiments and methods whose means are dominated by a few diverged splits."""


@dataclass(frozen=True)
class Floors:
    """Our NLL floor and the paper's; ``below`` is how far the printed NLL is below the floor, whatever the rounding."""

    ours: float
    paper: float
    below: float
    possible: bool
    """Whether the variance of the method varies between rows, so that its NLL may be below the floor."""


@dataclass(frozen=True)
class Comparison:
    """A mean over our splits and the printed one."""

    experiment: str
    dataset: str
    method: str
    metric: str
    ours: Sample
    paper: paper.Printed
    floors: Floors | None = None

    @property
    def difference(self) -> float:
        """Our mean minus the printed one."""
        return self.ours.mean - self.paper.mean

    @property
    def error(self) -> float:
        """The standard error of the difference; NaN for a single split."""
        return hypot(self.ours.error, self.paper.error)

    @property
    def errors(self) -> float:
        """The difference in standard errors."""
        if self.error == 0 and self.difference != 0:
            return copysign(inf, self.difference)
        return self.difference / self.error if self.error else 0.0

    @property
    def verdict(self) -> Verdict:
        """The first criterion by which the two agree, or "miss".

        Within two standard errors; equal as printed; different by at most one unit of the last printed digit.
        """
        if abs(self.difference) <= ERRORS * self.error:
            return "2 s.e."
        if abs(self.difference) <= paper.UNIT / 2:
            return "same digits"
        return "last digit" if abs(self.difference) <= paper.UNIT else "miss"

    @property
    def hit(self) -> bool:
        """Whether the two agree."""
        return self.verdict != "miss"

    @property
    def near(self) -> bool:
        """Whether the two agree or are near each other."""
        return self.hit or abs(self.difference) <= NEAR * self.error

    @property
    def heavy_tailed(self) -> bool:
        """Whether the means are dominated by a few splits."""
        return (self.experiment, self.method) in HEAVY_TAILED or self.scattered

    @property
    def scattered(self) -> bool:
        """Whether the printed RMSE of another method than BDKN and DE has a standard deviation above half its mean."""
        if self.method in ("bdkn", "de"):
            return False
        rmse = paper.scores().get((paper.EXPERIMENTS[self.experiment], "rmse", self.dataset, self.method))
        return rmse is not None and rmse.std > rmse.mean / 2

    @property
    def below(self) -> int:
        """Number of our splits with a score below the printed mean."""
        return sum(value < self.paper.mean for value in self.ours.values)


def compare_with_paper(results: Results, metrics: Sequence[str] = METRICS) -> list[Comparison]:
    """Return the comparisons for all scores of an experiment that the paper prints too, method by method."""
    check_choice("experiment", results.experiment, paper.EXPERIMENTS)
    for metric in metrics:
        check_choice("metric", metric, METRICS)
    cells = (
        _compare(results, dataset, method, metric)
        for metric in metrics
        for method in results.methods
        for dataset in results.datasets
    )
    return [cell for cell in cells if cell is not None]


def hits(comparisons: Iterable[Comparison]) -> Counter[Verdict]:
    """Return how many comparisons agree by each criterion."""
    return Counter(cell.verdict for cell in comparisons)


def impossible(setting: int) -> list[tuple[str, str, float]]:
    """Return data set, method and shortfall of all printed NLLs of a setting that are below the floor."""
    cells = [(dataset, method) for method in paper.METHODS for dataset in paper.DATASETS]
    found = [(dataset, method, _shortfall(setting, dataset, method)) for dataset, method in cells]
    return [(dataset, method, below) for dataset, method, below in found if below > 0]


def _compare(results: Results, dataset: str, method: str, metric: str) -> Comparison | None:
    setting = paper.EXPERIMENTS[results.experiment]
    ours, printed = results.sample(dataset, method, metric), paper.scores().get((setting, metric, dataset, method))
    if ours is None or printed is None:
        return None
    floors = _floors(results, setting, dataset, method) if metric == "nll" else None
    return Comparison(results.experiment, dataset, method, metric, ours, printed, floors)


def _floors(results: Results, setting: int, dataset: str, method: str) -> Floors | None:
    ours, printed = results.sample(dataset, method, "rmse"), paper.scores().get((setting, "rmse", dataset, method))
    if ours is None or printed is None:
        return None
    below = _shortfall(setting, dataset, method)
    return Floors(floor(ours), printed_floor(printed.mean, printed.std), below, method not in CONSTANT_VARIANCE)


def _shortfall(setting: int, dataset: str, method: str) -> float:
    rmse, nll = (paper.scores().get((setting, metric, dataset, method)) for metric in METRICS)
    return shortfall(rmse, nll) if rmse and nll else 0.0
