"""The best scores that the paper and the literature report on the same splits.

``literature.csv`` holds the lowest scores found for each data set, in units of the target, and where each is printed.
``verified`` says whether it was read there; ``comparable`` is "no" for scores on other splits, and for those of
densities with spikes on a grid of targets; ``note`` is what a reader must know about the score.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import nan
from typing import Literal

from bdkn_paper.paper import printed

Standing = Literal["below", "level", "above"]


@dataclass(frozen=True)
class Reference:
    """A printed score: ``unit`` is that of its last digit, ``who`` the method, ``error`` the standard error."""

    value: float
    unit: float
    who: str
    source: str
    error: float = nan
    verified: bool = True
    comparable: bool = True
    note: str = ""

    @property
    def digits(self) -> int:
        """Number of decimals printed."""
        return len(f"{self.unit:f}".rstrip("0").partition(".")[2])

    def standing(self, score: float) -> Standing:
        """Return where a score lies relative to this one, rounded to the same digits."""
        if abs(score - self.value) <= self.unit / 2:
            return "level"
        return "below" if score < self.value else "above"


@cache
def paper_best(dataset: str, metric: str) -> Reference | None:
    """Return the lowest mean of the paper's methods in both settings, the first of equal ones."""
    cells = [
        (cell.mean, cell.error, list(printed.METHODS).index(method), setting)
        for (setting, measure, name, method), cell in printed.scores().items()
        if (measure, name) == (metric, dataset)
    ]
    if not cells:
        return None
    mean, error, place, setting = min(cells)
    ties = sum(cell[0] == mean for cell in cells) - 1
    who = f"{list(printed.METHODS.values())[place]}, {setting}" + (f", +{ties}" if ties else "")
    return Reference(mean, printed.UNIT, who, "the paper", error)


@cache
def best_published(dataset: str, metric: str, *, verified: bool = False) -> Reference | None:
    """Return the lowest comparable score of literature and paper, None for data sets that the literature does not have.

    With ``verified``, only scores that were read where they are printed count. If the paper, which prints two decimals,
    is level with the literature, the score of the literature is returned, which has more digits.
    """
    mine = [line for line in literature(dataset, metric) if line.comparable and (line.verified or not verified)]
    if not mine:
        return None
    best, ours = min(mine, key=lambda line: line.value), paper_best(dataset, metric)
    return best if ours is None or ours.standing(best.value) != "above" else ours


def printed_by(dataset: str, metric: str, *, who: str) -> Reference | None:
    """Return the comparable score of a method in the literature, the lowest of several, None if there is none."""
    mine = [line for line in literature(dataset, metric) if line.who == who and line.comparable]
    return min(mine, key=lambda line: line.value, default=None)


def literature(dataset: str, metric: str) -> list[Reference]:
    """Return the scores of the literature, in the order of the file."""
    return [found for name, measure, found in _lines() if (name, measure) == (dataset, metric)]


def published_datasets() -> Sequence[str]:
    """Return the data sets that the literature has scores for."""
    return tuple(dict.fromkeys(name for name, _, _ in _lines()))


@cache
def _lines() -> tuple[tuple[str, str, Reference], ...]:
    text = (files("bdkn_paper.paper") / "literature.csv").read_text("utf-8")
    return tuple((line["dataset"], line["metric"], _reference(line)) for line in csv.DictReader(text.splitlines()))


def _reference(line: dict[str, str]) -> Reference:
    return Reference(
        float(line["value"]),
        10.0 ** -len(line["value"].partition(".")[2]),
        line["method"],
        line["source"],
        verified=line["verified"] == "yes",
        comparable=line["comparable"] == "yes",
        note=line["note"],
    )
