"""The page docs/reproduction.md: our results compared with the paper's, written from records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING

from bdkn.errors import InvalidParameterError
from bdkn.report.page import prepare_folder
from bdkn_paper import paper
from bdkn_paper.analysis.miss_notes import Notes, read_notes
from bdkn_paper.analysis.results import gather
from bdkn_paper.pages.appendices import CAPTIONS, appendices
from bdkn_paper.pages.evidence import Evidence
from bdkn_paper.pages.section import drafts, join_blocks
from bdkn_paper.pages.summary import heading, summary
from bdkn_paper.store import Record
from bdkn_paper.store.packed import DEFAULT_RESULTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reproduction_page(
    records: Sequence[Record], notes: Notes, images: str = "images", source: str | Path = DEFAULT_RESULTS
) -> str:
    """Return the page as Markdown; ``images`` is the folder of the figures, relative to the page."""
    evidence = Evidence.of(records, notes)
    parts = appendices(evidence, images)
    letters = {part.title: letter for part, letter in zip(parts, ascii_uppercase, strict=False)}
    blocks = [*summary(evidence, str(source), letters)]
    for part in parts:
        blocks += [heading(letters[part.title], part.title), *part.blocks]
    return join_blocks(blocks)


def figures(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures that there are records for, by the name of experiment and file."""
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
            "there must be records of figure2 or figure3; got none: run "
            "'bdkn-paper run reproduction/experiments/figure2.toml' first"
        )
    return [path for stem, figure in drawn.items() for path in save_figure(figure, folder, stem, ("png", "svg", "pdf"))]


def write_reproduction(
    records: Sequence[Record], notes: Path, page: Path, source: str | Path = DEFAULT_RESULTS
) -> Path:
    """Write the page, and the figures into ``images/`` beside it; return the path of the page."""
    known = {*paper.EXPERIMENTS, *CAPTIONS}
    if not any(record["status"] == "done" and record["cell"]["experiment"] in known for record in records):
        raise InvalidParameterError(
            f"there must be records of the paper's experiments, {', '.join(sorted(known))}; got none in {source}: run "
            "'bdkn-paper run reproduction/experiments/setting1.toml' first; 'bdkn-paper table' shows your own "
            "experiments"
        )
    reasons, folder = read_notes(notes), prepare_folder(page.parent)
    if figures(records):
        write_figures(records, folder / "images")
    with drafts(folder) as draft:
        (draft / page.name).write_text(reproduction_page(records, reasons, source=source), "utf-8")
    return page
