"""The texts of docs/results.md, with numbers from the records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite

from bdkn_paper.analysis.criteria import METRICS, Criterion, below_best_peer, criteria, lowest
from bdkn_paper.analysis.markdown import markdown_text
from bdkn_paper.analysis.paired import TEST as TEST
from bdkn_paper.analysis.peer_results import DATASETS, ENOUGH, OURS, TITLES, PeerResults
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.analysis.runtimes import TEN, machine
from bdkn_paper.paper.literature import Reference, best_published, literature
from bdkn_paper.tables.peers import average, median_ratio, predict_microseconds

METHODS = (
    "BDKN is `BDKNRegressor()` and Stacking is `BayesianStackingRegressor()`, both without arguments "
    "(`reproduction/experiments/defaults.toml`). The peers (`reproduction/experiments/peers.toml`) have their default "
    'settings; "stopped" means early stopping on a tenth of the training rows. All methods use the paper\'s splits. '
    'Sarcos is the paper\'s, with test rows among the training rows; "Sarcos, clean" is without them and not counted. '
    f"Of its 20 splits, which share nearly all rows, {ENOUGH['sarcos']} are used. The data of Song were not available."
)
CRITERIA = (
    "Counts are over the ten data sets of the paper, nine of which the literature has scores for. A mean over all "
    'splits counts as below a printed number if it is below it after rounding to the printed digits; "level" means '
    'equal after rounding. The best published number may be that of the paper; "verified only" leaves out the numbers '
    "marked † below. A printed score of a density with spikes on a grid of targets is not compared. Two methods are "
    "compared on the splits that both have."
)
GLANCE = "NLL of all methods on each data set, minus BDKN's"
PICTURE = (
    "NLL on each data set minus that of BDKN, on an axis that is linear up to 0.1 and logarithmic beyond. Left of the "
    "line is better than BDKN. Numbers at the right are beyond the axis."
)
MARKS = (
    "Mean ± standard error over splits, with (n/m) if only n of m splits were run. Bold is the lowest score of the "
    "row, or equal to it as printed; methods with missing splits are never bold. For ours, ▲ means significantly "
    "better and ▼ significantly worse than the best peer on the data set; + and − mean the same for Stacking compared "
    "with BDKN."
)
CPU = (
    "Median seconds of processor time per fit, of all threads together, over the fits that recorded them. Unlike times "
    "at the clock, they depend little on the number of threads and on what else the machine did."
)
PRINTED = (
    "The method is in parentheses; for the paper with its setting, and +k if k more of its scores are equal. The best "
    "published score may be that of the paper."
)


def origin(results: PeerResults) -> str:
    """Return what the page was generated from."""
    versions = {
        f"{name} {number}"
        for record in results.records
        for name, number in record.get("versions", {}).items()
        if name in ("bdkn", "ngboost", "catboost", "sklearn-contrib-bde")
    }
    libraries = f" Versions: {markdown_text(', '.join(sorted(versions)))}." if versions else ""
    return (
        f"Written by `bdkn-paper results` from {len(results.records)} records in `reproduction/results/`; do not edit. "
        f"Machine: {markdown_text(machine(results.records))}.{libraries}"
    )


def on_criteria(results: PeerResults) -> str:
    """Return the outcomes of the first criteria."""
    return " ".join(_criteria_sentence(results, method) for method in OURS)


def on_scores(results: PeerResults, metric: str) -> str:
    """Return on how many data sets each method is lowest, and how ours compare with the best peer."""
    wins = {TITLES[name]: Criterion("", partial(lowest, metric=metric)).tally(results, name).met for name in TITLES}
    leaders = sorted((name for name in wins if wins[name]), key=lambda name: -wins[name])
    lowest_on = ", ".join(f"{name} on {wins[name]}" for name in leaders) or "none yet"
    against = "; ".join(_against_peers(results, metric, method) for method in OURS)
    title = METRICS[metric]
    return f"Lowest {title} on ten data sets: {lowest_on}. Compared with the best peer on each: {against}."


def footnotes(metric: str) -> str:
    """Return the sources of the printed numbers, and remarks on them."""
    found = {name: best_published(name, metric) for name in DATASETS}
    there = {name: reference for name, reference in found.items() if reference}
    if not there:
        return ""
    parts = [PRINTED, f"Sources: {_grouped(there, lambda line: line.source)}."]
    if unverified := [dataset_title(name) for name, line in there.items() if not line.verified]:
        parts.append(f"† {', '.join(unverified)}: quoted from memory, not verified in the source.")
    if noted := {name: line for name, line in there.items() if line.note}:
        parts.append(f"‡ {_grouped(noted, lambda line: f'{line.who}, {line.note}')}.")
    return " ".join([*parts, *_not_compared(metric)])


def on_coverage(results: PeerResults) -> str:
    """Return the average coverage of the 90 % intervals."""
    held = _averages(results, "coverage_90")
    text = "Percentage of test rows within the 50 / 90 / 95 % intervals, mean over splits."
    if not held:
        return text
    nearest = min(held, key=lambda name: abs(held[name] - 0.9))
    listed = ", ".join(f"{name} {share:.1%}" for name, share in held.items())
    return f"{text} On average over the data sets, 90 % intervals contain {listed}; nearest to 90 % is {nearest}."


def on_calibration(results: PeerResults) -> str:
    """Return the method with the lowest calibration error."""
    errors = _averages(results, "calibration_error")
    text = "Calibration error: average difference between the level of intervals and their coverage."
    if not errors:
        return text
    best = min(errors, key=lambda name: errors[name])
    ours = ", ".join(f"{name} {errors[name]:.3f}" for name in map(TITLES.__getitem__, OURS) if name in errors)
    return f"{text} Lowest on average over the data sets: {best}, {errors[best]:.3f}" + (
        f"; ours: {ours}." if ours else "."
    )


def on_fits(results: PeerResults) -> str:
    """Return the times of fits relative to those of NGBoost."""
    text = (
        "Median wall-clock seconds per fit and, in parentheses, their ratio to those of NGBoost. Threads are the "
        "number that a fit was allowed; NGBoost uses one."
    )
    ratios = {TITLES[name]: median_ratio(results, name) for name in TITLES if name != "ngboost"}
    listed = ", ".join(f"{name} {ratio:.2g}" for name, ratio in ratios.items() if isfinite(ratio))
    return f"{text} Median ratio to NGBoost over the data sets: {listed}." if listed else text


def on_predictions(results: PeerResults) -> str:
    """Return the times of predictions."""
    text = "Median microseconds per row for the predictive distribution of all test rows of a split."
    spans = [
        f"{TITLES[name]} {min(found):.2g} to {max(found):.2g}"
        for name in OURS
        if (found := [us for dataset in DATASETS if isfinite(us := predict_microseconds(results, dataset, name))])
    ]
    return f"{text} Ours: {', '.join(spans)}." if spans else text


def _criteria_sentence(results: PeerResults, method: str) -> str:
    first = {each.text: each.tally(results, method) for each in criteria()[:4]}
    met = [f"{text} on {tally.met} of {tally.decided}" for text, tally in first.items() if tally.decided]
    return f"{TITLES[method]} has {', '.join(met) or 'no data set with all splits yet'}."


def _against_peers(results: PeerResults, metric: str, method: str) -> str:
    tally = Criterion("", partial(below_best_peer, metric=metric)).tally(results, method)
    worse = len(tally.sets("significantly above"))
    return f"{TITLES[method]} significantly better on {tally.met}, worse on {worse} of {tally.decided}"


def _averages(results: PeerResults, metric: str) -> dict[str, float]:
    found = {title: average(results, TEN, name, metric) for name, title in TITLES.items()}
    return {title: mean for title, mean in found.items() if isfinite(mean)}


def _grouped(references: dict[str, Reference], words: Callable[[Reference], str]) -> str:
    """Return each text once, followed by its data sets."""
    groups: dict[str, list[str]] = {}
    for name, reference in references.items():
        groups.setdefault(words(reference), []).append(dataset_title(name))
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in groups.items())


def _not_compared(metric: str) -> Sequence[str]:
    lines = [(name, line) for name in DATASETS for line in literature(name, metric) if not line.comparable]
    groups: dict[str, list[str]] = {}
    for name, line in lines:
        mark = "" if line.verified else "†"
        groups.setdefault(line.note, []).append(f"{dataset_title(name)} {line.value:.{line.digits}f}, {line.who}{mark}")
    excluded = [f"{', '.join(scores)} ({note})" for note, scores in groups.items()]
    return [f"Not compared: {'; '.join(excluded)}."] if excluded else []
