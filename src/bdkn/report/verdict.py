"""Sentences and tables of the HTML report about the quality of a model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from bdkn.analysis.inspection import n_prototypes
from bdkn.environment import versions
from bdkn.predictive.links import (
    IDENTITY,
    ContinuedLink,
    IdentityLink,
    LogitLink,
    LogLink,
    MirroredLink,
    YeoJohnsonLink,
)
from bdkn.report.evaluation import LEVEL, Evaluation, cell, chance_of, resample
from bdkn.report.wording import count, number, percent, with_error
from bdkn.typing import FloatArray

_MANY_ROWS = 50
"""Number of rows below which the report warns that scores are imprecise."""

_MIN_ROWS = 20
"""Number of rows below which the calibration is not judged."""

_MANY_FAR = 0.1
"""Fraction of rows far from the training rows above which the report warns."""

_UNLIKELY, _VERY_UNLIKELY = 0.01, 0.001
"""Significance levels of the test for a uniform PIT histogram: for the verdict, and for a warning."""

_LARGE_BIAS = 3.5
"""Ratio of the mean error to its standard error above which the report warns of bias."""

_SAME_ROW = 1e-9
"""Distance to a training row, in typical distances, below which a row counts as equal to the training row."""

_LISTED_ROWS = 8
"""Number of rows in the table of the most uncertain predictions."""


def warnings_of(evaluation: Evaluation) -> list[str]:
    """Return the warnings at the top of the HTML report, about the model, the rows and the scores; may be empty."""
    n, share, support = len(evaluation.y), float(evaluation.held.mean()), evaluation.support
    low, high = chance_of(n, LEVEL)
    error = evaluation.y - evaluation.mean
    bias = float(error.mean())
    found = []
    if support is not None:
        # Distances are measured to prototypes, nearly all of which are training rows.
        equal = int(np.sum(support.ratio < _SAME_ROW))
        if equal >= max(10, 0.25 * min(n, n_prototypes(evaluation.model))):
            found.append(
                f"At least {equal} of these {count(n, 'row')} are training rows, or equal to some. The numbers on this "
                "page are then better than they would be for new rows: give rows that the model has not seen."
            )
    if n < _MANY_ROWS:
        found.append(
            f"With {count(n, 'row')}, numbers are rough: by chance alone, calibrated {percent(LEVEL)} intervals "
            f"contain between {percent(low)} and {percent(high)} of the targets."
        )
    if share < low:
        found.append(
            f"Intervals are too narrow: {percent(LEVEL)} intervals contain {percent(share)} of the targets, and chance "
            f"allows {percent(low)} at least. New rows may differ from the training rows."
        )
    if n >= _MANY_ROWS and abs(bias) > _LARGE_BIAS * float(error.std() / np.sqrt(n)):
        way = "low" if bias > 0 else "high"
        found.append(f"Predictions are too {way} by {number(abs(bias))} on average, more than chance explains.")
    if n >= _MANY_ROWS and low <= share <= high and pit_chance(evaluation) < _VERY_UNLIKELY:
        found.append("The shape of the predicted distributions does not fit: see the histogram under Calibration.")
    if support is not None:
        far = float(np.mean(support.status != "inside"))
        if far > _MANY_FAR:
            found.append(
                f"{percent(far)} of the rows are farther from all training rows than those are from each other: "
                "predictions there are extrapolations."
            )
    return found


def least_sure(evaluation: Evaluation, columns: Sequence[Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return header and rows of a table of the most uncertain predictions, with reasons and some columns."""
    shown = list(columns)[:3]
    values = [evaluation.view.column(name) for name in shown]
    head = ("row", "predicted", f"{percent(LEVEL)} interval", "observed", "why", *map(str, shown))
    rows, support, parts = [], evaluation.support, evaluation.parts
    for i in np.argsort(-evaluation.std, kind="stable")[:_LISTED_ROWS].tolist():
        if support is not None and support.status[i] != "inside":
            where = "outside the range of" if support.status[i] == "outside" else "in a gap of"
            why = f"{where} {support.column[i]}"
        else:  # the largest part of the variance
            largest = max(parts, key=lambda name: float(parts[name][i])) if parts else "–"
            why = {"disagreement": "members disagree", "shape": "neighbours differ"}.get(largest, largest)
        ends = f"{number(evaluation.interval[i, 0])} to {number(evaluation.interval[i, 1])}"
        cells = (str(i), number(evaluation.mean[i]), ends, number(evaluation.y[i]), why)
        rows.append((*cells, *(cell(column, i) for column in values)))
    return head, rows


