"""The section of docs/results.md on the former defaults."""

from __future__ import annotations

from collections.abc import Iterator

from bdkn_paper.analysis.criteria import METRICS
from bdkn_paper.analysis.former import FORMER, FormerResults
from bdkn_paper.analysis.markdown import to_markdown
from bdkn_paper.analysis.peer_results import OURS, TITLES
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.analysis.runtimes import TEN
from bdkn_paper.tables.former import former_table

_SCORES = ("nll", "crps", "rmse")
_TEXT = (
    f"The records in `reproduction/results/{FORMER}.jsonl` are of an earlier version of the library. Its defaults had "
    "no members with bins and no densities of neighbours, and predictions did not widen far from the training rows. "
    "Scores are means over the splits that both have; n/m is their number and that of all splits. A difference is the "
    "present score minus the former one, ± the standard error of the differences split by split; below zero, the "
    "present defaults are better. Bold differences are larger than one standard error."
)


def former_section(results: FormerResults) -> Iterator[str]:
    """Yield the blocks of the section, none unless both defaults have records of a split."""
    if not results.cells:
        return
    yield "## Compared with the former defaults"
    yield _TEXT
    yield from (words for method in OURS if (words := _sentence(results, method)))
    for metric in _SCORES:
        if (table := former_table(results, metric)).rows:
            yield f"### {METRICS[metric]} of the former and the present defaults"
            yield to_markdown(table)


def _sentence(results: FormerResults, method: str) -> str:
    """Return on how many data sets each score of a method is lower, and on which it is clearly higher."""
    parts = [words for metric in _SCORES if (words := _counts(results, method, metric))]
    return f"{TITLES[method]}: {'; '.join(parts)}." if parts else ""


def _counts(results: FormerResults, method: str, metric: str) -> str:
    found = results.changes(TEN, method, metric)
    if not found:
        return ""
    lower = [change for change in found.values() if change.lower]
    clear = sum(change.clear for change in lower)
    higher = [dataset_title(name) for name, change in found.items() if change.clear and not change.lower]
    return (
        f"{METRICS[metric]} lower on {len(lower)} of {len(found)} data {'set' if len(found) == 1 else 'sets'}, by more "
        f"than a standard error on {clear}, and higher by more than a standard error on {', '.join(higher) or 'none'}"
    )
