"""Scores of the former and of the present defaults on the same splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf, nan

import numpy as np

from bdkn_paper.analysis.paired import scores_by_split
from bdkn_paper.analysis.peer_results import DATASETS, OURS
from bdkn_paper.analysis.results import gather
from bdkn_paper.analysis.sample import Sample
from bdkn_paper.store import Record

FORMER, PRESENT = "former-defaults", "defaults"
"""The two experiments; no file describes the former, because today's library has other defaults."""


@dataclass(frozen=True)
class Change:
    """A score under the former and the present defaults, one value per split that both have."""

    former: Sample
    present: Sample

    def __len__(self) -> int:
        return len(self.former)

    @property
    def mean(self) -> float:
        """The mean under the present defaults minus that under the former; NaN if both are infinite."""
        return self.present.mean - self.former.mean

    @property
    def error(self) -> float:
        """The standard error of the mean difference; NaN for a single split or if a score is not finite."""
        both = np.array([self.former.values, self.present.values])
        return Sample(tuple(both[1] - both[0])).error if np.all(np.isfinite(both)) else nan

    @property
    def lower(self) -> bool:
        """Whether the present defaults have the lower mean."""
        return self.mean < 0

    @property
    def clear(self) -> bool:
        """Whether the means differ by more than one standard error of the differences, or one of them is infinite."""
        return isinf(self.mean) or abs(self.mean) > self.error


@dataclass(frozen=True, eq=False)
class FormerResults:
    """Records of the former and the present defaults by data set and method."""

    former: Mapping[tuple[str, str], Sequence[Record]]
    present: Mapping[tuple[str, str], Sequence[Record]]

    def change(self, dataset: str, method: str, metric: str) -> Change | None:
        """Return a score on the splits that both have, None if there are none."""
        old, new = (scores_by_split(part.get((dataset, method), ()), metric) for part in (self.former, self.present))
        common = [split for split in old if split in new]
        if not common:
            return None
        return Change(Sample(tuple(old[split] for split in common)), Sample(tuple(new[split] for split in common)))

    def changes(self, datasets: Sequence[str], method: str, metric: str) -> dict[str, Change]:
        """Return the scores of a method on those of the data sets that have a split in common."""
        found = {name: self.change(name, method, metric) for name in datasets}
        return {name: change for name, change in found.items() if change}

    @property
    def cells(self) -> list[tuple[str, str]]:
        """The data sets and methods with a split in common."""
        cells = [(dataset, method) for dataset in DATASETS for method in OURS]
        return [cell for cell in cells if _splits(self.former.get(cell, ())) & _splits(self.present.get(cell, ()))]


def former_results(records: Sequence[Record]) -> FormerResults:
    """Return the records of the two experiments."""
    return FormerResults(gather(records, FORMER).done, gather(records, PRESENT).done)


def _splits(records: Sequence[Record]) -> set[int]:
    return {record["cell"]["split"] for record in records}
