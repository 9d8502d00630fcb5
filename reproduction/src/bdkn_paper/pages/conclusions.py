"""The paper's conclusions, checked with our records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bdkn_paper import paper
from bdkn_paper.analysis.curves import QuartileCurve, setting_curves
from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.paired import TEST, compare_records
from bdkn_paper.analysis.ranks import mean_ranks
from bdkn_paper.analysis.results import Results, dataset_title, gather, method_title
from bdkn_paper.analysis.runtimes import runtimes
from bdkn_paper.pages.section import Section
from bdkn_paper.paper import METRICS
from bdkn_paper.store import Record

WHERE = {"setting1": "setting 1", "setting2": "setting 2", "converged": "converged"}
"""The experiments in which methods are compared."""

LAST_LAYERS = ("ldbll", "bll", "mfvi", "vbll")
"""The methods of which the paper says that BDKN has the better balance of accuracy and calibration."""

BALANCE = "BDKN balances accuracy and calibration better than last-layer and variational methods"
PROCESS = "The Gaussian process is a strong baseline"
COST = "Combining the networks costs next to nothing"
DEGRADES = "LDBLL degrades after a few epochs"
SLOW = "MFVI converges slowly"

TEXT = (
    "The paper's conclusions in our words, and what our records show. The first number of a pair counts the data sets "
    "on which the mean score of BDKN is significantly lower, which is better; the second counts those on which it is "
    "significantly higher. "
)

_LITTLE = 0.01
"""Share of the time of a fit below which a part of it costs next to nothing."""


@dataclass(frozen=True)
class Conclusion:
    """A conclusion of the paper in one experiment: the verdict in a few words, and in a sentence with its numbers."""

    statement: str
    where: str
    verdict: str
    text: str

    def __str__(self) -> str:
        return f"- **{self.statement}**, {self.where}: {self.text}."


def compared_experiments(records: Sequence[Record]) -> list[Results]:
    """Return the experiments of ``WHERE`` in which BDKN was run."""
    return [results for name in WHERE if "bdkn" in (results := gather(records, name)).methods]


def conclusions(records: Sequence[Record]) -> list[Conclusion]:
    """Return the paper's conclusions in all experiments that have the records to check them."""
    found = compared_experiments(records)
    return [*_balance(found), *_process(found), *_cost(records), *_curves(records)]


def conclusions_section(records: Sequence[Record]) -> Section | None:
    """Return the conclusions, and how often BDKN is significantly better or worse than each other method."""
    found = compared_experiments(records)
    others = [method for method in paper.METHODS if any(_is_there(results, method) for results in found)]
    if not others:
        return None
    text = "\n".join([f"{TEXT}{TEST}", "", *map(str, conclusions(records))])
    return Section("The paper's conclusions", text.rstrip("\n"), (_table(found, others),))


def wins(results: Results, other: str, metric: str) -> tuple[int, int, int]:
    """Return on how many data sets BDKN is significantly better than another method, worse, and compared."""
    sets = [name for name in results.datasets if not name.endswith("-clean")]  # Sarcos is there already
    both = [(results.done.get((name, "bdkn"), ()), results.done.get((name, other), ())) for name in sets]
    pairs = [pair for mine, theirs in both if (pair := compare_records(mine, theirs, metric)) is not None]
    return sum(pair.better for pair in pairs), sum(pair.worse for pair in pairs), len(pairs)


def wins_text(better: int, worse: int, sets: int) -> str:
    """Return the numbers of ``wins`` as text."""
    return f"{better} : {worse} of {sets}" if sets else "–"


def _is_there(results: Results, method: str) -> bool:
    return method != "bdkn" and any(wins(results, method, metric)[2] for metric in METRICS)


def _table(found: Sequence[Results], others: Sequence[str]) -> Table:
    columns = [f"{WHERE[results.experiment]}, {metric.upper()}" for results in found for metric in METRICS]
    rows = [
        (method_title(other), *(wins_text(*wins(results, other, metric)) for results in found for metric in METRICS))
        for other in others
    ]
    return Table("BDKN compared with the others", ("BDKN compared with", *columns), tuple(rows))


