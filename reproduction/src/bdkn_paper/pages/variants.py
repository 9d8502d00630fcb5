"""The section on variants: how scores of other methods depend on one thing that the paper does not specify."""

from __future__ import annotations

from collections.abc import Sequence

from bdkn_paper import paper
from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.results import Results, dataset_title, gather, method_title
from bdkn_paper.analysis.sample import shown
from bdkn_paper.analysis.variants import VARIANTS
from bdkn_paper.pages.section import Section
from bdkn_paper.paper import METRICS
from bdkn_paper.store import Record


def variants_section(records: Sequence[Record]) -> Section | None:
    """Return tables of the printed scores, ours in the same setting, and ours with one thing changed."""
    changed = gather(records, "artefacts")
    tables = [table for name, what in VARIANTS.items() if (table := _table(records, changed, name, what))]
    if not tables:
        return None
    text = (
        "The paper does not give the noise levels, length scales and steps of the other methods. `from_paper` sets "
        "them such that the scores come closest to the printed ones. Each table changes one of them. Where this "
        "changes the scores by more than the difference between methods, the comparison is one of set-ups, not of "
        "methods."
    )
    return Section("One unspecified choice can decide another method's scores", text, tuple(tables))


def _table(records: Sequence[Record], changed: Results, name: str, what: str) -> Table | None:
    method, setting = name.split("-")[0], int(name.split("-")[1])
    ours = gather(records, f"setting{setting}")
    rows = []
    for dataset in changed.datasets:
        for metric in METRICS:
            samples = changed.sample(dataset, name, metric), ours.sample(dataset, method, metric)
            printed = paper.scores().get((setting, metric, dataset, method))
            if samples[0] is not None and samples[1] is not None and printed is not None:
                scores = (shown(printed, 2), shown(samples[1], 2), shown(samples[0], 2))
                rows.append((dataset_title(dataset), metric.upper(), *scores))
    columns = (f"{method_title(method)}, setting {setting}", "metric", "paper", "ours", f"ours, {what}")
    return Table(f"{method_title(method)}, setting {setting}: {what}", columns, tuple(rows)) if rows else None
