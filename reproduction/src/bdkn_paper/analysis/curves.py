"""Curves of test scores over epochs: median and quartiles over splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.errors import InvalidParameterError
from bdkn.typing import FloatArray
from bdkn_paper import paper
from bdkn_paper.analysis.sample import quantiles
from bdkn_paper.store import Record


@dataclass(frozen=True, eq=False)
class QuartileCurve:
    """Quartiles and median after each epoch; ``final`` holds the last value of each split."""

    epoch: FloatArray
    lower: FloatArray
    median: FloatArray
    upper: FloatArray
    final: FloatArray


Curves = Mapping[str, Mapping[str, QuartileCurve]]
"""Curves by metric, then by what is compared: methods, or numbers of networks."""


def quartile_curve(curves: Sequence[Mapping[str, Any]], metric: str) -> QuartileCurve:
    """Return the quartiles of a metric over curves of the same epochs, each ``{"epoch": [..], metric: [..]}``."""
    epochs = {tuple(curve["epoch"]) for curve in curves}
    if len(epochs) != 1:
        raise InvalidParameterError(
            f"curves must have the same epochs on every split; got {len(epochs)} kinds: run the experiment again"
        )
    values = np.array([curve[metric] for curve in curves], dtype=np.float64)
    lower, median, upper = quantiles(values, (0.25, 0.5, 0.75))
    return QuartileCurve(np.array(epochs.pop(), dtype=np.float64), lower, median, upper, values[:, -1])


def setting_curves(records: Iterable[Record], experiment: str = "figure2") -> dict[int, Curves]:
    """Return the curves of each setting by metric and method; "bdkn-1" is BDKN in setting 1."""
    groups = group_curves(records, experiment)
    return {
        setting: {
            metric: {
                method: quartile_curve(groups[method, setting], metric)
                for method in paper.METHODS
                if (method, setting) in groups
            }
            for metric in paper.METRICS
        }
        for setting in sorted({number for _, number in groups})
    }


def group_curves(
    records: Iterable[Record], experiment: str
) -> dict[tuple[str, int], list[Mapping[str, Sequence[float]]]]:
    """Return the curves of all splits by the two parts of the method name."""
    groups: dict[tuple[str, int], list[Mapping[str, Sequence[float]]]] = {}
    for record in records:
        if record["cell"]["experiment"] == experiment and record["status"] == "done":
            groups.setdefault(paper.stem_and_number(record["cell"]["method"]), []).append(record["curves"])
    return groups


def size_curves(records: Iterable[Record], experiment: str = "figure3") -> Curves:
    """Return the curves by metric and number of networks; "bdkn-30" has 30 networks."""
    groups = {str(number): curves for (_, number), curves in sorted(group_curves(records, experiment).items())}
    return {
        metric: {size: quartile_curve(curves, metric) for size, curves in groups.items()} for metric in paper.METRICS
    }
