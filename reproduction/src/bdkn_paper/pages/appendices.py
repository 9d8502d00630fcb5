"""The appendices of docs/reproduction.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bdkn_paper import paper
from bdkn_paper.analysis.comparison import NEAR, Comparison
from bdkn_paper.analysis.markdown import markdown_text, to_markdown
from bdkn_paper.analysis.ranks import rank_table
from bdkn_paper.analysis.reduced_runs import describe_reduced_runs
from bdkn_paper.analysis.results import Results, dataset_title, gather, method_title
from bdkn_paper.analysis.runtimes import machine
from bdkn_paper.analysis.sample import shown
from bdkn_paper.pages.ambiguities import ambiguities
from bdkn_paper.pages.conclusions import conclusions_section
from bdkn_paper.pages.evidence import OURS, Evidence, agreement
from bdkn_paper.paper import METRICS
from bdkn_paper.store import Record
from bdkn_paper.tables.comparison import (
    FLOOR,
    RUNTIME,
    VERDICTS,
    comparison_table,
    distribution_table,
    hit_table,
    runtimes_with_totals,
)
from bdkn_paper.tables.formats import grid_markdown
from bdkn_paper.tables.score_grid import score_grid

TITLES = {"rmse": "RMSE", "nll": "NLL", "crps": "CRPS"}
CAPTIONS = {
    "figure2": "Boston, test RMSE (left) and NLL (right) over epochs: median and quartiles over splits.",
    "figure3": (
        "Yacht, setting 1 with 50 epochs, by number of networks: (a) median and quartiles over splits, (b) after the "
        "last epoch; whiskers leave out outliers, which are dots."
    ),
}
CONVERGED = (
    "Every method with its default settings and one budget, as in `reproduction/experiments/converged.toml`: "
    "standardised targets, fitted noise, a stopping rule. The paper has no such table."
)


@dataclass(frozen=True)
class Appendix:
    """A title and the blocks below it."""

    title: str
    blocks: tuple[str, ...]


def appendices(evidence: Evidence, images: str) -> list[Appendix]:
    """Return the appendices that there are records for; ``images`` is the folder of the figures."""
    numbers = [paper.EXPERIMENTS[name] for name in evidence.settings]
    parts = {
        "Agreement": _agreement(evidence),
        "Conclusions": _conclusions(evidence.records),
        **{f"Setting {number}": _setting(evidence, f"setting{number}") for number in numbers},
        "Converged": _converged(evidence.records),
        "Misses": _misses(evidence),
        "Runtime": _runtimes(evidence.records, numbers),
        "Figures": _figures(evidence.records, images),
        "Open points": _ambiguities(evidence.records),
    }
    found = [Appendix(title, tuple(blocks)) for title, blocks in parts.items()]
    return [appendix for appendix in found if appendix.blocks]


def _agreement(evidence: Evidence) -> Iterator[str]:
    cells = evidence.comparisons
    if not cells:
        return
    yield VERDICTS
    yield to_markdown(hit_table(cells, "Scores that agree"))
    yield "\n".join(_agreement_line(cells, method) for method in dict.fromkeys(cell.method for cell in cells))
    if any(cell.experiment == "setting1" and cell.method not in OURS for cell in cells):
        yield _others(evidence)


def _agreement_line(cells: Sequence[Comparison], method: str) -> str:
    agree, counted, heavy = agreement([cell for cell in cells if cell.method == method])
    aside = f" ({heavy} more are heavy-tailed, see below)" if heavy else ""
    return f"- {method_title(method)}: {agree} of {counted} scores agree{aside}."


def _others(evidence: Evidence) -> str:
    """Return how the methods other than BDKN and the deep ensemble compare in setting 1."""
    others = [cell for cell in evidence.comparisons if cell.experiment == "setting1" and cell.method not in OURS]
    counted = [cell for cell in others if not cell.heavy_tailed]
    left = [(cell.experiment, cell.method, cell.dataset, cell.metric) for cell in counted if not cell.near]
    noted = sum(key in evidence.notes for key in left)
    reached, between = (
        sum(key in kind and key not in evidence.notes for key in left) for kind in evidence.explanations
    )
    share = 1 - (len(left) - reached - between - noted) / len(counted) if counted else 0.0
    return (
        "The other methods in setting 1: scores are heavy-tailed if the printed standard deviation of the RMSE is "
        f"above half its mean. Of the {len(counted)} others, {len(counted) - len(left)} agree or are within {NEAR:g} "
        f"standard errors. Of the rest, {reached} come as close with one change that the paper leaves open, {between} "
        f"are between two amounts of a quantity that it leaves open, and {noted} have a note; together that is "
        f"{share:.0%}. They are listed under Misses. No single change fits all data sets, so none is known to be what "
        "the paper did. The settings of `from_paper` were chosen among several by the printed scores (decision 8), so "
        "agreement is not an independent test of ours."
    )


def _conclusions(records: Sequence[Record]) -> Iterator[str]:
    section = conclusions_section(records)
    if section is not None:
        yield section.text
        yield from map(to_markdown, section.tables)


def _setting(evidence: Evidence, name: str) -> Iterator[str]:
    results, number = gather(evidence.records, name), paper.EXPERIMENTS[name]
    for metric, title in TITLES.items():
        grid = score_grid(results, metric)
        yield f"### {title}, setting {number}"
        yield grid_markdown(grid)
    yield (
        "Bold is best and italics second best, by printed means over the splits that all methods in the row have. "
        + _sentences(grid.notes)
    )
    if reduced := describe_reduced_runs(results):
        yield reduced
    yield from _ranks(results)
    for metric in METRICS:
        mine = [cell for cell in evidence.comparisons if (cell.experiment, cell.metric) == (name, metric)]
        yield f"### {TITLES[metric]} compared with the paper, setting {number}"
        yield to_markdown(comparison_table(mine, ""))
        for method in dict.fromkeys(cell.method for cell in mine if cell.heavy_tailed):
            yield f"A few diverged splits dominate the means of {method_title(method)}. This is their distribution:"
            heavy = [cell for cell in mine if cell.heavy_tailed and cell.method == method]
            yield to_markdown(distribution_table(heavy, ""))
    yield FLOOR


def _ranks(results: Results) -> Iterator[str]:
    table = rank_table(results)
    if table is not None:
        yield f"{table.title}:"
        yield to_markdown(table)


def _converged(records: Sequence[Record]) -> Iterator[str]:
    results = gather(records, "converged")
    if not results.done:
        return
    yield CONVERGED
    for metric, title in TITLES.items():
        grid = score_grid(results, metric, digits=3, figures=0 if metric == "nll" else 2)
        yield f"### {title}, converged"
        yield grid_markdown(grid)
    yield _sentences(grid.notes)
    yield from _ranks(results)


def _misses(evidence: Evidence) -> Iterator[str]:
    if evidence.comparisons:
        lines = [_miss(cell, evidence.reason(cell)) for cell in evidence.misses]
        yield "\n".join(lines) if lines else "There are none."


def _miss(cell: Comparison, reason: str) -> str:
    where = f"{cell.experiment}, {method_title(cell.method)}, {dataset_title(cell.dataset)}, {TITLES[cell.metric]}"
    numbers = f"ours {shown(cell.ours)}, paper {shown(cell.paper, 2)}, {cell.errors:+.1f} s.e."
    return f"- **{where}** ({numbers}): {reason}"


def _runtimes(records: Sequence[Record], settings: Sequence[int]) -> Iterator[str]:
    if settings:
        yield f"{RUNTIME} Machines: {markdown_text(machine(records))}."
    for number in settings:
        yield f"### Runtime, setting {number}"
        yield to_markdown(runtimes_with_totals(records, number))


def _figures(records: Sequence[Record], images: str) -> Iterator[str]:
    for name, caption in CAPTIONS.items():
        if gather(records, name).done:
            yield f"![{caption}]({images}/{name}.png)"
            yield f"{caption} Also as [SVG]({images}/{name}.svg) and [PDF]({images}/{name}.pdf)."


def _ambiguities(records: Sequence[Record]) -> Iterator[str]:
    for section in ambiguities(records):
        yield from section.blocks("###")


def _sentences(notes: Sequence[str]) -> str:
    return " ".join(note if note.endswith(".") else f"{note}." for note in notes)
