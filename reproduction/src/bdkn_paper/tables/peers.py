"""The defaults, their peers and what others printed, as tables: a line a data set, a column a method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import floor, isfinite, isnan, log10, nan

import numpy as np

from bdkn.report.tables import Table
from bdkn_paper.analysis.peer_results import DATASETS, OURS, TITLES, Contest, expected
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.analysis.runtimes import TEN
from bdkn_paper.analysis.sample import Sample
from bdkn_paper.paper.literature import Reference, best_published, paper_best
from bdkn_paper.store import Record

REFERENCES: dict[str, Callable[[str, str], Reference | None]] = {
    "the paper's best": paper_best,
    "best published": best_published,
}
LEVELS = (50, 90, 95)
AVERAGE = "**mean of ten**"
NONE = "–"

Printed = tuple[float, float]
"""A number as it is printed, and one unit of its last digit."""


def score_table(contest: Contest, metric: str) -> Table:
    """Return mean ± standard error of all methods beside what others printed, the best in bold."""
    printed = REFERENCES if metric != "crps" else {}
    lines = tuple(_score_line(contest, dataset, metric, list(printed.values())) for dataset in DATASETS)
    return Table("", ("data set", *printed, *TITLES.values()), lines)


def coverage_table(contest: Contest) -> Table:
    """Return which share of the test rows the 50, 90 and 95 % intervals hold, in per cent."""
    lines = [(dataset_title(name), *(_coverage(contest, (name,), method) for method in TITLES)) for name in DATASETS]
    average = (AVERAGE, *(_coverage(contest, TEN, method) + _share(contest, method) for method in TITLES))
    return Table("", ("data set", *TITLES.values()), (*lines, average))


def calibration_table(contest: Contest) -> Table:
    """Return the calibration error of all methods, the best in bold."""
    lines = [_calibration_line(contest, (name,)) for name in DATASETS]
    means = [
        text + _share(contest, method) for text, method in zip(_calibration_line(contest, TEN), TITLES, strict=True)
    ]
    rows = ((dataset_title(name), *line) for name, line in zip(DATASETS, lines, strict=True))
    return Table("", ("data set", *TITLES.values()), (*rows, (AVERAGE, *means)))


def fit_table(contest: Contest) -> Table:
    """Return the median seconds of a fit, how many times NGBoost's they are, and the threads."""
    lines = [(dataset_title(name), *(_fit(contest, name, method) for method in TITLES)) for name in DATASETS]
    ratios = ("times NGBoost's, median", *(_fixed(median_ratio(contest, method), 2) for method in TITLES))
    threads = ("threads", *(_threads(contest, method) for method in TITLES))
    return Table("", ("data set", *TITLES.values()), (*lines, ratios, threads))


def predict_table(contest: Contest) -> Table:
    """Return the median microseconds of a prediction, a row."""
    lines = (
        (dataset_title(name), *(_brief(predict_microseconds(contest, name, method)) for method in TITLES))
        for name in DATASETS
    )
    return Table("", ("data set", *TITLES.values()), tuple(lines))


def average(contest: Contest, datasets: Iterable[str], method: str, metric: str) -> float:
    """Return the mean over data sets of the mean over splits, of those that have some; not a number without any."""
    samples = (contest.sample(name, method, metric) for name in datasets)
    means = [sample.mean for sample in samples if sample]
    return float(np.mean(means)) if means else nan


def fit_seconds(contest: Contest, dataset: str, method: str) -> float:
    """Return the median seconds of a fit, not a number without one."""
    return _median(contest.done.get((dataset, method), ()), lambda record: float(record["seconds"]["fit"]))


def predict_microseconds(contest: Contest, dataset: str, method: str) -> float:
    """Return the median time of a prediction over its rows, not a number without one."""
    return _median(contest.done.get((dataset, method), ()), _microseconds)


def median_ratio(contest: Contest, method: str) -> float:
    """Return the median over data sets of a fit's time over NGBoost's."""
    ratios = [fit_seconds(contest, name, method) / fit_seconds(contest, name, "ngboost") for name in DATASETS]
    there = [ratio for ratio in ratios if isfinite(ratio)]
    return float(np.median(there)) if there else nan


def _score_line(
    contest: Contest, dataset: str, metric: str, printed: Sequence[Callable[[str, str], Reference | None]]
) -> tuple[str, ...]:
    references = [find(dataset, metric) for find in printed]
    samples = {method: contest.sample(dataset, method, metric) for method in TITLES}
    digits = _digits(metric, [sample.mean for sample in samples.values() if sample])
    texts = [_reference(reference) for reference in references]
    texts += [_score(contest, dataset, method, sample, digits) for method, sample in samples.items()]
    whole = [contest.whole(dataset, method, metric) for method in TITLES]
    values = [_printed(reference.value, reference.digits) if reference else None for reference in references]
    values += [_printed(sample.mean, digits) if sample else None for sample in whole]
    marks = [""] * (len(texts) - len(OURS)) + [_marks(contest, dataset, metric, method) for method in OURS]
    return (dataset_title(dataset), *(text + mark for text, mark in zip(_bold(texts, values), marks, strict=True)))


