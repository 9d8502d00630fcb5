"""The page that holds our tables beside the paper's, written from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bdkn.errors import InvalidParameterError
from bdkn.report.files import drafts, prepare_folder
from bdkn.report.tables import Table, to_markdown
from bdkn_paper import paper
from bdkn_paper.analysis.comparison import NEAR, Comparison, compare_with_paper
from bdkn_paper.analysis.miss_notes import Notes, read_notes, reason
from bdkn_paper.analysis.ranks import rank_table
from bdkn_paper.analysis.reduced_runs import cap_notes, caps
from bdkn_paper.analysis.results import Results, dataset_title, gather, method_title
from bdkn_paper.analysis.runtimes import machine, runtimes, total
from bdkn_paper.analysis.sample import shown
from bdkn_paper.analysis.variants import Changes, by_one_change
from bdkn_paper.pages.ambiguities import findings
from bdkn_paper.pages.conclusions import reading
from bdkn_paper.pages.section import Finding
from bdkn_paper.paper import METRICS
from bdkn_paper.store import Record
from bdkn_paper.tables.comparison import (
    FLOOR,
    VERDICTS,
    comparison_table,
    distribution_table,
    hit_table,
    runtime_table,
)
from bdkn_paper.tables.formats import grid_markdown
from bdkn_paper.tables.score_grid import score_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {"rmse": "RMSE", "nll": "NLL", "crps": "CRPS"}
CAPTIONS = {
    "figure2": "Boston, test RMSE (left) and NLL (right) over epochs: median and quartiles over splits.",
    "figure3": "Yacht, setting 1 with 50 epochs, by the number of networks: (a) median and quartiles over splits, "
    "(b) the last epoch; whiskers leave out outliers, which are dots.",
}
CONVERGED = (
    "Every method in its own defaults, and in one budget, as `experiments/converged.toml` says: standardised targets, "
    "fitted noise, a stopping rule. The paper has no such table."
)
RUNTIME = (
    "Minutes of fitting on all splits: in a row, one fit after another; and with all cores at work, where a fit on one "
    "thread is charged its share of the cores. The paper's are of a GPU workstation; the ratio is for "
    "as many splits. Aggregation is what is not spent on networks, statistics, evidence, posterior and the predictive "
    "of the test rows, relative to the fit. Song's shape is made-up rows of Song's size, in no total."
)


def reproduction_page(
    records: Sequence[Record], notes: Notes, images: str = "images", source: str | Path = "results"
) -> str:
    """Return the page as Markdown; ``images`` is the folder of the figures, seen from the page."""
    settings = [name for name in paper.EXPERIMENTS if gather(records, name).done]
    cells = [cell for name in settings for cell in compare_with_paper(gather(records, name))]
    capped = {key: why for name in settings for key, why in cap_notes(gather(records, name)).items()}
    changes = by_one_change(records, cells)
    blocks = [
        *_head(records, source, cells, changes, notes),
        *_found(filter(None, [reading(records)]), "##"),
        *(block for name in settings for block in _setting(records, name, cells)),
        *_converged(records),
        *_misses(cells, {**capped, **changes.reached, **changes.straddled, **notes}),
        *_runtimes(records, settings),
        *_figures(records, images),
        *_unsaid(records),
    ]
    return "\n\n".join(block.rstrip("\n") for block in blocks) + "\n"


def figures(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures that there are curves for, by the name of their experiment and file."""
    from bdkn_paper.analysis.curves import setting_curves, size_curves
    from bdkn_paper.figures.ensemble_size import draw_sizes
    from bdkn_paper.figures.epochs import draw_epochs

    drawn: dict[str, Figure] = {}
    if gather(records, "figure2").done:
        drawn["figure2"] = draw_epochs(setting_curves(records))
    if gather(records, "figure3").done:
        drawn["figure3"] = draw_sizes(size_curves(records))
    return drawn


