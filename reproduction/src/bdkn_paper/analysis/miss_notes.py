"""Notes on why scores differ from the printed ones, written by hand in a TOML file.

::

    [setting1.bdkn.boston]
    rmse = "What was tested, and the result."
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bdkn.errors import InvalidParameterError, check_choice
from bdkn_paper import paper
from bdkn_paper.analysis.comparison import Comparison
from bdkn_paper.paper import METRICS
from bdkn_paper.store.files import read_toml

UNEXPLAINED = "not explained"

Notes = Mapping[tuple[str, str, str, str], str]
"""Notes by experiment, method, data set and metric."""


def read_notes(path: Path) -> Notes:
    """Return the notes of a TOML file, none if it does not exist; unknown names are errors."""
    if not path.exists():
        return {}
    try:
        return dict(_flat(read_toml(path)))
    except (ValueError, AttributeError) as error:
        raise InvalidParameterError(f"{path}: {error}") from error


def reason(cell: Comparison, notes: Notes) -> str:
    """Return the note on a comparison."""
    return notes.get((cell.experiment, cell.method, cell.dataset, cell.metric), UNEXPLAINED)


def _flat(document: Mapping[str, Any]) -> list[tuple[tuple[str, str, str, str], str]]:
    found = [
        ((experiment, method, dataset, metric), str(text))
        for experiment, methods in document.items()
        for method, sets in methods.items()
        for dataset, metrics in sets.items()
        for metric, text in metrics.items()
    ]
    for experiment, method, dataset, metric in (key for key, _ in found):
        check_choice("an experiment", experiment, paper.EXPERIMENTS)
        check_choice("a method", method, paper.METHODS)
        check_choice("a data set", dataset, paper.DATASETS)
        check_choice("a metric", metric, METRICS)
    return found
