"""Scores of the Student-t alone and of the mixture with densities of neighbours, of the same fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bdkn_paper.analysis.paired import Paired, compare_records, scores_by_split
from bdkn_paper.analysis.peer_results import PeerResults
from bdkn_paper.analysis.sample import Sample
from bdkn_paper.store import Record


@dataclass(frozen=True, eq=False)
class Shapes:
    """Fits of a method to the splits of a data set, with and without densities of neighbours.

    A record has the scores ``student_t`` if a mixture was chosen. Else the Student-t is what is predicted.
    """

    records: Sequence[Record]

    def __len__(self) -> int:
        return len(self.records)

    @property
    def chosen(self) -> int:
        """Number of splits on which a mixture was chosen."""
        return sum("student_t" in record for record in self.records)

    @property
    def alone(self) -> list[Record]:
        """The same records with the scores of the Student-t."""
        return [{**record, "metrics": record.get("student_t", record["metrics"])} for record in self.records]

    def predicted(self, metric: str) -> Sample | None:
        """Return a metric of the predictions: of the mixture where one was chosen."""
        return _sample(self.records, metric)

    def student_t(self, metric: str) -> Sample | None:
        """Return a metric of the Student-t alone."""
        return _sample(self.alone, metric)

    def paired(self, metric: str) -> Paired | None:
        """Return the comparison of what is predicted with the Student-t alone."""
        return compare_records(self.records, self.alone, metric)


def shapes(results: PeerResults, dataset: str, method: str) -> Shapes | None:
    """Return the fits that say whether a mixture was chosen, None if there are none.

    Records without processor time are older than mixtures: that they have no scores of the Student-t says nothing.
    """
    found = results.done.get((dataset, method), ())
    mine = [record for record in found if "student_t" in record or "fit_cpu" in record["seconds"]]
    return Shapes(mine) if mine else None


def has_mixtures(results: PeerResults) -> bool:
    """Return whether a mixture was chosen in any fit."""
    return any("student_t" in record for record in results.records)


def _sample(records: Sequence[Record], metric: str) -> Sample | None:
    values = tuple(scores_by_split(records, metric).values())
    return Sample(values) if values else None