def write_figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write the figures as PNG, SVG and PDF and return the paths."""
    from bdkn.plots import save_figure

    drawn = figures(records)
    if not drawn:
        raise InvalidParameterError(
            "there must be records of figure2 or figure3; got none: run 'bdkn-paper run experiments/figure2.toml'"
        )
    return [path for stem, figure in drawn.items() for path in save_figure(figure, folder, stem, ("png", "svg", "pdf"))]


def write_reproduction(records: Sequence[Record], notes: Path, page: Path, source: str | Path = "results") -> Path:
    """Write the page, and the figures into ``images/`` beside it; return the page's path."""
    known = {*paper.EXPERIMENTS, *CAPTIONS}
    if not any(record["status"] == "done" and record["cell"]["experiment"] in known for record in records):
        raise InvalidParameterError(
            f"there must be records of the paper's experiments, {', '.join(sorted(known))}; got none in {source}: run "
            "'bdkn-paper run experiments/setting1.toml' first; 'bdkn-paper table' shows experiments of your own"
        )
    reasons, folder = read_notes(notes), prepare_folder(page.parent)
    if figures(records):
        write_figures(records, folder / "images")
    with drafts(folder) as draft:
        (draft / page.name).write_text(reproduction_page(records, reasons, source=source), "utf-8")
    return page


def _head(
    records: Sequence[Record], source: str | Path, cells: Sequence[Comparison], changes: Changes, notes: Notes
) -> Iterator[str]:
    yield "# The paper's tables and figures, reproduced"
    done = sum(record["status"] == "done" for record in records)
    yield (
        f"Written by `bdkn-paper reproduction` from {done} records in `{source}/`; do not edit. "
        f"Machine: {machine(records)}. "
        "Every number here is from these records or printed in the paper."
    )
    if not cells:
        return
    yield "## Agreement with the paper"
    yield VERDICTS
    yield to_markdown(hit_table(cells, "Cells that agree"))
    yield "\n".join(_agreement(cells, method) for method in dict.fromkeys(cell.method for cell in cells))
    if others := [cell for cell in cells if cell.experiment == "setting1" and cell.method not in ("bdkn", "de")]:
        yield _others(others, changes, notes)


def _agreement(cells: Sequence[Comparison], method: str) -> str:
    every = [cell for cell in cells if cell.method == method]
    mine = [cell for cell in every if not cell.heavy_tailed]
    aside = f" ({len(every) - len(mine)} more are heavy-tailed, told below)" if len(mine) < len(every) else ""
    return f"- {method_title(method)}: {sum(cell.hit for cell in mine)} of {len(mine)} cells agree{aside}."


def _others(cells: Sequence[Comparison], changes: Changes, notes: Notes) -> str:
    """Say how the methods other than BDKN and the deep ensemble fare in setting 1."""
    judged = [cell for cell in cells if not cell.heavy_tailed]
    left = [(cell.experiment, cell.method, cell.dataset, cell.metric) for cell in judged if not cell.near]
    noted = sum(key in notes for key in left)
    reached, straddled = (sum(key in kind and key not in notes for key in left) for kind in changes)
    share = 1 - (len(left) - reached - straddled - noted) / len(judged) if judged else 0.0
    return (
        f"The other methods in setting 1: heavy-tailed are cells with a printed sd of the RMSE above half its mean. Of "
        f"the {len(judged)} others {len(judged) - len(left)} agree or lie within {NEAR:g} standard errors. Of the rest "
        f"{reached} come to lie so by changing one thing that is not said, {straddled} lie between two amounts of such "
        f"a thing, {noted} have a note; that is {share:.0%} in all. These are under Misses, cell by cell: no one "
        "change fits all data sets, so none is known to be what the paper did. What `from_paper` does was chosen among "
        "several settings by the printed scores (decision 8), so agreement is no independent test of ours."
    )


