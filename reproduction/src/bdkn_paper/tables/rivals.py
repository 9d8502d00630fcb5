"""Tables of rivals and ours on the same splits: one row per data set, one column per method."""

from __future__ import annotations

from math import isfinite, nan

from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.peer_results import expected
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.analysis.rivals import RivalResults, RivalRow
from bdkn_paper.tables.cells import bold, brief, decimals, fixed, printed
from bdkn_paper.tables.peers import cpu_seconds


def rival_table(results: RivalResults, metric: str) -> Table:
    """Return the means of a score, the lowest of a row in bold."""
    lines = ((*_head(row), *_scores(row, metric, list(results.titles))) for row in results.rows)
    return Table("", ("data set", "splits", *results.titles.values()), tuple(lines))


def rival_cpu_table(results: RivalResults) -> Table:
    """Return the median seconds of processor time per fit; it has no rows if they were not recorded."""
    found = [(row, [cpu_seconds(row.records.get(name, ())) for name in results.titles]) for row in results.rows]
    lines = ((*_head(row), *map(brief, seconds)) for row, seconds in found if any(map(isfinite, seconds)))
    return Table("", ("data set", "splits", *results.titles.values()), tuple(lines))


def _head(row: RivalRow) -> tuple[str, str]:
    return dataset_title(row.dataset), f"{len(row.splits)}/{expected(row.dataset)}"


def _scores(row: RivalRow, metric: str, methods: list[str]) -> list[str]:
    samples = [row.sample(name, metric) for name in methods]
    means = [sample.mean if sample else nan for sample in samples]
    digits = decimals(metric, means)
    return bold([fixed(mean, digits) for mean in means], [printed(mean, digits) for mean in means])