_LINKS: dict[type, str] = {
    IdentityLink: "predicted as it is",
    LogLink: "predicted by its logarithm",
    MirroredLink: "predicted by the logarithm of its distance to the upper bound",
    LogitLink: "predicted by its logit",
    YeoJohnsonLink: "predicted by a power of it",
}


def how_made(evaluation: Evaluation, n_given: int) -> list[tuple[str, str]]:
    """Return pairs of name and text that describe the model: parameters, numbers of rows, seed, package versions."""
    model, n = evaluation.model, len(evaluation.y)
    defaults = inspect.signature(type(model)).parameters
    changed = [
        f"{name}={value!r}"
        for name, value in model.get_params(deep=False).items()
        if name != "verbose" and not (name in defaults and repr(defaults[name].default) == repr(value))
    ]
    found = [("Model", type(model).__name__), ("Parameters", ", ".join(changed) or "all as by default")]
    if hasattr(model, "combination_"):
        link = model.link_
        words = _LINKS.get(type(link.link if isinstance(link, ContinuedLink) else link), "transformed")
        ends = [
            f"{side} {number(end)}" for side, end in zip(("from", "to"), link.support, strict=True) if np.isfinite(end)
        ]
        bounds = f", bounds {' '.join(ends)}" if ends and link != IDENTITY else ""
        found += [
            ("Learned from", count(round(model.combination_.n), "row")),
            ("Members in use", str(len(model.member_names_))),
            ("Degrees of freedom", number(model.dof_)),
            ("Target", f"{words}{bounds}"),
            ("Shape", "mixed with densities of neighbours" if model.density_ is not None else "Student-t"),
        ]
        if model.provenance_ is not None:
            found.append(("Seed", str(model.provenance_.entropy)))
    found.append(("Rows of this page", count(n, "row") if n == n_given else f"{n} drawn from {count(n_given, 'row')}"))
    return [*found, *versions().items()]


@dataclass(frozen=True)
class Verdict:
    """The main sentence of the HTML report, and the quality of the model: "good", "fair" or "poor"."""

    sentence: str
    state: str


@dataclass(frozen=True)
class KeyNumber:
    """A score of the model with its uncertainty, the same score of always predicting the mean, and its meaning."""

    name: str
    value: str
    baseline: str
    meaning: str


def verdict_of(evaluation: Evaluation, target: str) -> Verdict:
    """Return a sentence with the error, a comparison with always predicting the mean, and the coverage."""
    own, base = evaluation.own_scores["absolute"], evaluation.baseline_scores["absolute"]
    gain = 1.0 - own.mean() / base.mean() if base.mean() > 0 else 0.0
    apart = base - own
    surely = 2.0 * float(apart.std() / np.sqrt(len(apart)))
    calibration, state = judge_calibration(evaluation)
    if apart.mean() > surely:
        beside = f"{percent(gain)} less than always predicting the mean"
    elif apart.mean() < -surely:
        beside, state = f"{percent(-gain)} more than always predicting the mean", "poor"
    else:
        beside, state = "no better than always predicting the mean, as far as these rows show", "poor"
    held, n = int(evaluation.held.sum()), len(evaluation.y)
    sentence = (
        f"Predictions of {target} are off by {number(float(own.mean()))} on average, {beside}; {held} of "
        f"{count(n, 'row')} lie in their {percent(LEVEL)} interval ({percent(held / n)}), {calibration}."
    )
    return Verdict(sentence, state)