def _reference(reference: Reference | None) -> str:
    if reference is None:
        return NONE
    error = f" ± {reference.error:.2f}" if isfinite(reference.error) else ""
    flag = ("" if reference.verified else "†") + ("‡" if reference.note else "")
    return f"{reference.value:.{reference.digits}f}{error} ({reference.who}){flag}"


def _score(contest: Contest, dataset: str, method: str, sample: Sample | None, digits: int) -> str:
    if sample is None:
        return NONE
    error = f" ± {_fixed(sample.error, digits)}" if isfinite(sample.error) else ""
    part = f" ({len(sample)}/{expected(dataset)})" if contest.missing(dataset, method) else ""
    return f"{_fixed(sample.mean, digits)}{error}{part}"


def _marks(contest: Contest, dataset: str, metric: str, method: str) -> str:
    """Return ▲ or ▼ if a method is significantly better or worse than the best peer, + or − than our first method."""
    rival = contest.rival(dataset, metric, method)
    base = contest.paired(dataset, metric, method, OURS[0]) if method != OURS[0] else None
    words = [("▲" if pair.better else "▼" if pair.worse else "") for pair in (rival,) if pair]
    words += [("+" if pair.better else "−" if pair.worse else "") for pair in (base,) if pair]
    return "".join(f" {word}" for word in words if word)


def _bold(texts: Sequence[str], values: Sequence[Printed | None]) -> list[str]:
    """Return the texts with the least of the values in bold, several if the coarser of two cannot tell them apart."""
    found = [value for value in values if value]
    best = [value and all(other[0] >= value[0] - max(value[1], other[1]) / 2 for other in found) for value in values]
    return [f"**{text}**" if first else text for text, first in zip(texts, best, strict=True)]


def _printed(value: float, digits: int) -> Printed | None:
    return (round(value, digits), 10.0**-digits) if isfinite(value) else None


def _digits(metric: str, means: Sequence[float]) -> int:
    """Return the decimals of a line: three digits of the least error, two decimals of NLL, which is a logarithm."""
    least = min((mean for mean in means if isfinite(mean) and mean > 0), default=1.0)
    return 2 if metric == "nll" else min(6, max(2, 2 - floor(log10(least))))


def _share(contest: Contest, method: str) -> str:
    """Return of how many of the ten sets there are records, if not of all."""
    there = sum((name, method) in contest.done for name in TEN)
    return f" ({there} of {len(TEN)})" if 0 < there < len(TEN) else ""


def _calibration_line(contest: Contest, datasets: Sequence[str]) -> list[str]:
    means = [average(contest, datasets, method, "calibration_error") for method in TITLES]
    return _bold([_fixed(mean, 3) for mean in means], [_printed(mean, 3) for mean in means])


def _coverage(contest: Contest, datasets: Sequence[str], method: str) -> str:
    shares = [average(contest, datasets, method, f"coverage_{level}") for level in LEVELS]
    return " / ".join(_fixed(100 * share, 0) for share in shares) if all(map(isfinite, shares)) else NONE


def _fit(contest: Contest, dataset: str, method: str) -> str:
    seconds, base = (fit_seconds(contest, dataset, name) for name in (method, "ngboost"))
    if not isfinite(seconds):
        return NONE
    return f"{_brief(seconds)} ({_brief(seconds / base)})" if isfinite(base) and base else _brief(seconds)


def _threads(contest: Contest, method: str) -> str:
    mine = [record for (_, name), records in contest.done.items() if name == method for record in records]
    found = sorted({record.get("hardware", {}).get("threads") or 0 for record in mine} - {0})
    return " or ".join(map(str, found)) or NONE


def _microseconds(record: Record) -> float:
    return 1e6 * float(record["seconds"].get("predict", nan)) / float(record["rows"]["test"])


def _median(records: Sequence[Record], number: Callable[[Record], float]) -> float:
    return float(np.median([number(record) for record in records])) if records else nan


def _brief(value: float) -> str:
    """Return three digits or all that are before the point."""
    return NONE if not isfinite(value) else f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _fixed(value: float, digits: int) -> str:
    """Return so many decimals, none where the number is large."""
    if isnan(value):
        return NONE
    return f"{value:.{digits if abs(value) < 100 else 0}f}" if isfinite(value) else "∞"
