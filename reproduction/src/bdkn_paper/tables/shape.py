"""Tables of the Student-t alone and of the mixture: one row per data set, three columns per method."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.peer_results import DATASETS, OURS, TITLES, PeerResults, expected
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.analysis.sample import Sample
from bdkn_paper.analysis.shape import Shapes, shapes
from bdkn_paper.tables.cells import NONE, bold, decimals, fixed, printed
from bdkn_paper.tables.peers import LEVELS

_COLUMNS = ("data set", *(f"{TITLES[name]}{part}" for name in OURS for part in (", Student-t", "", ", mixtures")))

Pair = Callable[[Shapes], Sequence[str]]
"""From the fits of a method to its two cells: the Student-t alone, and what is predicted."""


def shape_table(results: PeerResults, metric: str) -> Table:
    """Return means of a score, the lower of each pair in bold, and on how many splits a mixture was chosen."""
    return _table(results, lambda found: _scores(found, metric))


def shape_coverage_table(results: PeerResults) -> Table:
    """Return the percentage of test rows within the 50, 90 and 95 % intervals."""
    return _table(results, lambda found: (_coverage(found.student_t), _coverage(found.predicted)))


def _table(results: PeerResults, pair: Pair) -> Table:
    lines = []
    for name in DATASETS:
        found = [shapes(results, name, method) for method in OURS]
        if any(found):
            lines.append((dataset_title(name), *(cell for each in found for cell in _cells(name, each, pair))))
    return Table("", _COLUMNS, tuple(lines))


def _cells(dataset: str, found: Shapes | None, pair: Pair) -> Sequence[str]:
    if found is None:
        return NONE, NONE, NONE
    part = f" ({len(found)}/{expected(dataset)})" if len(found) < expected(dataset) else ""
    return *pair(found), f"{found.chosen} of {len(found)}{part}"


def _scores(found: Shapes, metric: str) -> Sequence[str]:
    samples = found.student_t(metric), found.predicted(metric)
    means = [sample.mean for sample in samples if sample]
    if len(means) < len(samples):
        return NONE, NONE
    digits = decimals(metric, means)
    alone, predicted = bold([fixed(mean, digits) for mean in means], [printed(mean, digits) for mean in means])
    pair = found.paired(metric)
    return alone, predicted + (" +" if pair and pair.better else " −" if pair and pair.worse else "")


def _coverage(sample: Callable[[str], Sample | None]) -> str:
    shares = [found.mean for level in LEVELS if (found := sample(f"coverage_{level}"))]
    return " / ".join(fixed(100 * share, 0) for share in shares) if len(shares) == len(LEVELS) else NONE