def _balance(found: Sequence[Results]) -> Iterator[Conclusion]:
    for results in found:
        verdicts: dict[str, list[tuple[str, str]]] = {"holds": [], "undecided": [], "does not hold": []}
        for other in (method for method in LAST_LAYERS if _is_there(results, method)):
            scores = [wins(results, other, metric) for metric in METRICS]
            numbers = ", ".join(f"{m.upper()} {wins_text(*score)}" for m, score in zip(METRICS, scores, strict=True))
            verdicts[_verdict(scores)].append((method_title(other), numbers))
        met = {verdict: methods for verdict, methods in verdicts.items() if methods}
        brief = "; ".join(
            f"{verdict} against {_and([name for name, _ in methods])}" for verdict, methods in met.items()
        )
        text = "; ".join(
            f"{verdict} against {_and([f'{name} ({numbers})' for name, numbers in methods])}"
            for verdict, methods in met.items()
        )
        if met:
            yield Conclusion(BALANCE, WHERE[results.experiment], "holds" if [*met] == ["holds"] else brief, text)


def _verdict(scores: Sequence[tuple[int, int, int]]) -> str:
    """Return the verdict for wins and losses by each metric; to hold, there must be more wins by both metrics."""
    if all(better > worse for better, worse, _ in scores):
        return "holds"
    return "does not hold" if any(worse > better for better, worse, _ in scores) else "undecided"


def _process(found: Sequence[Results]) -> Iterator[Conclusion]:
    for results in found:
        ranks = mean_ranks(results)
        if ranks is None or not {"gp", "bdkn"} <= ranks.methods.keys():
            continue
        process, bdkn = ranks.methods["gp"], ranks.methods["bdkn"]
        ahead = all(rank < other for rank, other in zip(process[:2], bdkn[:2], strict=True))
        verdict = "holds; ahead of BDKN" if ahead else "holds"
        printed = f"; in the paper's tables {_two(process[2:])}, and {_two(bdkn[2:])}" if bdkn[2:] else ""
        yield Conclusion(
            PROCESS,
            WHERE[results.experiment],
            verdict,
            f"{verdict}; mean ranks by RMSE and NLL are {_two(process[:2])}, those of BDKN {_two(bdkn[:2])}, over "
            f"{_sets(len(ranks.datasets))}{printed}",
        )


def _cost(records: Sequence[Record]) -> Iterator[Conclusion]:
    for setting in (1, 2):
        shares = [
            (line.share, line.dataset)
            for line in runtimes(records, setting)
            if line.method == "bdkn" and line.share is not None
        ]
        if shares:
            most, dataset = max(shares)
            verdict = "holds" if most < _LITTLE else "does not hold"
            text = f"closed forms take at most {most:.2%} of the time of a fit, on {dataset_title(dataset)}, of "
            yield Conclusion(COST, f"setting {setting}", verdict, f"{verdict}; {text}{_sets(len(shares))}")


def _curves(records: Sequence[Record]) -> Iterator[Conclusion]:
    """Check what the paper says about its figure 2, setting 1."""
    medians = setting_curves(records).get(1, {})
    if "ldbll" in medians.get("nll", {}):
        yield _degrades(medians["nll"]["ldbll"])
    if "mfvi" in medians.get("rmse", {}):
        falls = {method: _late_fall(curve) for method, curve in medians["rmse"].items()}
        place = sorted(falls, key=falls.__getitem__, reverse=True).index("mfvi") + 1
        verdict = "holds" if place == 1 else "does not hold"
        yield Conclusion(
            SLOW,
            "setting 1",
            verdict,
            f"{verdict}; in the last quarter of the epochs of figure 2, its median RMSE {_change(falls['mfvi'])}, "
            f"rank {place} of {len(falls)} methods",
        )


def _change(fall: float) -> str:
    return f"falls by {fall:.0%}" if fall >= 0 else f"rises by {-fall:.0%}"


def _degrades(curve: QuartileCurve) -> Conclusion:
    best = int(np.argmin(curve.median))
    holds = best + 1 < len(curve.median) / 2 and curve.median[-1] > curve.median[best]
    verdict = "holds" if holds else "does not hold"
    text = (
        f"{verdict}; in figure 2, its median NLL is lowest after epoch {curve.epoch[best]:.0f}, "
        f"{curve.median[best]:.2f}, and {curve.median[-1]:.2f} at the end"
    )
    return Conclusion(DEGRADES, "setting 1", verdict, text)


def _late_fall(curve: QuartileCurve) -> float:
    """Return the relative decrease of the median in the last quarter of the epochs."""
    before = curve.median[3 * len(curve.median) // 4 - 1]
    return float((before - curve.median[-1]) / before)


def _two(ranks: Sequence[float]) -> str:
    return " and ".join(f"{rank:.1f}" for rank in ranks)


def _sets(count: int) -> str:
    return f"{count} data set{'s' if count > 1 else ''}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
