"""Tables of the former and the present defaults: one row per data set, four columns per method."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from bdkn_paper.analysis.former import Change, FormerResults
from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.peer_results import DATASETS, OURS, TITLES, expected
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.tables.cells import NONE, decimals, fixed

_PARTS = (", former", ", present", ", difference", ", splits")


def former_table(results: FormerResults, metric: str) -> Table:
    """Return means of a score, their difference, in bold beyond one standard error, and the number of splits."""
    methods = [name for name in OURS if results.changes(DATASETS, name, metric)]
    lines = []
    for dataset in DATASETS:
        found = [results.change(dataset, method, metric) for method in methods]
        if any(found):
            lines.append((dataset_title(dataset), *(cell for each in found for cell in _cells(dataset, each, metric))))
    columns = (f"{TITLES[name]}{part}" for name in methods for part in _PARTS)
    return Table("", ("data set", *columns), tuple(lines))


def _cells(dataset: str, change: Change | None, metric: str) -> Sequence[str]:
    if change is None:
        return (NONE,) * len(_PARTS)
    means = change.former.mean, change.present.mean
    digits = decimals(metric, means)
    splits = f"{len(change)}/{expected(dataset)}"
    return *(fixed(mean, digits) for mean in means), _difference(change, digits + 1), splits


def _difference(change: Change, digits: int) -> str:
    """Return the difference with its sign and standard error, with one more decimal than the scores."""
    text = f"{'+' if change.mean > 0 else ''}{fixed(change.mean, digits)}"
    text = f"**{text}**" if change.clear else text
    return text if isnan(change.error) else f"{text} ± {fixed(change.error, digits)}"
