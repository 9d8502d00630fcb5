"""The page docs/results.md: the library's defaults compared with the paper, the literature and peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING

from bdkn.errors import InvalidParameterError
from bdkn.report.page import prepare_folder
from bdkn_paper.analysis.criteria import METRICS, criteria_table
from bdkn_paper.analysis.former import former_results
from bdkn_paper.analysis.markdown import to_markdown
from bdkn_paper.analysis.outside import Outside, outside_results
from bdkn_paper.analysis.peer_results import DATASETS, OURS, PEERS, TITLES, PeerResults, peer_results
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.analysis.rivals import rival_results
from bdkn_paper.pages import results_text as texts
from bdkn_paper.pages.former import former_section
from bdkn_paper.pages.outside import PAGE, outside_page, outside_section
from bdkn_paper.pages.rivals import rivals_section
from bdkn_paper.pages.section import drafts, join_blocks
from bdkn_paper.pages.shape import shape_section
from bdkn_paper.store import Record
from bdkn_paper.tables.peers import (
    REFERENCES,
    calibration_table,
    coverage_table,
    cpu_table,
    fit_table,
    predict_table,
    score_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE = "results"
NOTHING = outside_results(())


def results_page(records: Sequence[Record], outside: Outside = NOTHING, images: str = "images") -> str:
    """Return the page as Markdown; ``images`` is the folder of the picture, seen from the page."""
    found = peer_results(records)
    parts = (
        _head(found),
        _picture(found, images),
        _scores(found),
        _calibration(found),
        shape_section(found),
        former_section(former_results(records)),
        rivals_section(rival_results(records)),
        outside_section(outside),
        _cost(found),
    )
    return join_blocks([block for part in parts for block in part])


def picture(found: PeerResults) -> Figure | None:
    """Return the figure of NLLs minus that of our first method, None without records of it."""
    from bdkn_paper.figures.differences import draw_differences

    base = OURS[0]
    sets = [name for name in DATASETS if found.sample(name, base, "nll")]
    if not sets:
        return None
    scores = {
        kind: [_printed_minus(found, name, title) for name in sets]
        for kind, title in zip(("paper", "published"), REFERENCES, strict=True)
    }
    scores |= {method: [_minus(found, name, method) for name in sets] for method in (*PEERS, *OURS[1:])}
    names = {**dict(zip(("paper", "published"), REFERENCES, strict=True)), **TITLES}
    return draw_differences([dataset_title(name) for name in sets], scores, names, TITLES[base], METRICS["nll"])


def write_results(records: Sequence[Record], page: Path, outside: Outside = NOTHING) -> Path:
    """Write the page, its picture into ``images/`` beside it, and outside.md if there are records for it.

    Return the page's path.
    """
    from bdkn.plots import save_figure

    found = peer_results(records)
    if not found.records:
        raise InvalidParameterError(
            "there must be records of defaults or peers; got none: run "
            "'bdkn-paper run reproduction/experiments/defaults.toml' first"
        )
    folder, figure = prepare_folder(page.parent), picture(found)
    if figure is not None:
        save_figure(figure, folder / "images", PICTURE, ("png",))
    with drafts(folder) as draft:
        (draft / page.name).write_text(results_page(records, outside), "utf-8")
        if outside:
            (draft / PAGE).write_text(outside_page(outside), "utf-8")
    return page


def _head(found: PeerResults) -> Iterator[str]:
    yield "# The defaults compared with the paper, the literature and peers"
    yield texts.origin(found)
    yield texts.METHODS
    if notes := list(found.missing_notes()):
        yield "Missing splits; the others are shown, and counted where a count does not need all splits:"
        yield "\n".join(f"- {note}" for note in notes)
    yield "## Criteria"
    yield texts.on_criteria(found)
    yield to_markdown(criteria_table(found)).replace("--:", ":--")  # words, not numbers
    yield texts.CRITERIA


def _picture(found: PeerResults, images: str) -> Iterator[str]:
    if any(found.sample(name, OURS[0], "nll") for name in DATASETS):
        yield "## At a glance"
        yield f"![{texts.GLANCE}]({images}/{PICTURE}.png)"
        yield texts.PICTURE


def _scores(found: PeerResults) -> Iterator[str]:
    yield "## Scores"
    yield texts.MARKS
    yield texts.TEST
    for metric, title in METRICS.items():
        yield f"### {title}"
        yield texts.on_scores(found, metric)
        yield to_markdown(score_table(found, metric))
        yield texts.footnotes(metric)


def _calibration(found: PeerResults) -> Iterator[str]:
    yield "## Calibration"
    yield texts.on_coverage(found)
    yield to_markdown(coverage_table(found))
    yield texts.on_calibration(found)
    yield to_markdown(calibration_table(found))


def _cost(found: PeerResults) -> Iterator[str]:
    yield "## Cost"
    yield texts.on_fits(found)
    yield to_markdown(fit_table(found))
    if (table := cpu_table(found)).rows:
        yield texts.CPU
        yield to_markdown(table)
    yield texts.on_predictions(found)
    yield to_markdown(predict_table(found))


def _minus(found: PeerResults, dataset: str, method: str) -> float:
    pair = found.paired(dataset, "nll", method, OURS[0])
    return pair.mean if pair else nan


def _printed_minus(found: PeerResults, dataset: str, title: str) -> float:
    reference, base = REFERENCES[title](dataset, "nll"), found.sample(dataset, OURS[0], "nll")
    return reference.value - base.mean if reference and base and isfinite(base.mean) else nan
