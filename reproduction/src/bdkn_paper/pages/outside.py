"""The page docs/outside.md on random, gap and tail splits, and the section of docs/results.md that leads to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bdkn.errors import InvalidParameterError
from bdkn.report.page import prepare_folder
from bdkn_paper.analysis.markdown import to_markdown
from bdkn_paper.analysis.outside import KINDS, LEVELS, METHOD_TITLES, Outside
from bdkn_paper.pages.section import drafts, join_blocks
from bdkn_paper.tables.outside import coverage_table, score_table, summary_table

PAGE = "outside.md"
_SCORES = {"nll": "NLL", "crps": "CRPS"}
_HEADS = {"gap": "Gap splits", "tail": "Tail splits", "random": "Random splits"}
_SPLITS = (
    "Of each data set at most 1000 rows are used. For each input with more than five different values the rows are "
    "sorted by it: in the *gap* split the middle third is the test set (Foong et al., 2019), in the *tail* split the "
    "upper tenth. Five *random* splits leave out a tenth."
)
_METHODS = (
    "Every method has its default parameters. The Gaussian process (GP: RBF, one length scale per input, constant "
    "noise) and the quantile forest (500 trees, five rows a leaf; it has no density and so no NLL) are scikit-learn's."
)
_SUMMARY = (
    "Share of test rows held by 90 % intervals, mean over splits and then over data sets, and the data set where it is "
    "least; on how many data sets the NLL is below that of another method, on the splits that both have, and the mean "
    "over data sets of the difference, with the median in parentheses."
)
_MARKS = (
    "Means over splits, with (n/m) if only n of m splits were run, and – without records. Bold is the lowest score of "
    "the column, or equal to it as printed; methods with missing splits are never bold."
)


def outside_page(results: Outside) -> str:
    """Return the page as Markdown."""
    return join_blocks([*_head(results), *(block for kind in KINDS for block in _tables(results, kind))])


def outside_section(results: Outside) -> Iterator[str]:
    """Yield the blocks of the section of docs/results.md, none without records of ours."""
    if (table := summary_table(results)).rows:
        yield "## Outside of the training rows"
        yield f"{_SPLITS} [{PAGE}]({PAGE}) has the scores of all methods. {_SUMMARY}"
        yield to_markdown(table)
        yield _others(results)


def write_outside(results: Outside, page: Path) -> Path:
    """Write the page; return its path."""
    if not results:
        raise InvalidParameterError(
            "there must be records of random, gap or tail splits; got none: run "
            "'python reproduction/benchmarks/outside_tables.py run' first"
        )
    with drafts(prepare_folder(page.parent)) as draft:
        (draft / page.name).write_text(outside_page(results), "utf-8")
    return page


def _head(results: Outside) -> Iterator[str]:
    count = sum(map(len, results.records.values()))
    yield "# Random, gap and tail splits"
    yield (
        f"Written by `bdkn-paper results` from {count} records in `reproduction/results/outside.ndjson`, which "
        "`reproduction/benchmarks/outside_tables.py run` appends to; do not edit."
    )
    yield f"{_SPLITS} {_METHODS}"
    if (table := summary_table(results)).rows:
        yield "## Summary"
        yield _SUMMARY
        yield to_markdown(table)
        yield _others(results)


def _tables(results: Outside, kind: str) -> Iterator[str]:
    if not any(found == kind for found, _, _ in results.records):
        return
    yield f"## {_HEADS[kind]}"
    yield _MARKS
    for key, title in _SCORES.items():
        if (table := score_table(results, kind, key)).rows:
            yield f"{title}:"
            yield to_markdown(table)
    for level in LEVELS:
        if (table := coverage_table(results, kind, level)).rows:
            yield f"Percentage held by {100 * level:g} % intervals:"
            yield to_markdown(table)


def _others(results: Outside) -> str:
    """Return the share held by 90 % intervals of all methods, mean over the data sets of each."""
    kinds = [f"{kind} splits: {listed}" for kind in KINDS if (listed := _held(results, kind))]
    return f"Held by 90 % intervals on average over the data sets of each method: {'; '.join(kinds)}."


def _held(results: Outside, kind: str) -> str:
    shares = {title: results.means(kind, name, "coverage_0.9") for name, title in METHOD_TITLES.items()}
    return ", ".join(
        f"{title} {100 * sum(found.values()) / len(found):.1f} %" for title, found in shares.items() if found
    )
