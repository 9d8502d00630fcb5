"""Tables of random, gap and tail splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, nan

import numpy as np

from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.outside import KINDS, METHOD_TITLES, OTHERS, OURS, SETS, Outside
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.tables.cells import NONE, bold, decimals, fixed, printed


def summary_table(results: Outside) -> Table:
    """Return for each kind of splits what 90 % intervals of ours hold, and how their NLL compares with others'."""
    lines = [
        (kind, METHOD_TITLES[method], *_held(results, kind, method), *_against(results, kind, method))
        for kind in KINDS
        for method in OURS
        if results.means(kind, method, "coverage_0.9")
    ]
    against = (f"NLL {words} {METHOD_TITLES[other]}'s" for other in OTHERS for words in ("below the", "minus the"))
    return Table("", ("splits", "method", "held by 90 % intervals", "least", *against), tuple(lines))


def score_table(results: Outside, kind: str, key: str) -> Table:
    """Return the means of a score: a row per method, a column per data set, the lowest of a column in bold."""
    shown = _methods(results, kind, key)
    columns = [_score_column(results, kind, key, name, shown) for name in SETS]
    if key == "nll":  # means of errors in different units mean nothing
        columns.append(_mean_column(results, kind, key, shown))
    return _table(shown, columns, means=key == "nll")


def coverage_table(results: Outside, kind: str, level: float) -> Table:
    """Return the percentage of test rows within intervals: a row per method, a column per data set."""
    key = f"coverage_{level}"
    shown = _methods(results, kind, key)
    columns = [
        [_percent(results.mean(kind, name, m, key)) + _part(results, kind, name, m) for m in shown] for name in SETS
    ]
    found = [results.means(kind, method, key) for method in shown]
    columns.append([_percent(_mean(each)) + _share(each, found) for each in found])
    return _table(shown, columns, means=True)


def _methods(results: Outside, kind: str, key: str) -> list[str]:
    return [method for method in METHOD_TITLES if results.means(kind, method, key)]


def _table(methods: Sequence[str], columns: Sequence[Sequence[str]], *, means: bool) -> Table:
    heads = ("method", *map(dataset_title, SETS), *(("mean",) if means else ()))
    lines = ((METHOD_TITLES[method], *(column[i] for column in columns)) for i, method in enumerate(methods))
    return Table("", heads, tuple(lines))


def _score_column(results: Outside, kind: str, key: str, dataset: str, methods: Sequence[str]) -> list[str]:
    means = [results.mean(kind, dataset, method, key) for method in methods]
    digits = decimals(key, means)
    parts = [_part(results, kind, dataset, method) for method in methods]
    texts = [fixed(mean, digits) + part for mean, part in zip(means, parts, strict=True)]
    return bold(texts, [None if part else printed(mean, digits) for mean, part in zip(means, parts, strict=True)])


def _mean_column(results: Outside, kind: str, key: str, methods: Sequence[str]) -> list[str]:
    found = [results.means(kind, method, key) for method in methods]
    texts = [fixed(_mean(each), 2) + _share(each, found) for each in found]
    whole = [not _share(each, found) and not _parts(results, kind, m) for m, each in zip(methods, found, strict=True)]
    values = [printed(_mean(each), 2) if all_there else None for each, all_there in zip(found, whole, strict=True)]
    return bold(texts, values)


def _parts(results: Outside, kind: str, method: str) -> bool:
    """Return whether splits are missing on some data set."""
    return any(_part(results, kind, name, method) for name in SETS)


def _part(results: Outside, kind: str, dataset: str, method: str) -> str:
    """Return how many of the splits a method has, if it has some but not all."""
    there, all_splits = results.counts(kind, dataset, method)
    return f" ({there}/{all_splits})" if 0 < there < all_splits else ""


def _share(means: Mapping[str, float], all_means: Sequence[Mapping[str, float]]) -> str:
    """Return on how many of the data sets there are records, if not on all that any method has."""
    sets = set().union(*all_means)
    return f" ({len(means)} of {len(sets)})" if len(means) < len(sets) else ""


def _held(results: Outside, kind: str, method: str) -> tuple[str, str]:
    shares = results.means(kind, method, "coverage_0.9")
    least = min(shares, key=lambda name: shares[name])
    n = len(shares)
    held = f"{_percent(_mean(shares), 1)} %, {n} {'set' if n == 1 else 'sets'}"
    return held, f"{dataset_title(least)} {_percent(shares[least], 1)} %"


def _against(results: Outside, kind: str, method: str) -> list[str]:
    """Return for each of the others on how many sets the NLL is below its, and mean and median difference over sets."""
    cells = []
    for other in OTHERS:
        apart = results.differences(kind, "nll", method, other)
        values = list(apart.values())
        cells.append(f"{sum(value < 0 for value in values)} of {len(values)}" if values else NONE)
        cells.append(f"{fixed(_mean(apart), 2)} ({fixed(float(np.median(values)), 2)})" if values else NONE)
    return cells


def _mean(means: Mapping[str, float]) -> float:
    return float(np.mean(list(means.values()))) if means else nan


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f}" if isfinite(share) else NONE
