"""The section of docs/results.md on rivals."""

from __future__ import annotations

from collections.abc import Iterator

from bdkn_paper.analysis.criteria import METRICS
from bdkn_paper.analysis.markdown import markdown_text, to_markdown
from bdkn_paper.analysis.peer_results import OURS, TITLES
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.analysis.rivals import RIVAL_TITLES, RivalResults
from bdkn_paper.rivals.rival import RIVALS
from bdkn_paper.tables.rivals import rival_cpu_table, rival_table

_TEXT = (
    "Models of other libraries (`reproduction/experiments/rivals.toml`), each fitted in an environment of its own. Not "
    "all splits were run. Scores of a row are means over the splits that all of its methods have; n/m is their number "
    "and that of all splits. Bold is the lowest score of the row, or equal to it as printed."
)
_DENSITIES = (
    "Predictions become densities for NLL and CRPS (`bdkn_paper/rivals/densities.py`): quantiles (quantile forest, "
    "CatBoost quantiles, RealMLP quantiles) become a mixture of Gaussians, one about each quantile and as wide as the "
    "quantiles beside it are apart; samples (Treeffuser) become a kernel density with Silverman's bandwidth; point "
    "predictions (XGBoost tuned, RealMLP, TabM) become Gaussians with the standard deviation of the errors on rows "
    "left out; XGBoostLSS predicts a Student-t. Quantiles of a forest are targets of training rows: where several "
    "coincide, unless targets lie on a coarse grid, a Gaussian is nearly a point, and targets that occur more than "
    "once can lower the NLL without a better forecast. The CRPS hardly depends on this."
)
_CPU = "Median seconds of processor time per fit, of all threads together, over the fits that recorded them."


def rivals_section(results: RivalResults) -> Iterator[str]:
    """Yield the blocks of the section, none without records of rivals."""
    if not results.rows:
        return
    yield "## Rivals"
    yield " ".join(words for words in (_TEXT, _origin(results), _failures(results)) if words)
    yield _DENSITIES
    for metric, title in METRICS.items():
        yield f"### {title} of rivals"
        yield _wins(results, metric)
        yield to_markdown(rival_table(results, metric))
    if (table := rival_cpu_table(results)).rows:
        yield "### Processor time of rivals"
        yield _CPU
        yield to_markdown(table)


def _origin(results: RivalResults) -> str:
    packages = {package for name in results.rivals for package in RIVALS[name].packages}
    versions = {
        f"{name} {number}"
        for record in results.records
        for name, number in record.get("versions", {}).items()
        if name in packages
    }
    listed = f"; versions: {markdown_text(', '.join(sorted(versions)))}" if versions else ""
    return f"Records of rivals that are compared: {len(results.records)}{listed}."


def _failures(results: RivalResults) -> str:
    words = [
        f"{RIVAL_TITLES[method]} on {dataset_title(dataset)} {count}"
        for (dataset, method), count in sorted(results.failed.items())
    ]
    return f"Fits that failed: {', '.join(words)}." if words else ""


def _wins(results: RivalResults, metric: str) -> str:
    """Return on how many data sets each method is lowest, and on how many ours are below all rivals."""
    found = [row.lowest(metric, list(results.titles)) for row in results.rows]
    wins = {title: found.count(name) for name, title in results.titles.items()}
    leaders = sorted((title for title in wins if wins[title]), key=lambda title: -wins[title])
    listed = ", ".join(f"{title} on {wins[title]}" for title in leaders) or "none"
    below = ", ".join(f"{TITLES[name]} on {_below(results, metric, name)}" for name in OURS)
    n, title = len(results.rows), METRICS[metric]
    return f"Lowest {title} on {n} data {'set' if n == 1 else 'sets'}: {listed}. Below all rivals: {below} of {n}."


def _below(results: RivalResults, metric: str, method: str) -> int:
    return sum(row.lowest(metric, (*results.rivals, method)) == method for row in results.rows)
