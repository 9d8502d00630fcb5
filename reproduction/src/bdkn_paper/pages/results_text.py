"""What is to be seen in the tables of the defaults, told from their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite

from bdkn_paper.analysis.criteria import METRICS, Bar, bars, below_best_peer, lowest
from bdkn_paper.analysis.paired import TEST as TEST
from bdkn_paper.analysis.peer_results import DATASETS, ENOUGH, OURS, TITLES, Contest
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.analysis.runtimes import TEN, machine
from bdkn_paper.paper.literature import Reference, best_published, literature
from bdkn_paper.tables.peers import average, median_ratio, predict_microseconds

METHODS = (
    "BDKN is `BDKNRegressor()` and Stacking is `BayesianStackingRegressor()`, both without arguments "
    '(`experiments/defaults.toml`). The peers (`experiments/peers.toml`) are fitted as they come; "stopped" are those '
    "with a tenth of the training rows held out to stop by. All see the paper's splits. Sarcos is the paper's, with "
    'test rows among the training rows; "Sarcos, clean" is without them and in no count. Of its 20 splits, which share '
    f"nearly all rows, {ENOUGH['sarcos']} are asked for. Song could not be had."
)
BARS = (
    "Counts are over the paper's ten sets, nine of which the literature has. A mean over all splits is below a printed "
    'number if it still is after rounding to the digits printed; "level" are those that are then the same. The best '
    'published number may be the paper\'s own; "verified alone" leaves out those marked † below. Comparisons of two '
    "methods are on the splits that both have."
)
GLANCE = "NLL of all methods on each data set, minus BDKN's"
PICTURE = (
    "NLL on each data set minus BDKN's, linear up to 0.1 and logarithmic beyond: what is left of the line is better "
    "than BDKN. Numbers on the right lie beyond the axis."
)
MARKS = (
    "Mean ± standard error over splits, with n/m where only n of m splits are there. Bold is the lowest of the line, "
    "or printed level with it; methods that lack splits are left out of that. Of ours, ▲ is significantly better and ▼ "
    "significantly worse than the peer that is best on the set, + and − the same of Stacking against BDKN."
)
PRINTED = (
    "In brackets the method: of the paper's with its setting, and with +k if k more of its cells print the same. The "
    "best published may be the paper's."
)


def origin(contest: Contest) -> str:
    """Return what the page was written from."""
    versions = {
        f"{name} {number}"
        for record in contest.records
        for name, number in record.get("versions", {}).items()
        if name in ("bdkn", "ngboost", "catboost", "sklearn-contrib-bde")
    }
    libraries = f" Versions: {', '.join(sorted(versions))}." if versions else ""
    return (
        f"Written by `bdkn-paper results` from {len(contest.records)} records in `results/`; do not edit. "
        f"Machine: {machine(contest.records)}.{libraries}"
    )


def on_bars(contest: Contest) -> str:
    """Return the first bars in words."""
    return " ".join(_bar_sentence(contest, method) for method in OURS)


def on_scores(contest: Contest, metric: str) -> str:
    """Return who is lowest on how many sets, and how ours do against the best peer."""
    wins = {TITLES[name]: Bar("", partial(lowest, metric=metric)).tally(contest, name).met for name in TITLES}
    leaders = sorted((name for name in wins if wins[name]), key=lambda name: -wins[name])
    said = ", ".join(f"{name} on {wins[name]}" for name in leaders) or "none yet"
    against = "; ".join(_against_peers(contest, metric, method) for method in OURS)
    title = METRICS[metric]
    return f"Lowest {title} of all that was run, of ten sets: {said}. Against the best peer of each set: {against}."


def footnotes(metric: str) -> str:
    """Return where printed numbers come from, and what must be known of them."""
    found = {name: best_published(name, metric) for name in DATASETS}
    there = {name: reference for name, reference in found.items() if reference}
    if not there:
        return ""
    parts = [PRINTED, f"Sources: {_grouped(there, lambda line: line.source)}."]
    if unverified := [dataset_title(name) for name, line in there.items() if not line.verified]:
        parts.append(f"† {', '.join(unverified)}: quoted from memory, not verified at the source.")
    if noted := {name: line for name, line in there.items() if line.note}:
        parts.append(f"‡ {_grouped(noted, lambda line: f'{line.who}, {line.note}')}.")
    return " ".join([*parts, *_apart(metric)])


def on_coverage(contest: Contest) -> str:
    """Return what the 90 % intervals hold on average."""
    held = _averages(contest, "coverage_90")
    says = "Per cent of test rows that the 50 / 90 / 95 % intervals hold, mean over splits."
    if not held:
        return says
    nearest = min(held, key=lambda name: abs(held[name] - 0.9))
    listed = ", ".join(f"{name} {share:.1%}" for name, share in held.items())
    return f"{says} On average over the sets there are, 90 % intervals hold {listed}; nearest to 90 % is {nearest}."


def on_calibration(contest: Contest) -> str:
    """Return whose calibration error is least."""
    errors = _averages(contest, "calibration_error")
    says = "Calibration error: how far from their level intervals of every level are, on average."
    if not errors:
        return says
    least = min(errors, key=lambda name: errors[name])
    ours = ", ".join(f"{name} {errors[name]:.3f}" for name in map(TITLES.__getitem__, OURS) if name in errors)
    return f"{says} Least on average over the sets: {least}, {errors[least]:.3f}" + (
        f"; ours: {ours}." if ours else "."
    )


def on_fits(contest: Contest) -> str:
    """Return how long fits take beside NGBoost's."""
    says = (
        "Median seconds of a fit by the clock and, in brackets, how many times NGBoost's they are; threads are those a "
        "fit was allowed, of which NGBoost uses one."
    )
    ratios = {TITLES[name]: median_ratio(contest, name) for name in TITLES if name != "ngboost"}
    listed = ", ".join(f"{name} {ratio:.2g}" for name, ratio in ratios.items() if isfinite(ratio))
    return f"{says} Times NGBoost's on the median set: {listed}." if listed else says