def judge_calibration(evaluation: Evaluation) -> tuple[str, str]:
    """Return a phrase about the coverage of intervals, and their quality: "good", "fair" or "poor"."""
    n, share = len(evaluation.y), float(evaluation.held.mean())
    low, high = chance_of(n, LEVEL)
    if n < _MIN_ROWS:
        return "too few rows to judge the calibration", "fair"
    if share < low:
        return "fewer than in calibrated intervals: they are too narrow", "poor"
    if share > high:
        return "more than in calibrated intervals: they are wider than they need be", "fair"
    if pit_chance(evaluation) < _UNLIKELY:
        return "as many as there should be, though the predicted shapes do not fit everywhere", "fair"
    return "as in calibrated intervals", "good"


def pit_chance(evaluation: Evaluation) -> float:
    """Return the p-value of a chi-squared test that the PIT histogram is uniform, as for calibrated predictions."""
    return float(stats.chisquare(evaluation.pit_counts).pvalue)


_MEASURES: tuple[tuple[str, str, str], ...] = (
    ("Mean absolute error", "absolute", "average distance of predictions from targets, in units of the target"),
    ("Root mean squared error", "squared", "the same with large errors counting more"),
    ("CRPS", "crps", "error of the whole distribution, in units of the target; smaller is better"),
    ("Negative log likelihood", "nll", "minus the log of the density at the targets; smaller is better"),
    (f"Coverage of {percent(LEVEL)} intervals", "held", f"should be near {percent(LEVEL)}"),
    (f"Width of {percent(LEVEL)} intervals", "width", "median over the rows; narrow is good if the coverage is right"),
)
"""Name, key in ``Evaluation.own_scores``, and meaning of each score."""


def key_numbers(evaluation: Evaluation) -> list[KeyNumber]:
    """Return the scores of the model and of always predicting the mean, with bootstrap standard errors."""
    weights = resample(len(evaluation.y))

    def with_bootstrap_error(key: str, scores: FloatArray) -> str:
        if key == "width":
            return number(float(np.median(scores)))
        with np.errstate(invalid="ignore"):
            value, draws = float(np.mean(scores)), weights @ scores
            if key == "squared":
                value, draws = float(np.sqrt(value)), np.sqrt(draws)
            error = float(np.std(draws))
        return f"{percent(value, 1)} ± {percent(error, 1)}" if key == "held" else with_error(value, error)

    own, baseline = evaluation.own_scores, evaluation.baseline_scores
    return [
        KeyNumber(name, with_bootstrap_error(key, own[key]), with_bootstrap_error(key, baseline[key]), meaning)
        for name, key, meaning in _MEASURES
    ]


def tiles(evaluation: Evaluation) -> list[dict[str, str]]:
    """Return the four main numbers of the report: error, gain over always predicting the mean, coverage, and width."""
    own, base = evaluation.own_scores, evaluation.baseline_scores
    weights = resample(len(evaluation.y))
    errors = weights @ own["absolute"]
    least = np.finfo(np.float64).tiny  # if all targets are equal, there is no error to compare with
    gains = 1.0 - errors / np.maximum(weights @ base["absolute"], least)
    gain = 1.0 - own["absolute"].mean() / max(base["absolute"].mean(), least)
    low, high = chance_of(len(evaluation.y), LEVEL)
    found = (
        (number(own["absolute"].mean()), "mean absolute error", f"± {number(float(errors.std()), 2)}"),
        (percent(gain), "less error than the mean", f"± {percent(float(gains.std()))}"),
        (percent(evaluation.held.mean()), "of rows in their interval", f"chance: {percent(low)} to {percent(high)}"),
        (number(float(np.median(own["width"]))), f"width of {percent(LEVEL)} intervals", "median"),
    )
    return [{"value": value, "label": label, "note": note} for value, label, note in found]
