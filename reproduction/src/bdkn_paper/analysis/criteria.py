"""Criteria for the library's defaults, and on how many of the ten data sets they are met."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite

from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.peer_results import OURS, PEERS, TITLES, PeerResults
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.analysis.runtimes import TEN
from bdkn_paper.paper.literature import Reference, best_published, paper_best, printed_by, published_datasets

METRICS = {"nll": "NLL", "rmse": "RMSE", "crps": "CRPS"}

NINE = tuple(name for name in TEN if name in published_datasets())
"""The data sets that the literature has scores for."""

FOUNDATION = "TabPFN v2"
"""The model trained on other tables whose printed NLL ours are compared with."""

Outcome = str
"""The outcome of a criterion on a data set: "met", another word to be printed, or empty if records are missing."""


@dataclass(frozen=True)
class Tally:
    """The outcome of a criterion on each data set."""

    outcomes: dict[str, Outcome]

    @property
    def met(self) -> int:
        """Number of data sets on which the criterion is met."""
        return sum(outcome.startswith("met") for outcome in self.outcomes.values())

    @property
    def decided(self) -> int:
        """Number of data sets with enough records."""
        return sum(outcome != "" for outcome in self.outcomes.values())

    def sets(self, outcome: Outcome) -> list[str]:
        """Return the names of the data sets with an outcome."""
        return [dataset_title(name) for name, found in self.outcomes.items() if found == outcome]

    def __str__(self) -> str:
        words = f"{self.met} of {len(self.outcomes)}"
        if strong := len(self.sets("met, significantly")):
            words += f", {strong} significantly"
        others = [outcome for outcome in dict.fromkeys(self.outcomes.values()) if outcome and outcome[:3] != "met"]
        parts = [words, *(f"{outcome}: {', '.join(self.sets(outcome))}" for outcome in sorted(others))]
        return "; ".join([*parts, f"too few splits: {', '.join(missing)}"] if (missing := self.sets("")) else parts)


@dataclass(frozen=True)
class Criterion:
    """A criterion: its text, its outcome for a method on a data set, and the data sets and methods it applies to."""

    text: str
    outcome: Callable[[PeerResults, str, str], Outcome]
    datasets: tuple[str, ...] = TEN
    methods: tuple[str, ...] = OURS

    def tally(self, results: PeerResults, method: str) -> Tally:
        """Return the outcomes on all data sets."""
        return Tally({dataset: self.outcome(results, dataset, method) for dataset in self.datasets})


def below_reference(
    results: PeerResults, dataset: str, method: str, *, metric: str, find: Callable[[str, str], Reference | None]
) -> Outcome:
    """Return whether the mean over all splits is below a printed score, rounded to the same digits."""
    sample, reference = results.complete(dataset, method, metric), find(dataset, metric)
    if sample is None or reference is None:
        return ""
    standing = reference.standing(sample.mean) if isfinite(sample.mean) else "above"
    return "met" if standing == "below" else standing


def below_best_peer(results: PeerResults, dataset: str, method: str, *, metric: str) -> Outcome:
    """Return whether scores are significantly below those of the best peer on the data set."""
    pair = results.best_peer(dataset, metric, method)
    if pair is None:
        return ""
    return "met" if pair.better else "significantly above" if pair.worse else "no significant difference"


def below_method(results: PeerResults, dataset: str, method: str, *, metric: str, other: str) -> Outcome:
    """Return whether scores are below those of another method, and whether significantly."""
    pair = results.paired(dataset, metric, method, other)
    if pair is None:
        return ""
    if pair.mean < 0:
        return "met, significantly" if pair.better else "met"
    return "significantly above" if pair.worse else "above"


def lowest(results: PeerResults, dataset: str, method: str, *, metric: str) -> Outcome:
    """Return whether a method has the lowest mean; it is compared with each other one on the splits that both have."""
    pairs = {name: results.paired(dataset, metric, method, name) for name in TITLES if name != method}
    above = {name: pair.mean for name, pair in pairs.items() if pair}
    if results.missing(dataset, method) or not any(name in above for name in PEERS):
        return ""
    best = max(above, key=lambda name: above[name])
    return "met" if above[best] <= 0 else f"{TITLES[best]} is lower"


def no_worse(results: PeerResults, dataset: str, method: str, *, other: str, paired: bool) -> Outcome:
    """Return whether the NLL is at most one standard error, of the mean or of differences, above that of another."""
    pair, sample = results.paired(dataset, "nll", method, other), results.sample(dataset, other, "nll")
    if pair is None or sample is None:
        return ""
    return "met" if pair.mean <= (pair.error if paired else sample.error) else "above"


def criteria() -> Sequence[Criterion]:
    """Return all criteria."""
    verified = partial(best_published, verified=True)
    scores = ("nll", "rmse")
    against = [
        (f"{METRICS[metric]} below the {what}", partial(below_reference, metric=metric, find=find), sets)
        for what, find, sets in (
            ("paper's best", paper_best, TEN),
            ("best published", best_published, NINE),
            ("best published, verified only", verified, NINE),
        )
        for metric in scores
    ]
    return (
        *(Criterion(text, outcome, sets) for text, outcome, sets in against),
        _below_foundation("nll"),
        *(
            Criterion(f"{METRICS[m]} significantly below the best peer's", partial(below_best_peer, metric=m))
            for m in METRICS
        ),
        *(Criterion(f"{METRICS[m]} lowest of all methods run", partial(lowest, metric=m)) for m in METRICS),
        *(Criterion(f"RMSE below that of {TITLES[p]}", partial(below_method, metric="rmse", other=p)) for p in PEERS),
        *_stacking_criteria(),
    )


def criteria_table(results: PeerResults, title: str = "") -> Table:
    """Return one row per criterion and one column per method."""
    lines = (
        (each.text, *(str(each.tally(results, name)) if name in each.methods else "–" for name in OURS))
        for each in criteria()
    )
    return Table(title, ("criterion", *(TITLES[name] for name in OURS)), tuple(lines))


def _below_foundation(metric: str) -> Criterion:
    find = partial(printed_by, who=FOUNDATION)
    sets = tuple(name for name in TEN if find(name, metric))
    return Criterion(
        f"{METRICS[metric]} below that printed for {FOUNDATION}",
        partial(below_reference, metric=metric, find=find),
        sets,
    )


def _stacking_criteria() -> Sequence[Criterion]:
    base, stack = OURS
    name = TITLES[base]
    outcomes = {
        f"NLL at most one s.e. of {name}'s mean above {name}'s": partial(no_worse, other=base, paired=False),
        f"NLL at most one s.e. of the differences above {name}'s": partial(no_worse, other=base, paired=True),
        f"NLL below {name}'s": partial(below_method, metric="nll", other=base),
    }
    return tuple(Criterion(text, outcome, TEN, (stack,)) for text, outcome in outcomes.items())
