"""What decides the scores of the other methods: the paper's settings with one thing changed."""

from __future__ import annotations

from collections.abc import Sequence

from bdkn.report.tables import Table
from bdkn_paper import paper
from bdkn_paper.analysis.results import Results, dataset_title, gather, method_title
from bdkn_paper.analysis.sample import shown
from bdkn_paper.analysis.variants import CHANGES
from bdkn_paper.pages.section import Finding
from bdkn_paper.paper import METRICS
from bdkn_paper.store import Record


def artefacts(records: Sequence[Record]) -> Finding | None:
    """Hold the paper's scores against ours in the same setting and ours with one thing changed."""
    changed = gather(records, "artefacts")
    tables = [table for name, what in CHANGES.items() if (table := _table(records, changed, name, what))]
    if not tables:
        return None
    text = (
        "The paper does not say how the other methods' noise levels, length scales and steps were set up. "
        "`from_paper` sets them up so that the printed scores come out best. Each table changes one of these; where "
        "that moves the scores further than methods differ, it is the set-up that was compared, not the method."
    )
    return Finding("One thing decides another method's scores", text, tuple(tables))


def _table(records: Sequence[Record], changed: Results, name: str, what: str) -> Table | None:
    method, setting = name.split("-")[0], int(name.split("-")[1])
    ours = gather(records, f"setting{setting}")
    rows = []
    for dataset in changed.datasets:
        for metric in METRICS:
            samples = changed.sample(dataset, name, metric), ours.sample(dataset, method, metric)
            printed = paper.scores().get((setting, metric, dataset, method))
            if samples[0] is not None and samples[1] is not None and printed is not None:
                told = (shown(printed, 2), shown(samples[1], 2), shown(samples[0], 2))
                rows.append((dataset_title(dataset), metric.upper(), *told))
    columns = (f"{method_title(method)}, setting {setting}", "metric", "paper", "ours", f"ours, {what}")
    return Table(f"{method_title(method)}, setting {setting}: {what}", columns, tuple(rows)) if rows else None
