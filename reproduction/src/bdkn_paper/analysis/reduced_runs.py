"""Where our cells were run with less than the paper's settings ask for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from bdkn.errors import InvalidParameterError
from bdkn.regressors.paper import SETS, baseline_parameters
from bdkn_paper import paper
from bdkn_paper.analysis.miss_notes import Notes
from bdkn_paper.analysis.results import Results, dataset_title, method_title
from bdkn_paper.paper import METRICS


def caps(results: Results) -> str:
    """Say which methods had fewer epochs on which data sets, or saw the rows through inducing points only."""
    found: dict[str, list[str]] = defaultdict(list)
    for dataset, method, what, how_many in _caps(results):
        title = f"{method_title(method)} on {dataset_title(dataset)}"
        found[what].append(f"{title} ({how_many})" if how_many else title)
    return " ".join(f"With {what}: {', '.join(where)}." for what, where in found.items())


def cap_notes(results: Results) -> Notes:
    """Return what to say of cells that miss, if no more is known than that they were run with less."""
    return {
        (results.experiment, method, dataset, metric): f"Run with {what}{f', {how_many}' if how_many else ''}; "
        "whether that is the reason was not tested."
        for dataset, method, what, how_many in _caps(results)
        for metric in METRICS
    }


def _caps(results: Results) -> Iterator[tuple[str, str, str, str]]:
    """Yield data set, method, what there was less of, and how much, where that is a number."""
    for (dataset, method), records in results.done.items():
        given = records[0]["cell"]["parameters"]
        wanted = _epochs(paper.EXPERIMENTS[results.experiment], dataset, method)
        if wanted and given.get("epochs", wanted) < wanted:
            yield dataset, method, "fewer epochs than the paper's", f"{given['epochs']} of {wanted}"
        if given.get("n_inducing"):
            yield dataset, method, f"{given['n_inducing']} inducing points in place of all rows", ""


def _epochs(setting: int, dataset: str, method: str) -> int | None:
    """Return the epochs of the paper's appendix, None where it has none."""
    name = dataset.removesuffix("-clean")
    if method in ("bdkn", "de") or method not in paper.METHODS or name not in SETS:
        return None
    try:
        return int(baseline_parameters(method, setting, name, {})["epochs"])
    except InvalidParameterError:  # the paper left the cell out
        return None
