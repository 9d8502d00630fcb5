"""Tables of comparisons with the paper."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from bdkn_paper.analysis.comparison import Comparison, Floors, hits
from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.results import dataset_title, method_title
from bdkn_paper.analysis.runtimes import Runtime, runtimes, total
from bdkn_paper.analysis.sample import shown
from bdkn_paper.store import Record

VERDICTS = (
    "The verdict is the first that holds: 2 s.e., the means differ by at most two standard errors; same digits, they "
    "are equal as printed; last digit, they differ by at most one unit of the last printed digit; miss."
)
FLOOR = (
    "Floor: ½ log(2πe RMSE²), averaged over splits (for the paper, from the printed mean and sd). It is the lowest "
    "NLL of predictions with constant variance. The last column allows for the rounding of the printed digits."
)

RUNTIME = (
    "Minutes of fitting on all splits: in sequence, one fit after the other; and with all cores in use, where a fit "
    "with one thread counts with its share of the cores. The paper's times are for a GPU workstation; the ratio is "
    "for the same number of splits. Aggregation is the time of the closed forms (statistics, evidence, posterior, and "
    "the predictive distributions of the test rows), relative to the fit. Song's shape is generated data of the size "
    "of Song, in no total."
)


def comparison_table(cells: Sequence[Comparison], title: str) -> Table:
    """Return one row per score; for NLL with the floors."""
    columns = ("data set", "method", "ours", "paper", "difference", "in s.e.", "verdict")
    extra = ("floor, ours", "floor, paper", "the paper's NLL") if any(cell.floors for cell in cells) else ()
    rows = tuple((*_comparison(cell), *(_floors(cell.floors) if extra else ())) for cell in cells)
    return Table(title, (*columns, *extra), rows)


def distribution_table(cells: Sequence[Comparison], title: str) -> Table:
    """Return the distribution of our scores over splits, and the printed mean."""
    columns = (
        "data set",
        "method",
        "minimum",
        "lower quartile",
        "median",
        "upper quartile",
        "maximum",
        "mean",
        "paper",
        "below paper",
    )
    return Table(title, columns, tuple(map(_distribution, cells)))


def hit_table(cells: Sequence[Comparison], title: str) -> Table:
    """Return how many scores of each experiment and method agree with the paper, and by which criterion."""
    columns = ("experiment", "method", "scores", "agree", "2 s.e.", "same digits", "last digit", "miss")
    groups = dict.fromkeys((cell.experiment, cell.method) for cell in cells)
    return Table(title, columns, tuple(_hit_row(cells, *group) for group in groups))


def runtime_table(lines: Sequence[Runtime], title: str) -> Table:
    """Return one row per method and data set, and per total."""
    columns = (
        "data set",
        "method",
        "fits",
        "minutes, in sequence",
        "all cores",
        "paper",
        "paper / ours",
        "aggregation",
    )
    return Table(title, columns, tuple(map(_runtime_row, lines)))


def runtimes_with_totals(records: Sequence[Record], setting: int) -> Table:
    """Return the runtimes of a setting with the totals of every method."""
    lines = runtimes(records, setting)
    totals = [total(lines, method) for method in dict.fromkeys(line.method for line in lines)]
    return runtime_table([*lines, *(line for line in totals if line.fits)], f"Runtime, setting {setting}")


def _comparison(cell: Comparison) -> tuple[str, ...]:
    return (
        dataset_title(cell.dataset),
        method_title(cell.method),
        shown(cell.ours),
        shown(cell.paper, 2),
        f"{cell.difference:+.3f}",
        f"{cell.errors:+.1f}" if isfinite(cell.errors) and abs(cell.errors) < 1000 else "–",
        cell.verdict,
    )


def _floors(floors: Floors | None) -> tuple[str, ...]:
    if floors is None:
        return ("–", "–", "")
    why = "its variance varies" if floors.possible else "impossible"
    below = f"below by {floors.below:.3f}: {why}" if floors.below else ""
    return f"{floors.ours:.2f}", f"{floors.paper:.2f}" if isfinite(floors.paper) else "–", below


def _distribution(cell: Comparison) -> tuple[str, ...]:
    values = (*cell.ours.five_numbers, cell.ours.mean)
    below = f"{cell.below} of {len(cell.ours)}"
    names = dataset_title(cell.dataset), method_title(cell.method)
    return (*names, *(f"{value:.2f}" for value in values), shown(cell.paper, 2), below)


def _hit_row(cells: Sequence[Comparison], experiment: str, method: str) -> tuple[str, ...]:
    found = hits(cell for cell in cells if (cell.experiment, cell.method) == (experiment, method))
    count, miss = found.total(), found["miss"]
    kinds = (found["2 s.e."], found["same digits"], found["last digit"], miss)
    return experiment, method_title(method), str(count), str(count - miss), *map(str, kinds)


def _runtime_row(line: Runtime) -> tuple[str, ...]:
    return (
        dataset_title(line.dataset),
        method_title(line.method),
        str(line.fits),
        f"{line.seconds / 60:.2f}",
        f"{line.minutes:.2f}",
        "–" if line.paper is None else f"{line.paper:.2f}",
        f"{line.ratio:.1f}" if isfinite(line.ratio) else "–",
        "–" if line.share is None else f"{line.share:.2%}",
    )
