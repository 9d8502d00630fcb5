"""Bars that the defaults should clear, and on how many of the paper's ten sets they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite

from bdkn.report.tables import Table
from bdkn_paper.analysis.peer_results import OURS, PEERS, TITLES, Contest
from bdkn_paper.analysis.results import dataset_title
from bdkn_paper.analysis.runtimes import TEN
from bdkn_paper.paper.literature import Reference, best_published, paper_best, published_datasets

METRICS = {"nll": "NLL", "rmse": "RMSE", "crps": "CRPS"}

NINE = tuple(name for name in TEN if name in published_datasets())
"""The sets of which the literature has scores."""

Verdict = str
"""Where a method stands on a set: "met", another word that is told with the set's name, or nothing without records."""


@dataclass(frozen=True)
class Tally:
    """The verdict on each set."""

    verdicts: dict[str, Verdict]

    @property
    def met(self) -> int:
        """On how many sets the bar is cleared."""
        return sum(verdict.startswith("met") for verdict in self.verdicts.values())

    @property
    def judged(self) -> int:
        """On how many sets there are records to judge by."""
        return sum(verdict != "" for verdict in self.verdicts.values())

    def sets(self, verdict: Verdict) -> list[str]:
        """Return the titles of the sets with a verdict."""
        return [dataset_title(name) for name, found in self.verdicts.items() if found == verdict]

    def __str__(self) -> str:
        words = f"{self.met} of {len(self.verdicts)}"
        if strong := len(self.sets("met, significantly")):
            words += f", {strong} significantly"
        others = [verdict for verdict in dict.fromkeys(self.verdicts.values()) if verdict and verdict[:3] != "met"]
        parts = [words, *(f"{verdict}: {', '.join(self.sets(verdict))}" for verdict in sorted(others))]
        return "; ".join([*parts, f"to come: {', '.join(to_come)}"] if (to_come := self.sets("")) else parts)


@dataclass(frozen=True)
class Bar:
    """What is to be cleared, and how a method stands on a set; ``methods`` are those it is asked of."""

    says: str
    judge: Callable[[Contest, str, str], Verdict]
    datasets: tuple[str, ...] = TEN
    methods: tuple[str, ...] = OURS

    def tally(self, contest: Contest, method: str) -> Tally:
        """Return the verdicts on all sets."""
        return Tally({dataset: self.judge(contest, dataset, method) for dataset in self.datasets})


def below_reference(
    contest: Contest, dataset: str, method: str, *, metric: str, find: Callable[[str, str], Reference | None]
) -> Verdict:
    """Tell whether a mean over all splits lies below what others printed, rounded as they do."""
    sample, reference = contest.whole(dataset, method, metric), find(dataset, metric)
    if sample is None or reference is None:
        return ""
    standing = reference.standing(sample.mean) if isfinite(sample.mean) else "above"
    return "met" if standing == "below" else standing


def below_best_peer(contest: Contest, dataset: str, method: str, *, metric: str) -> Verdict:
    """Tell whether scores are significantly below those of the best peer on the set."""
    pair = contest.rival(dataset, metric, method)
    if pair is None:
        return ""
    return "met" if pair.better else "significantly above" if pair.worse else "no significant difference"


def below_method(contest: Contest, dataset: str, method: str, *, metric: str, other: str) -> Verdict:
    """Tell whether scores are below those of another method, and whether significantly."""
    pair = contest.paired(dataset, metric, method, other)
    if pair is None:
        return ""
    if pair.mean < 0:
        return "met, significantly" if pair.better else "met"
    return "significantly above" if pair.worse else "above"


def lowest(contest: Contest, dataset: str, method: str, *, metric: str) -> Verdict:
    """Tell whether a method has the lowest mean, each other's being compared on the splits that both have."""
    pairs = {name: contest.paired(dataset, metric, method, name) for name in TITLES if name != method}
    above = {name: pair.mean for name, pair in pairs.items() if pair}
    if contest.missing(dataset, method) or not any(name in above for name in PEERS):
        return ""
    best = max(above, key=lambda name: above[name])
    return "met" if above[best] <= 0 else f"{TITLES[best]} is lower"


def no_worse(contest: Contest, dataset: str, method: str, *, other: str, paired: bool) -> Verdict:
    """Tell whether the NLL is at most one standard error above another's: of its mean, or of paired differences."""
    pair, sample = contest.paired(dataset, "nll", method, other), contest.sample(dataset, other, "nll")
    if pair is None or sample is None:
        return ""
    return "met" if pair.mean <= (pair.error if paired else sample.error) else "above"


def bars() -> Sequence[Bar]:
    """Return all bars."""
    verified = partial(best_published, verified=True)
    scores = ("nll", "rmse")
    against = [
        (f"{METRICS[metric]} below the {what}", partial(below_reference, metric=metric, find=find), sets)
        for what, find, sets in (
            ("paper's best", paper_best, TEN),
            ("best published", best_published, NINE),
            ("best published, verified alone", verified, NINE),
        )
        for metric in scores
    ]
    return (
        *(Bar(says, judge, sets) for says, judge, sets in against),
        *(
            Bar(f"{METRICS[m]} significantly below the best peer's", partial(below_best_peer, metric=m))
            for m in METRICS
        ),
        *(Bar(f"{METRICS[m]} lowest of all that was run", partial(lowest, metric=m)) for m in METRICS),
        *(Bar(f"RMSE below that of {TITLES[p]}", partial(below_method, metric="rmse", other=p)) for p in PEERS),
        *_stacking_bars(),
    )


def bar_table(contest: Contest, title: str = "") -> Table:
    """Return one line a bar, one column a method."""
    lines = (
        (bar.says, *(str(bar.tally(contest, name)) if name in bar.methods else "–" for name in OURS)) for bar in bars()
    )
    return Table(title, ("bar", *(TITLES[name] for name in OURS)), tuple(lines))


def _stacking_bars() -> Sequence[Bar]:
    base, stack = OURS
    name = TITLES[base]
    judges = {
        f"NLL at most one s.e. of {name}'s mean above {name}'s": partial(no_worse, other=base, paired=False),
        f"NLL at most one s.e. of the differences above {name}'s": partial(no_worse, other=base, paired=True),
        f"NLL below {name}'s": partial(below_method, metric="nll", other=base),
    }
    return tuple(Bar(says, judge, TEN, (stack,)) for says, judge in judges.items())
