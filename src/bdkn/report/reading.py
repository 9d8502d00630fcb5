"""What the paper concludes, held against our records and told plainly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bdkn.bench import Record, paper
from bdkn.plots.epochs import setting_curves
from bdkn.report.comparison import METRICS
from bdkn.report.finding import Finding
from bdkn.report.paired import TEST, Paired, compare_pairs
from bdkn.report.ranks import mean_ranks
from bdkn.report.results import Results, gather, method_title
from bdkn.report.runtime import runtimes, total
from bdkn.report.tables import Table

WHERE = {"setting1": "setting 1", "setting2": "setting 2", "converged": "converged"}
"""The experiments whose methods are compared."""

LAST_LAYERS = ("ldbll", "bll", "mfvi", "vbll")
"""The methods against which the paper calls BDKN the better balance of accuracy and calibration."""

TEXT = (
    "Of each pair the first number is on how many data sets BDKN's mean score is significantly lower, which is better, "
    "the second on how many it is significantly higher; then of how many. "
)


def reading(records: Sequence[Record]) -> Finding | None:
    """Return BDKN's wins and losses against every other method, and what they and the rest make of the conclusions."""
    found = [results for name in WHERE if "bdkn" in (results := gather(records, name)).methods]
    others = [method for method in paper.METHODS if any(_is_there(results, method) for results in found)]
    if not others:
        return None
    claims = [*_balance(found), *_process(found), *_time(records), *_curves(records)]
    text = "\n".join([*(f"- {claim}" for claim in claims), "", f"{TEXT}{TEST}"])
    return Finding("What holds, and what does not", text.lstrip("\n"), (_table(found, others),))


def wins(results: Results, other: str, metric: str) -> tuple[int, int, int]:
    """Return on how many data sets BDKN is significantly better than another method, worse, and compared."""
    pairs = [pair for dataset in results.datasets if (pair := _pair(results, dataset, other, metric)) is not None]
    return sum(pair.better for pair in pairs), sum(pair.worse for pair in pairs), len(pairs)


def _pair(results: Results, dataset: str, other: str, metric: str) -> Paired | None:
    mine, theirs = (
        {record["cell"]["split"]: record for record in results.done.get((dataset, method), ())}
        for method in ("bdkn", other)
    )
    common = [split for split in mine if split in theirs]
    differences = [mine[split]["metrics"][metric] - theirs[split]["metrics"][metric] for split in common]
    sizes = [mine[split]["rows"] for split in common if "rows" in mine[split]]
    return compare_pairs(differences, float(np.mean([size["test"] / size["train"] for size in sizes] or [0.0])))


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
        ahead: list[str] = []
        not_ahead: list[str] = []
        for other in (method for method in LAST_LAYERS if _is_there(results, method)):
            scores = [wins(results, other, metric) for metric in METRICS]
            (ahead if all(better > worse for better, worse, _ in scores) else not_ahead).append(method_title(other))
        if ahead or not_ahead:
            verdict = f"holds against {_and(ahead)}" if ahead else "does not hold"
            rest = f", not against {_and(not_ahead)}" if ahead and not_ahead else ""
            yield (
                f'"A better balance than last layers and variational methods", {WHERE[results.experiment]}: {verdict}'
                f"{rest}, counting data sets on which BDKN is significantly better or worse by RMSE and by NLL."
            )


def _process(found: Sequence[Results]) -> Iterator[str]:
    """The paper: the Gaussian process is a strong baseline where it can be run."""
    for results in found:
        ranks = mean_ranks(results)
        if ranks is None or not {"gp", "bdkn"} <= ranks.methods.keys():
            continue
        process, bdkn = ranks.methods["gp"], ranks.methods["bdkn"]
        ahead = all(rank <= other for rank, other in zip(process[:2], bdkn[:2], strict=True))
        printed = f"; in the paper's tables {_two(process[2:])}, BDKN's {_two(bdkn[2:])}" if bdkn[2:] else ""
        yield (
            f'"The process is a strong baseline", {WHERE[results.experiment]}: '
            f"{'more than that, it is ahead of BDKN' if ahead else 'holds'}; mean ranks by RMSE and NLL "
            f"{_two(process[:2])}, BDKN's {_two(bdkn[:2])}, over {_sets(len(ranks.datasets))}{printed}."
        )


def _time(records: Sequence[Record]) -> Iterator[str]:
    """The paper: combining costs next to nothing beside training the ensemble."""
    for setting in (1, 2):
        lines = runtimes(records, setting)
        ours, theirs = (total(lines, method) for method in ("bdkn", "de"))
        if ours.fits and ours.fits == theirs.fits and ours.share is not None:
            holds = "holds" if ours.share < 0.01 else "does not hold"
            yield (
                f'"Negligible overhead", setting {setting}: {holds}; closed forms take {ours.share:.2%} of the time '
                f"of BDKN's fits, which take {ours.busy / theirs.busy:.2f} times as long as those of DE."
            )


def _curves(records: Sequence[Record]) -> Iterator[str]:
    """The paper on its figure 2, setting 1: LDBLL degrades after a few epochs, MFVI converges slowly."""
    medians = setting_curves(records).get(1, {})
    if "ldbll" in medians.get("nll", {}):
        curve = medians["nll"]["ldbll"]
        best = int(np.argmin(curve.median))
        holds = "holds" if best + 1 < len(curve.median) / 2 and curve.median[-1] > curve.median[best] else "not so"
        yield (
            f'"LDBLL degrades after a few epochs", figure 2: {holds}; its median NLL is lowest after epoch '
            f"{curve.epoch[best]:.0f}, {curve.median[best]:.2f}, and {curve.median[-1]:.2f} at the end."
        )
    if "mfvi" in medians.get("rmse", {}):
        final = {method: float(curve.median[-1]) for method, curve in medians["rmse"].items()}
        place = sorted(final, key=final.__getitem__, reverse=True).index("mfvi") + 1
        holds = "holds" if place == 1 else "not more so than others"
        yield (
            f'"MFVI converges slowly", figure 2: {holds}; its median RMSE after {len(medians["rmse"]["mfvi"].epoch)} '
            f"epochs is {final['mfvi']:.2f}, number {place} from above of {len(final)}."
        )


def _two(ranks: Sequence[float]) -> str:
    return " and ".join(f"{rank:.1f}" for rank in ranks)


def _sets(count: int) -> str:
    return f"{count} data set{'s' if count > 1 else ''}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
