"""The section of docs/results.md on predictions with and without the densities of neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

from bdkn_paper.analysis.criteria import METRICS
from bdkn_paper.analysis.markdown import to_markdown
from bdkn_paper.analysis.peer_results import OURS, TITLES, PeerResults
from bdkn_paper.analysis.runtimes import TEN
from bdkn_paper.analysis.shape import Shapes, has_mixtures, shapes
from bdkn_paper.tables.shape import shape_coverage_table, shape_table

_SCORES = ("nll", "crps")
_TEXT = (
    "If that improves the score of held-out rows, the Student-t is mixed with the densities of "
    "neighbouring rows. The columns are the mean scores over splits of the Student-t alone "
    "(`model.without_shape()`), those of the predictions of the same fits, and on how many of the splits a mixture "
    "was chosen, with (n/m) if only n of m splits were run; on the others the two are the same. Bold is the lower "
    "score, or equal to it as printed; + means significantly better and − significantly worse than the Student-t."
)


def shape_section(results: PeerResults) -> Iterator[str]:
    """Yield the blocks of the section, none without records of mixtures."""
    if not has_mixtures(results):
        return
    yield "## Shape on and off"
    yield _TEXT
    for metric in _SCORES:
        yield f"### {METRICS[metric]} with and without shape"
        yield _sentences(results, metric)
        yield to_markdown(shape_table(results, metric))
    yield "### Coverage with and without shape"
    yield "Percentage of test rows within the 50 / 90 / 95 % intervals, mean over splits."
    yield to_markdown(shape_coverage_table(results))


def _sentences(results: PeerResults, metric: str) -> str:
    return " ".join(words for method in OURS if (words := _sentence(results, method, metric)))


def _sentence(results: PeerResults, method: str, metric: str) -> str:
    """Return on how many data sets a mixture was chosen, and on how many of them it has the lower score."""
    found = [each for name in TEN if (each := shapes(results, name, method))]
    if not found:
        return ""
    mixed = [each for each in found if each.chosen]
    words = f"{TITLES[method]} chose a mixture on {len(mixed)} of {len(found)} data sets"
    if not mixed:
        return f"{words}."
    lower = sum(_difference(each, metric) < 0 for each in mixed)
    pairs = [pair for each in mixed if (pair := each.paired(metric))]
    better, worse = sum(pair.better for pair in pairs), sum(pair.worse for pair in pairs)
    return (
        f"{words}; there its {METRICS[metric]} is below that of the Student-t on {lower}, significantly on {better}, "
        f"and significantly above on {worse}."
    )


def _difference(found: Shapes, metric: str) -> float:
    predicted, alone = found.predicted(metric), found.student_t(metric)
    return predicted.mean - alone.mean if predicted and alone else nan
