"""Mean ranks of the methods over data sets, from our scores and from the printed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from bdkn_paper import paper
from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.results import Results, dataset_title, method_title
from bdkn_paper.paper import METRICS

Scores = Mapping[tuple[str, str, str], float]
"""Means by metric, data set and method."""

_DIGITS = 2
"""Decimals that the paper prints."""


def rank_table(results: Results, title: str = "Mean ranks") -> Table | None:
    """Return the mean ranks of an experiment, and for the paper's settings also those from the printed scores."""
    ranks = mean_ranks(results)
    if ranks is None:
        return None
    sources = ("", "paper, ") if results.experiment in paper.EXPERIMENTS else ("",)
    columns = ("method", *(f"{source}{metric.upper()}" for source in sources for metric in METRICS))
    rows = tuple((method_title(m), *(f"{rank:.1f}" for rank in found)) for m, found in ranks.methods.items())
    return Table(f"{title} over {', '.join(map(dataset_title, ranks.datasets))}", columns, rows)


class Ranks(NamedTuple):
    """Mean ranks of each method by metric; for the paper's settings, those from the printed scores follow."""

    methods: dict[str, tuple[float, ...]]
    datasets: list[str]


def mean_ranks(results: Results) -> Ranks | None:
    """Return each method's rank, 1 being best, averaged over the data sets on which all methods have a score.

    For a setting of the paper, only methods and data sets count for which the paper prints scores too.
    """
    setting = paper.EXPERIMENTS.get(results.experiment)
    sources = [_ours(results, None if setting is None else _DIGITS)]
    if setting is not None:
        sources.append(_printed(setting))
    methods = [m for m in results.methods if all(any(m == name for _, _, name in found) for found in sources)]
    datasets = [d for d in results.datasets if all(_has_all(found, d, methods) for found in sources)]
    if len(methods) < 2 or not datasets:
        return None
    ranks = [_mean_ranks(found, metric, datasets, methods) for found in sources for metric in METRICS]
    return Ranks({method: tuple(found[method] for found in ranks) for method in methods}, datasets)


def _ours(results: Results, digits: int | None) -> Scores:
    """Return means over the splits that all methods have, rounded to ``digits`` if given."""
    found = {
        (metric, dataset, method): sample.mean
        for metric in METRICS
        for dataset in results.datasets
        for method, sample in results.shared(dataset, metric).items()
    }
    return found if digits is None else {cell: round(mean, digits) for cell, mean in found.items()}


def _printed(setting: int) -> Scores:
    return {cell[1:]: printed.mean for cell, printed in paper.scores().items() if cell[0] == setting}


def _has_all(found: Scores, dataset: str, methods: Sequence[str]) -> bool:
    return all((metric, dataset, method) in found for metric in METRICS for method in methods)


def _mean_ranks(found: Scores, metric: str, datasets: Sequence[str], methods: Sequence[str]) -> dict[str, float]:
    """Return mean ranks; equal scores share a rank, and scores that are not finite are last."""
    table = np.array([[found[metric, dataset, method] for method in methods] for dataset in datasets])
    ranks = rankdata(np.where(np.isfinite(table), table, np.inf), axis=1)
    return dict(zip(methods, ranks.mean(axis=0).tolist(), strict=True))
