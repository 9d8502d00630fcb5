"""The records of the library's defaults and of the peers on the same splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bdkn_paper import paper
from bdkn_paper.analysis.paired import Paired, compare_records, scores_by_split
from bdkn_paper.analysis.results import dataset_title, gather
from bdkn_paper.analysis.runtimes import TEN
from bdkn_paper.analysis.sample import Sample
from bdkn_paper.store import Record

EXPERIMENTS = ("defaults", "peers")

TITLES = {
    "ngboost": "NGBoost",
    "ngboost-stopped": "NGBoost stopped",
    "catboost": "CatBoost",
    "catboost-stopped": "CatBoost stopped",
    "bde": "BDE",
    "bdkn": "BDKN",
    "stack": "Stacking",
}
"""The methods in the order of the columns, and their names."""

OURS = ("bdkn", "stack")
PEERS = tuple(name for name in TITLES if name not in OURS)

DATASETS = tuple(name for known in TEN for name in ((known, "sarcos-clean") if known == "sarcos" else (known,)))
"""The rows of the tables; counts are over the ten data sets of the paper."""


ENOUGH = {"sarcos": 5}
"""Number of splits to run where there are more: the twenty of Sarcos share nearly all rows and differ little."""


@dataclass(frozen=True, eq=False)
class PeerResults:
    """Records of the experiments "defaults" and "peers" by data set and method; any split may be missing."""

    done: Mapping[tuple[str, str], Sequence[Record]]
    failed: Mapping[tuple[str, str], int]

    @property
    def records(self) -> list[Record]:
        """All records of successful fits."""
        return [record for records in self.done.values() for record in records]

    def sample(self, dataset: str, method: str, metric: str) -> Sample | None:
        """Return a metric over the available splits, None if there are none."""
        values = tuple(scores_by_split(self.done.get((dataset, method), ()), metric).values())
        return Sample(values) if values else None

    def missing(self, dataset: str, method: str) -> int:
        """Return the number of missing splits."""
        return max(0, expected(dataset) - len(self.done.get((dataset, method), ())))

    def complete(self, dataset: str, method: str, metric: str) -> Sample | None:
        """Return a metric over all splits, None if some are missing."""
        return None if self.missing(dataset, method) else self.sample(dataset, method, metric)

    def paired(self, dataset: str, metric: str, method: str, other: str) -> Paired | None:
        """Return the comparison of a method with another on the splits that both have."""
        return compare_records(self.done.get((dataset, method), ()), self.done.get((dataset, other), ()), metric)

    def best_peer(self, dataset: str, metric: str, method: str) -> Paired | None:
        """Return the comparison of a method with the peer that has the lowest mean on the splits that both have."""
        pairs = (self.paired(dataset, metric, method, peer) for peer in PEERS)
        return max((pair for pair in pairs if pair is not None), key=lambda pair: pair.mean, default=None)

    def missing_notes(self) -> Iterator[str]:
        """Yield for each method the data sets with missing splits."""
        for method, title in TITLES.items():
            words = [self._note(dataset, method) for dataset in DATASETS if self.missing(dataset, method)]
            if words:
                yield f"{title}: {'; '.join(words)}."

    def _note(self, dataset: str, method: str) -> str:
        there, failed = len(self.done.get((dataset, method), ())), self.failed.get((dataset, method), 0)
        words = f"{dataset_title(dataset)} {there} of {expected(dataset)}"
        return f"{words} ({failed} failed)" if failed else words


def peer_results(records: Sequence[Record]) -> PeerResults:
    """Return the records of the two experiments."""
    parts = [gather(records, name) for name in EXPERIMENTS]
    done = {cell: found for part in parts for cell, found in part.done.items() if _is_ours(*cell)}
    return PeerResults(done, {cell: count for part in parts for cell, count in part.failed.items()})


def expected(dataset: str) -> int:
    """Return the number of splits of a data set to run."""
    name = dataset.removesuffix("-clean")
    return ENOUGH.get(name, paper.datasets()[name].splits)


def _is_ours(dataset: str, method: str) -> bool:
    return dataset in DATASETS and method in TITLES
