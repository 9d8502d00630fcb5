"""Tables of the library's defaults, the peers and printed scores: one row per data set, one column per method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite, nan

import numpy as np

from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.peer_results import DATASETS, OURS, TITLES, PeerResults, expected
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.analysis.runtimes import TEN
from bdkn_paper.analysis.sample import Sample
from bdkn_paper.paper.literature import Reference, best_published, paper_best
from bdkn_paper.store import Record
from bdkn_paper.tables.cells import NONE, bold, brief, decimals, fixed, printed

REFERENCES: dict[str, Callable[[str, str], Reference | None]] = {
    "the paper's best": paper_best,
    "best published": best_published,
}
LEVELS = (50, 90, 95)
AVERAGE = "**mean of ten**"


def score_table(results: PeerResults, metric: str) -> Table:
    """Return mean ± standard error of all methods and the printed scores, the best in bold."""
    references = REFERENCES if metric != "crps" else {}
    lines = tuple(_score_line(results, dataset, metric, list(references.values())) for dataset in DATASETS)
    return Table("", ("data set", *references, *TITLES.values()), lines)


def coverage_table(results: PeerResults) -> Table:
    """Return the percentage of test rows within the 50, 90 and 95 % intervals."""
    lines = [(dataset_title(name), *(_coverage(results, (name,), method) for method in TITLES)) for name in DATASETS]
    average = (AVERAGE, *(_coverage(results, TEN, method) + _share(results, method) for method in TITLES))
    return Table("", ("data set", *TITLES.values()), (*lines, average))


def calibration_table(results: PeerResults) -> Table:
    """Return the calibration error of all methods, the best in bold."""
    lines = [_calibration_line(results, (name,)) for name in DATASETS]
    means = [
        text + _share(results, method) for text, method in zip(_calibration_line(results, TEN), TITLES, strict=True)
    ]
    rows = ((dataset_title(name), *line) for name, line in zip(DATASETS, lines, strict=True))
    return Table("", ("data set", *TITLES.values()), (*rows, (AVERAGE, *means)))


def fit_table(results: PeerResults) -> Table:
    """Return the median seconds per fit, their ratio to those of NGBoost, and the threads."""
    lines = [(dataset_title(name), *(_fit(results, name, method) for method in TITLES)) for name in DATASETS]
    ratios = ("times NGBoost's, median", *(fixed(median_ratio(results, method), 2) for method in TITLES))
    threads = ("threads", *(_threads(results, method) for method in TITLES))
    return Table("", ("data set", *TITLES.values()), (*lines, ratios, threads))


def cpu_table(results: PeerResults) -> Table:
    """Return the median seconds of processor time per fit; it has no rows if they were not recorded."""
    found = {name: [cpu_seconds(results.done.get((name, method), ())) for method in TITLES] for name in DATASETS}
    lines = ((dataset_title(name), *map(brief, each)) for name, each in found.items() if any(map(isfinite, each)))
    return Table("", ("data set", *TITLES.values()), tuple(lines))


def predict_table(results: PeerResults) -> Table:
    """Return the median microseconds of a prediction per row."""
    lines = (
        (dataset_title(name), *(brief(predict_microseconds(results, name, method)) for method in TITLES))
        for name in DATASETS
    )
    return Table("", ("data set", *TITLES.values()), tuple(lines))


def average(results: PeerResults, datasets: Iterable[str], method: str, metric: str) -> float:
    """Return the mean over the available data sets of the mean over splits; NaN if there are none."""
    samples = (results.sample(name, method, metric) for name in datasets)
    means = [sample.mean for sample in samples if sample]
    return float(np.mean(means)) if means else nan


def fit_seconds(results: PeerResults, dataset: str, method: str) -> float:
    """Return the median seconds per fit, NaN if there is none."""
    return _median(results.done.get((dataset, method), ()), lambda record: float(record["seconds"]["fit"]))


def cpu_seconds(records: Sequence[Record]) -> float:
    """Return the median seconds of processor time of the fits that recorded them, NaN if there is none."""
    timed = [record for record in records if "fit_cpu" in record["seconds"]]
    return _median(timed, lambda record: float(record["seconds"]["fit_cpu"]))


def predict_microseconds(results: PeerResults, dataset: str, method: str) -> float:
    """Return the median time of a prediction divided by its rows, NaN if there is none."""
    return _median(results.done.get((dataset, method), ()), _microseconds)


def median_ratio(results: PeerResults, method: str) -> float:
    """Return the median over data sets of the time of a fit divided by that of NGBoost."""
    ratios = [fit_seconds(results, name, method) / fit_seconds(results, name, "ngboost") for name in DATASETS]
    there = [ratio for ratio in ratios if isfinite(ratio)]
    return float(np.median(there)) if there else nan


def _score_line(
    results: PeerResults, dataset: str, metric: str, finders: Sequence[Callable[[str, str], Reference | None]]
) -> tuple[str, ...]:
    references = [find(dataset, metric) for find in finders]
    samples = {method: results.sample(dataset, method, metric) for method in TITLES}
    digits = decimals(metric, [sample.mean for sample in samples.values() if sample])
    texts = [_reference(reference) for reference in references]
    texts += [_score(results, dataset, method, sample, digits) for method, sample in samples.items()]
    complete = [results.complete(dataset, method, metric) for method in TITLES]
    values = [printed(reference.value, reference.digits) if reference else None for reference in references]
    values += [printed(sample.mean, digits) if sample else None for sample in complete]
    marks = [""] * (len(texts) - len(OURS)) + [_marks(results, dataset, metric, method) for method in OURS]
    return (dataset_title(dataset), *(text + mark for text, mark in zip(bold(texts, values), marks, strict=True)))


def _reference(reference: Reference | None) -> str:
    if reference is None:
        return NONE
    error = f" ± {reference.error:.2f}" if isfinite(reference.error) else ""
    flag = ("" if reference.verified else "†") + ("‡" if reference.note else "")
    return f"{reference.value:.{reference.digits}f}{error} ({reference.who}){flag}"


def _score(results: PeerResults, dataset: str, method: str, sample: Sample | None, digits: int) -> str:
    if sample is None:
        return NONE
    error = f" ± {fixed(sample.error, digits)}" if isfinite(sample.error) else ""
    part = f" ({len(sample)}/{expected(dataset)})" if results.missing(dataset, method) else ""
    return f"{fixed(sample.mean, digits)}{error}{part}"


def _marks(results: PeerResults, dataset: str, metric: str, method: str) -> str:
    """Return ▲ or ▼ for significantly better or worse than the best peer, + or − than our first method."""
    best_peer = results.best_peer(dataset, metric, method)
    base = results.paired(dataset, metric, method, OURS[0]) if method != OURS[0] else None
    words = [("▲" if pair.better else "▼" if pair.worse else "") for pair in (best_peer,) if pair]
    words += [("+" if pair.better else "−" if pair.worse else "") for pair in (base,) if pair]
    return "".join(f" {word}" for word in words if word)


def _share(results: PeerResults, method: str) -> str:
    """Return on how many of the ten data sets there are records, if not on all."""
    there = sum((name, method) in results.done for name in TEN)
    return f" ({there} of {len(TEN)})" if 0 < there < len(TEN) else ""


def _calibration_line(results: PeerResults, datasets: Sequence[str]) -> list[str]:
    means = [average(results, datasets, method, "calibration_error") for method in TITLES]
    return bold([fixed(mean, 3) for mean in means], [printed(mean, 3) for mean in means])


def _coverage(results: PeerResults, datasets: Sequence[str], method: str) -> str:
    shares = [average(results, datasets, method, f"coverage_{level}") for level in LEVELS]
    return " / ".join(fixed(100 * share, 0) for share in shares) if all(map(isfinite, shares)) else NONE


def _fit(results: PeerResults, dataset: str, method: str) -> str:
    seconds, base = (fit_seconds(results, dataset, name) for name in (method, "ngboost"))
    if not isfinite(seconds):
        return NONE
    return f"{brief(seconds)} ({brief(seconds / base)})" if isfinite(base) and base else brief(seconds)


def _threads(results: PeerResults, method: str) -> str:
    mine = [record for (_, name), records in results.done.items() if name == method for record in records]
    found = sorted({record.get("hardware", {}).get("threads") or 0 for record in mine} - {0})
    return " or ".join(map(str, found)) or NONE


def _microseconds(record: Record) -> float:
    return 1e6 * float(record["seconds"].get("predict", nan)) / float(record["rows"]["test"])


def _median(records: Sequence[Record], number: Callable[[Record], float]) -> float:
    return float(np.median([number(record) for record in records])) if records else nan