def on_predictions(contest: Contest) -> str:
    """Return how long predictions take."""
    says = "Median microseconds of a prediction, mean, variance and all, for one test row among all of a split."
    spans = [
        f"{TITLES[name]} {min(found):.2g} to {max(found):.2g}"
        for name in OURS
        if (found := [us for dataset in DATASETS if isfinite(us := predict_microseconds(contest, dataset, name))])
    ]
    return f"{says} Ours: {', '.join(spans)}." if spans else says


def _bar_sentence(contest: Contest, method: str) -> str:
    first = {bar.says: bar.tally(contest, method) for bar in bars()[:4]}
    said = [f"{says} on {tally.met} of {tally.judged}" for says, tally in first.items() if tally.judged]
    return f"{TITLES[method]} has {', '.join(said) or 'not all splits of any set yet'}."


def _against_peers(contest: Contest, metric: str, method: str) -> str:
    tally = Bar("", partial(below_best_peer, metric=metric)).tally(contest, method)
    worse = len(tally.sets("significantly above"))
    return f"{TITLES[method]} significantly better on {tally.met}, worse on {worse} of {tally.judged}"


def _averages(contest: Contest, metric: str) -> dict[str, float]:
    found = {title: average(contest, TEN, name, metric) for name, title in TITLES.items()}
    return {title: mean for title, mean in found.items() if isfinite(mean)}


def _grouped(references: dict[str, Reference], words: Callable[[Reference], str]) -> str:
    """Return each text once, with the data sets it is of."""
    groups: dict[str, list[str]] = {}
    for name, reference in references.items():
        groups.setdefault(words(reference), []).append(dataset_title(name))
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in groups.items())


def _apart(metric: str) -> Sequence[str]:
    lines = [(name, line) for name in DATASETS for line in literature(name, metric) if not line.comparable]
    said = [f"{dataset_title(name)} {line.value:.{line.digits}f}, {line.who}† ({line.note})" for name, line in lines]
    return [f"Kept apart: {'; '.join(said)}."] if said else []
