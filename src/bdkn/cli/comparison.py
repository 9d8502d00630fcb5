"""Cross-validation of several methods on the same folds, as numbers and as a picture."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdkn.cli.estimate import Estimate
from bdkn.cli.labelled import Labelled
from bdkn.cli.peers import Method
from bdkn.cli.terminal import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = ("nll", "crps", "rmse", "coverage", "seconds")
TITLES = {"nll": "NLL", "crps": "CRPS", "rmse": "RMSE", "coverage": "coverage", "seconds": "seconds"}


@dataclass(frozen=True)
class Compared:
    """The scores of one method, one per fold."""

    name: str
    title: str
    folds: tuple[Estimate, ...]
    seconds: tuple[float, ...]

    def scores(self, metric: str) -> list[float]:
        """Return a metric of every fold."""
        return list(self.seconds) if metric == "seconds" else [getattr(fold, metric) for fold in self.folds]

    def mean(self, metric: str) -> float:
        """Return the average of a metric over the folds."""
        return sum(self.scores(metric)) / len(self.seconds)

    def numbers(self) -> dict[str, Any]:
        """Return the averages and the scores of every fold."""
        averages = {metric: self.mean(metric) for metric in METRICS}
        return {"method": self.name, **averages, "folds": {metric: self.scores(metric) for metric in METRICS}}


def compare_methods(
    methods: Mapping[str, Method],
    rows: Labelled,
    splits: Sequence[tuple[Any, Any]],
    *,
    seed: int,
    effort: str,
    coverage: float,
    tell: Callable[[str], None],
) -> list[Compared]:
    """Return the scores of all methods on the same folds, the best CRPS first."""
    found = []
    for name, method in methods.items():
        tell(f"{method.title}: fitting {len(splits)} folds")
        scored = [_one_fold(method, rows[train], rows[test], seed, effort, coverage) for train, test in splits]
        folds, seconds = zip(*scored, strict=True)
        found.append(Compared(name, method.title, folds, seconds))
    return sorted(found, key=lambda one: one.mean("crps"))


def folds_of(rows: Labelled, count: int, seed: int, *, ordered: bool) -> list[tuple[Any, Any]]:
    """Return row numbers to train on and to leave out: random, by group, or by time."""
    from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

    if ordered:
        return list(TimeSeriesSplit(count).split(rows.X))
    if rows.groups is not None:
        return list(GroupKFold(count).split(rows.X, groups=rows.groups))
    return list(KFold(count, shuffle=True, random_state=seed).split(rows.X))


def draw_comparison(found: Sequence[Compared], target: str, coverage: float) -> Figure:
    """Return a figure with a panel per metric: a dot for the mean of each method, small ones for its folds."""
    from matplotlib.figure import Figure

    from bdkn.plots.style import GREY, label_axes, literal, prepare_axes

    shown = [metric for metric in METRICS if metric != "seconds"]
    figure = Figure(figsize=(3.0 * len(shown) + 1.5, 0.42 * len(found) + 1.4), layout="constrained")
    for metric, ax in zip(shown, figure.subplots(1, len(shown), sharey=True), strict=True):
        limit = _limit([one.mean(metric) for one in found])
        prepare_axes(ax)
        for place, one in enumerate(reversed(found)):
            _draw_scores(ax, place, one.scores(metric), limit, best=_is_best(one, found, metric))
        if metric == "coverage":
            ax.axvline(coverage, color=GREY, lw=1, ls="--")
        label_axes(ax, _label(metric, coverage), "", None)
        ax.set_yticks(range(len(found)), [one.title for one in reversed(found)])
    title = f"Predictions of {literal(printable(target))}, {len(found[0].folds)} folds left out in turn"
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    return figure


def _draw_scores(ax: Axes, place: int, scores: list[float], limit: float, *, best: bool) -> None:
    """Draw the scores of one method at a height; a mean beyond the limit is an arrow with its number."""
    from bdkn.plots.style import BLUE, GREY, PALE, VERMILION

    mean, colour = sum(scores) / len(scores), VERMILION if best else BLUE
    ax.axhline(place, color=PALE, lw=0.8, zorder=0)
    if mean > limit:
        ax.plot(limit, place, ">", ms=8, color=colour)
        ax.annotate(f"{mean:.3g}", (limit, place), (-8, -3), textcoords="offset points", ha="right", fontsize=8)
        return
    near = [score for score in scores if score <= limit]
    ax.plot(near, [place] * len(near), "o", ms=3.5, color=GREY, alpha=0.6)
    ax.plot(mean, place, "o", ms=8, color=colour)


def write_comparison(path: Path, figure: Figure) -> None:
    """Write the figure to a file; the format is that of its ending."""
    from bdkn.report import write_picture

    write_picture(path, figure)


def _one_fold(
    method: Method, train: Labelled, test: Labelled, seed: int, effort: str, coverage: float
) -> tuple[Estimate, float]:
    start = time.perf_counter()
    model = method.make(seed, effort)
    if method.package == "bdkn" and train.groups is not None and hasattr(model, "cv"):
        model.fit(train.X, train.y, groups=train.groups)
    else:
        model.fit(train.X, train.y)
    dist = model.predict_dist(test.X)
    return Estimate.of(test.y, dist, coverage, method.title), time.perf_counter() - start


def _is_best(one: Compared, found: Sequence[Compared], metric: str) -> bool:
    return metric != "coverage" and one.mean(metric) == min(other.mean(metric) for other in found)


def _limit(means: list[float]) -> float:
    """Return the largest mean that is drawn where it is: one far beyond the others would hide their differences."""
    ordered = sorted(means)
    middle = ordered[len(ordered) // 2]
    near = [mean for mean in ordered if mean <= middle + 5 * (middle - ordered[0])]
    return near[-1] if len(near) == len(ordered) else near[-1] + 0.1 * (near[-1] - ordered[0])


def _label(metric: str, coverage: float) -> str:
    return f"{coverage:.0%} coverage" if metric == "coverage" else f"{TITLES[metric]} (smaller is better)"
