"""The records of rivals, and those of the library's defaults on the same splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from bdkn_paper.analysis.paired import scores_by_split
from bdkn_paper.analysis.peer_results import DATASETS, OURS, TITLES
from bdkn_paper.analysis.results import gather
from bdkn_paper.analysis.sample import Sample
from bdkn_paper.store import Record

RIVAL_TITLES = {
    "quantile-forest": "Quantile forest",
    "catboost-quantiles": "CatBoost quantiles",
    "xgboost-tuned": "XGBoost tuned",
    "xgboostlss": "XGBoostLSS",
    "treeffuser": "Treeffuser",
    "realmlp": "RealMLP",
    "realmlp-quantiles": "RealMLP quantiles",
    "tabm": "TabM",
}
"""The rivals in the order of the columns, and their names."""


@dataclass(frozen=True, eq=False)
class RivalRow:
    """The records of all methods that are compared on a data set, on the same ``splits``."""

    dataset: str
    splits: tuple[int, ...]
    records: Mapping[str, Sequence[Record]]

    def sample(self, method: str, metric: str) -> Sample | None:
        """Return a metric over the splits, None if a method is not compared."""
        values = tuple(scores_by_split(self.records.get(method, ()), metric).values())
        return Sample(values) if values else None

    def lowest(self, metric: str, methods: Sequence[str]) -> str:
        """Return which of the methods has the lowest mean, an empty text if none has a finite one."""
        means = {name: sample.mean for name in methods if (sample := self.sample(name, metric))}
        finite = {name: mean for name, mean in means.items() if isfinite(mean)}
        return min(finite, key=lambda name: finite[name], default="")


@dataclass(frozen=True, eq=False)
class RivalResults:
    """The comparisons, one per data set, and the number of fits that failed by data set and rival."""

    rows: tuple[RivalRow, ...]
    failed: Mapping[tuple[str, str], int]

    @property
    def rivals(self) -> tuple[str, ...]:
        """The rivals that are compared on some data set."""
        return tuple(name for name in RIVAL_TITLES if any(name in row.records for row in self.rows))

    @property
    def titles(self) -> dict[str, str]:
        """The methods in the order of the columns, and their names."""
        return {name: (RIVAL_TITLES | TITLES)[name] for name in (*self.rivals, *OURS)}

    @property
    def records(self) -> list[Record]:
        """The records of rivals that are compared."""
        return [record for row in self.rows for name in self.rivals for record in row.records.get(name, ())]


def rival_results(records: Sequence[Record]) -> RivalResults:
    """Return the comparisons on the data sets for which there are records of rivals and of ours."""
    theirs, ours = gather(records, "rivals"), gather(records, "defaults")
    rows = []
    for name in DATASETS:
        mine = {method: found for method in OURS if (found := ours.done.get((name, method), ()))}
        rivals = {method: found for method in RIVAL_TITLES if (found := theirs.done.get((name, method), ()))}
        if mine and (row := _row(name, mine, rivals)):
            rows.append(row)
    known = {(name, method): n for (name, method), n in theirs.failed.items() if method in RIVAL_TITLES}
    return RivalResults(tuple(rows), known)


def _row(dataset: str, ours: Mapping[str, Sequence[Record]], rivals: Mapping[str, Sequence[Record]]) -> RivalRow | None:
    """Return the comparison on the splits that all have, None if no rival has one in common with ours.

    Rivals with the fewest splits are left out until there is a split that all others have.
    """
    left = sorted(rivals, key=lambda name: -len(rivals[name]))
    while left:
        chosen = {name: rivals[name] for name in RIVAL_TITLES if name in left} | dict(ours)
        common = set.intersection(*(_splits(records) for records in chosen.values()))
        if common:
            kept = {n: [r for r in found if r["cell"]["split"] in common] for n, found in chosen.items()}
            return RivalRow(dataset, tuple(sorted(common)), kept)
        left.pop()
    return None


def _splits(records: Sequence[Record]) -> set[int]:
    return {record["cell"]["split"] for record in records}