def _setting(records: Sequence[Record], name: str, cells: Sequence[Comparison]) -> Iterator[str]:
    results, number = gather(records, name), paper.EXPERIMENTS[name]
    yield f"## Setting {number}"
    for metric, title in TITLES.items():
        grid = score_grid(results, metric)
        yield f"### {title}, setting {number}"
        yield grid_markdown(grid)
    yield (
        "Bold is best, italics second best, by printed means over the splits that all methods of a line have. "
        + " ".join(note if note.endswith(".") else f"{note}." for note in grid.notes)
    )
    if told := caps(results):
        yield told
    yield from _ranks(results)
    for metric in METRICS:
        mine = [cell for cell in cells if (cell.experiment, cell.metric) == (name, metric)]
        yield f"### {TITLES[metric]} beside the paper's, setting {number}"
        yield to_markdown(comparison_table(mine, ""))
        for method in dict.fromkeys(cell.method for cell in mine if cell.heavy_tailed):
            yield f"A few diverged splits decide these means of {method_title(method)}; this is how ours lie:"
            heavy = [cell for cell in mine if cell.heavy_tailed and cell.method == method]
            yield to_markdown(distribution_table(heavy, ""))
    yield FLOOR


def _ranks(results: Results) -> Iterator[str]:
    table = rank_table(results)
    if table is not None:
        yield f"{table.title}:"
        yield to_markdown(table)


def _converged(records: Sequence[Record]) -> Iterator[str]:
    """Give the table the paper does not have: every method in its own defaults."""
    results = gather(records, "converged")
    if not results.done:
        return
    yield "## Converged"
    yield CONVERGED
    for metric, title in TITLES.items():
        grid = score_grid(results, metric, digits=3, figures=0 if metric == "nll" else 2)
        yield f"### {title}, converged"
        yield grid_markdown(grid)
    yield " ".join(note if note.endswith(".") else f"{note}." for note in grid.notes)
    yield from _ranks(results)


def _misses(cells: Sequence[Comparison], notes: Notes) -> Iterator[str]:
    if not cells:
        return
    yield "## Misses"
    missed = [cell for cell in cells if not cell.hit]
    yield "\n".join(map(partial(_miss, notes=notes), missed)) if missed else "There are none."


def _miss(cell: Comparison, notes: Notes) -> str:
    where = f"{cell.experiment}, {method_title(cell.method)}, {dataset_title(cell.dataset)}, {TITLES[cell.metric]}"
    numbers = f"ours {shown(cell.ours)}, paper {shown(cell.paper, 2)}, {cell.errors:+.1f} s.e."
    return f"- **{where}** ({numbers}): {reason(cell, notes)}"


def _runtimes(records: Sequence[Record], settings: Sequence[str]) -> Iterator[str]:
    for name in settings:
        if name == settings[0]:
            yield "## Runtime"
            yield RUNTIME
        yield f"### Runtime, setting {paper.EXPERIMENTS[name]}"
        yield to_markdown(runtimes_with_totals(records, paper.EXPERIMENTS[name]))


def runtimes_with_totals(records: Sequence[Record], setting: int) -> Table:
    """Return the runtimes of a setting with the totals of every method."""
    lines = runtimes(records, setting)
    methods = dict.fromkeys(line.method for line in lines)
    totals = [total(lines, method) for method in methods]
    return runtime_table([*lines, *(line for line in totals if line.fits)], f"Runtime, setting {setting}")


def _figures(records: Sequence[Record], images: str) -> Iterator[str]:
    present = {name: says for name, says in CAPTIONS.items() if gather(records, name).done}
    if present:
        yield "## Figures"
    for name, says in present.items():
        yield f"![{says}]({images}/{name}.png)"
        yield f"{says} Also as [SVG]({images}/{name}.svg) and [PDF]({images}/{name}.pdf)."


def _unsaid(records: Sequence[Record]) -> Iterator[str]:
    found = findings(records)
    if found:
        yield "## What the paper leaves unsaid, or prints though it cannot be"
    yield from _found(found, "###")


def _found(findings: Iterable[Finding], level: str) -> Iterator[str]:
    for finding in findings:
        yield f"{level} {finding.title}"
        yield finding.text
        yield from map(to_markdown, finding.tables)
