"""What the paper concludes, held against our records and told plainly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bdkn.report.tables import Table
from bdkn_paper import paper
from bdkn_paper.analysis.curves import QuartileCurve, setting_curves
from bdkn_paper.analysis.paired import TEST, compare_records
from bdkn_paper.analysis.ranks import mean_ranks
from bdkn_paper.analysis.results import Results, dataset_title, gather, method_title
from bdkn_paper.analysis.runtimes import runtimes
from bdkn_paper.pages.section import Finding
from bdkn_paper.paper import METRICS
from bdkn_paper.store import Record

WHERE = {"setting1": "setting 1", "setting2": "setting 2", "converged": "converged"}
"""The experiments whose methods are compared."""

LAST_LAYERS = ("ldbll", "bll", "mfvi", "vbll")
"""The methods against which the paper calls BDKN the better balance of accuracy and calibration."""

TEXT = (
    "The paper's conclusions, in our words, and what our records say to them. Of each pair of numbers the first is on "
    "how many data sets BDKN's mean score is significantly lower, which is better, the second on how many it is "
    "significantly higher. "
)


_LITTLE = 0.01
"""A share of the time that is next to nothing."""


def reading(records: Sequence[Record]) -> Finding | None:
    """Return BDKN's wins and losses against every other method, and what they and the rest make of the conclusions."""
    found = [results for name in WHERE if "bdkn" in (results := gather(records, name)).methods]
    others = [method for method in paper.METHODS if any(_is_there(results, method) for results in found)]
    if not others:
        return None
    claims = [*_balance(found), *_process(found), *_time(records), *_curves(records)]
    text = "\n".join([f"{TEXT}{TEST}", "", *(f"- {claim}" for claim in claims)])
    return Finding("What holds, and what does not", text.rstrip("\n"), (_table(found, others),))


def wins(results: Results, other: str, metric: str) -> tuple[int, int, int]:
    """Return on how many data sets BDKN is significantly better than another method, worse, and compared."""
    sets = [name for name in results.datasets if not name.endswith("-clean")]  # Sarcos is there already
    both = [(results.done.get((name, "bdkn"), ()), results.done.get((name, other), ())) for name in sets]
    pairs = [pair for mine, theirs in both if (pair := compare_records(mine, theirs, metric)) is not None]
    return sum(pair.better for pair in pairs), sum(pair.worse for pair in pairs), len(pairs)


def _is_there(results: Results, method: str) -> bool:
    return method != "bdkn" and any(wins(results, method, metric)[2] for metric in METRICS)


def _table(found: Sequence[Results], others: Sequence[str]) -> Table:
    columns = [f"{WHERE[results.experiment]}, {metric.upper()}" for results in found for metric in METRICS]
    rows = [
        (method_title(other), *(_told(*wins(results, other, metric)) for results in found for metric in METRICS))
        for other in others
    ]
    return Table("BDKN against the others", ("BDKN against", *columns), tuple(rows))


def _told(better: int, worse: int, sets: int) -> str:
    return f"{better} : {worse} of {sets}" if sets else "–"


def _balance(found: Sequence[Results]) -> Iterator[str]:
    """The paper: a better balance between accuracy and calibration than the Bayesian last layers and MFVI."""
    for results in found:
        verdicts: dict[str, list[str]] = {"holds against": [], "undecided against": [], "does not hold against": []}
        for other in (method for method in LAST_LAYERS if _is_there(results, method)):
            scores = [wins(results, other, metric) for metric in METRICS]
            told = ", ".join(f"{m.upper()} {a} : {b} of {n}" for m, (a, b, n) in zip(METRICS, scores, strict=True))
            verdicts[_verdict(scores)].append(f"{method_title(other)} ({told})")
        said = "; ".join(f"{verdict} {_and(names)}" for verdict, names in verdicts.items() if names)
        if said:
            yield f"**A better balance than last layers and variational methods**, {WHERE[results.experiment]}: {said}."


def _verdict(scores: Sequence[tuple[int, int, int]]) -> str:
    """Say what wins and losses by each metric come to: it takes more of the one by both metrics."""
    if all(better > worse for better, worse, _ in scores):
        return "holds against"
    return "does not hold against" if any(worse > better for better, worse, _ in scores) else "undecided against"


def _process(found: Sequence[Results]) -> Iterator[str]:
    """The paper: the Gaussian process is a strong baseline where it can be run."""
    for results in found:
        ranks = mean_ranks(results)
        if ranks is None or not {"gp", "bdkn"} <= ranks.methods.keys():
            continue
        process, bdkn = ranks.methods["gp"], ranks.methods["bdkn"]
        ahead = all(rank < other for rank, other in zip(process[:2], bdkn[:2], strict=True))
        printed = f"; in the paper's tables {_two(process[2:])}, BDKN's {_two(bdkn[2:])}" if bdkn[2:] else ""
        yield (
            f"**The process is a strong baseline**, {WHERE[results.experiment]}: "
            f"{'more than that, it is ahead of BDKN' if ahead else 'holds'}; mean ranks by RMSE and NLL "
            f"{_two(process[:2])}, BDKN's {_two(bdkn[:2])}, over {_sets(len(ranks.datasets))}{printed}."
        )


def _time(records: Sequence[Record]) -> Iterator[str]:
    """The paper: combining costs next to nothing beside training the ensemble."""
    for setting in (1, 2):
        shares = [
            (line.share, line.dataset)
            for line in runtimes(records, setting)
            if line.method == "bdkn" and line.share is not None
        ]
        if shares:
            most, dataset = max(shares)
            yield (
                f"**Combining costs next to nothing**, setting {setting}: {'holds' if most < _LITTLE else 'not so'}; "
                f"closed forms take at most {most:.2%} of the time of a fit, on {dataset_title(dataset)}, of "
                f"{_sets(len(shares))}."
            )


def _curves(records: Sequence[Record]) -> Iterator[str]:
    """The paper on its figure 2, setting 1: LDBLL degrades after a few epochs, MFVI converges slowly."""
    medians = setting_curves(records).get(1, {})
    if "ldbll" in medians.get("nll", {}):
        curve = medians["nll"]["ldbll"]
        best = int(np.argmin(curve.median))
        holds = best + 1 < len(curve.median) / 2 and curve.median[-1] > curve.median[best]
        yield (
            f"**LDBLL degrades after a few epochs** of setting 1 (figure 2): {'holds' if holds else 'not so'}; its "
            f"median NLL is lowest after epoch {curve.epoch[best]:.0f}, {curve.median[best]:.2f}, and "
            f"{curve.median[-1]:.2f} at the end."
        )
    if "mfvi" in medians.get("rmse", {}):
        falls = {method: _late_fall(curve) for method, curve in medians["rmse"].items()}
        place = sorted(falls, key=falls.__getitem__, reverse=True).index("mfvi") + 1
        yield (
            f"**MFVI converges slowly** in setting 1 (figure 2): "
            f"{'holds' if place == 1 else 'not more so than others'}; in the last quarter of the epochs its median "
            f"RMSE falls by {falls['mfvi']:.0%}, number {place} of {len(falls)} methods."
        )


def _late_fall(curve: QuartileCurve) -> float:
    """Return by what share of itself the median falls in the last quarter of the epochs."""
    before = curve.median[3 * len(curve.median) // 4 - 1]
    return float((before - curve.median[-1]) / before)


def _two(ranks: Sequence[float]) -> str:
    return " and ".join(f"{rank:.1f}" for rank in ranks)


def _sets(count: int) -> str:
    return f"{count} data set{'s' if count > 1 else ''}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
