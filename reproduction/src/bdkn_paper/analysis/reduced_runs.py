"""Cells that were run with fewer epochs, or with inducing points, unlike in the paper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from bdkn.errors import InvalidParameterError
from bdkn.estimators.parameters import SETS
from bdkn_paper import paper
from bdkn_paper.analysis.miss_notes import Notes
from bdkn_paper.analysis.results import Results, dataset_title, method_title
from bdkn_paper.baselines.paper_settings import baseline_parameters
from bdkn_paper.paper import METRICS


def describe_reduced_runs(results: Results) -> str:
    """Return which methods were run with fewer epochs or with inducing points, and on which data sets."""
    found: dict[str, list[str]] = defaultdict(list)
    for dataset, method, what, how_many in _reduced_runs(results):
        title = f"{method_title(method)} on {dataset_title(dataset)}"
        found[what].append(f"{title} ({how_many})" if how_many else title)
    return " ".join(f"With {what}: {', '.join(where)}." for what, where in found.items())


def reduced_run_notes(results: Results) -> Notes:
    """Return notes for cells that miss and were run with less than in the paper."""
    return {
        (results.experiment, method, dataset, metric): f"Run with {what}{f', {how_many}' if how_many else ''}; "
        "whether that is the reason was not tested."
        for dataset, method, what, how_many in _reduced_runs(results)
        for metric in METRICS
    }


def _reduced_runs(results: Results) -> Iterator[tuple[str, str, str, str]]:
    """Yield data set, method, what was reduced and, where there is a number, how far."""
    for (dataset, method), records in results.done.items():
        given = records[0]["cell"]["parameters"]
        wanted = _epochs(paper.EXPERIMENTS[results.experiment], dataset, method)
        if wanted and given.get("epochs", wanted) < wanted:
            yield dataset, method, "fewer epochs than the paper's", f"{given['epochs']} of {wanted}"
        if given.get("n_inducing"):
            yield dataset, method, f"{given['n_inducing']} inducing points instead of all rows", ""


def _epochs(setting: int, dataset: str, method: str) -> int | None:
    """Return the epochs in the paper's appendix, None where it has none."""
    name = dataset.removesuffix("-clean")
    if method in ("bdkn", "de") or method not in paper.METHODS or name not in SETS:
        return None
    try:
        return int(baseline_parameters(method, setting, name, {})["epochs"])
    except InvalidParameterError:  # the paper has no such cell
        return None
