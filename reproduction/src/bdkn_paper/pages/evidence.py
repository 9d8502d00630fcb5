"""What the parts of docs/reproduction.md share: records, comparisons with the paper, and explanations of misses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from bdkn_paper import paper
from bdkn_paper.analysis.comparison import Comparison, compare_with_paper
from bdkn_paper.analysis.miss_notes import UNEXPLAINED, Notes
from bdkn_paper.analysis.reduced_runs import reduced_run_notes
from bdkn_paper.analysis.results import gather
from bdkn_paper.analysis.variants import Explanations, explain_misses
from bdkn_paper.store import Record

OURS = ("bdkn", "de")
"""The methods that are not baselines in the paper's comparison: BDKN and the deep ensemble it is built on."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Records, the experiments that the paper prints, comparisons with them, and what explains their misses."""

    records: Sequence[Record]
    settings: tuple[str, ...]
    comparisons: Sequence[Comparison]
    explanations: Explanations
    notes: Notes

    @classmethod
    def of(cls, records: Sequence[Record], notes: Notes) -> Self:
        """Compare the records with the printed numbers."""
        settings = tuple(name for name in paper.EXPERIMENTS if gather(records, name).done)
        comparisons = [cell for name in settings for cell in compare_with_paper(gather(records, name))]
        return cls(records, settings, comparisons, explain_misses(records, comparisons), notes)

    @property
    def misses(self) -> list[Comparison]:
        """The comparisons that do not agree."""
        return [cell for cell in self.comparisons if not cell.hit]

    def reason(self, cell: Comparison) -> str:
        """Return why a comparison misses; a note written by hand comes before a computed one."""
        key = (cell.experiment, cell.method, cell.dataset, cell.metric)
        computed = {**self._reduced, **self.explanations.reached, **self.explanations.between}
        return self.notes.get(key) or computed.get(key, UNEXPLAINED)

    @cached_property
    def _reduced(self) -> Notes:
        found = [reduced_run_notes(gather(self.records, name)) for name in self.settings]
        return {key: note for notes in found for key, note in notes.items()}


def agreement(cells: Sequence[Comparison]) -> tuple[int, int, int]:
    """Return how many comparisons agree, of how many, and how many more depend on a few diverged splits."""
    counted = [cell for cell in cells if not cell.heavy_tailed]
    return sum(cell.hit for cell in counted), len(counted), len(cells) - len(counted)
