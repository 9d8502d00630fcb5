"""Where our cells were run with less than the paper's settings ask for."""

from __future__ import annotations

from collections import defaultdict

from bdkn.bench import paper
from bdkn.errors import InvalidParameterError
from bdkn.regressors.paper import SETS, baseline_parameters
from bdkn.report.results import Results, dataset_title, method_title


def caps(results: Results) -> str:
    """Say which methods had fewer epochs on which data sets, or saw the rows through inducing points only."""
    found: dict[str, list[str]] = defaultdict(list)
    for (dataset, method), records in results.done.items():
        given = records[0]["cell"]["parameters"]
        title = f"{method_title(method)} on {dataset_title(dataset)}"
        wanted = _epochs(paper.EXPERIMENTS[results.experiment], dataset, method)
        if wanted and given.get("epochs", wanted) < wanted:
            found["fewer epochs than the paper's"].append(f"{title} ({given['epochs']} of {wanted})")
        if given.get("n_inducing"):
            found[f"{given['n_inducing']} inducing points in place of all rows"].append(title)
    return " ".join(f"With {what}: {', '.join(where)}." for what, where in found.items())


def _epochs(setting: int, dataset: str, method: str) -> int | None:
    """Return the epochs of the paper's appendix, None where it has none."""
    name = dataset.removesuffix("-clean")
    if method in ("bdkn", "de") or method not in paper.METHODS or name not in SETS:
        return None
    try:
        return int(baseline_parameters(method, setting, name, {})["epochs"])
    except InvalidParameterError:  # the paper left the cell out
        return None
