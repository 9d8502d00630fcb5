"""Sentences of the page about the quality of a model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from bdkn.estimators import BDKNRegressor
from bdkn.estimators.bdkn import NOTHING_TO_CHOOSE
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
from bdkn.report.wording import count, number, percent, versions, with_error
from bdkn.typing import FloatArray

_FEW_JUDGED_ROWS = 50
_MANY_OUTSIDE = 0.1
_SURELY_OUTSIDE = 0.001

_LEAST_SURE = 8
"""Rows that are listed."""


def warnings_of(evaluation: Evaluation, note: str = "") -> list[str]:
    """Return what a reader should know before trusting the page, in plain words; nothing if all is well."""
    found = [_training_rows(evaluation), _few_rows(evaluation), *_calibration(evaluation), _outside(evaluation), note]
    return [text for text in found if text]


def _training_rows(evaluation: Evaluation) -> str:
    """Return a warning if rows were seen in training: then nearly all prototypes of the model are among them."""
    if evaluation.support is None:
        return ""
    prototypes = len(evaluation.model.model_.extrapolation.support.prototypes)
    seen, n = int(np.sum(evaluation.support.ratio < 1e-9)), len(evaluation.y)
    if seen < max(10, 0.25 * min(n, prototypes)):
        return ""
    return (
        f"At least {seen} of these {count(n, 'row')} are training rows, or equal to some. The numbers on this page are "
        "then better than they would be for new rows: give rows that the model has not seen."
    )


def _few_rows(evaluation: Evaluation) -> str:
    n = len(evaluation.y)
    if n >= _FEW_JUDGED_ROWS:
        return ""
    low, high = chance_of(n, LEVEL)
    return (
        f"With {count(n, 'row')}, numbers are rough: by chance alone, calibrated {percent(LEVEL)} intervals hold "
        f"between {percent(low)} and {percent(high)} of them."
    )


def _calibration(evaluation: Evaluation) -> list[str]:
    n, share, found = len(evaluation.y), float(evaluation.held.mean()), []
    low, high = chance_of(n, LEVEL)
    if share < low:
        found.append(
            f"Intervals are too narrow: {percent(LEVEL)} intervals held {percent(share)} of the rows, and chance "
            f"allows {percent(low)} at least. New rows may differ from the training rows."
        )
    error = evaluation.y - evaluation.mean
    bias, spread = float(error.mean()), float(error.std() / np.sqrt(n))
    if n >= _FEW_JUDGED_ROWS and abs(bias) > 3.5 * spread:
        way = "low" if bias > 0 else "high"
        found.append(f"Predictions are too {way} by {number(abs(bias))} on average, more than chance explains.")
    if n >= _FEW_JUDGED_ROWS and low <= share <= high and pit_chance(evaluation.pit) < _SURELY_OUTSIDE:
        found.append("The shape of the predicted distributions does not fit: see the histogram under Calibration.")
    return found


def _outside(evaluation: Evaluation) -> str:
    if evaluation.support is None:
        return ""
    far = float(np.mean(evaluation.support.status != "inside"))
    if far <= _MANY_OUTSIDE:
        return ""
    return (
        f"{percent(far)} of the rows are farther from all training rows than those are from each other: predictions "
        "there are extrapolations."
    )


def least_sure(evaluation: Evaluation, columns: Sequence[Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a table of the rows with the largest standard deviation, and why, with some columns."""
    order = np.argsort(-evaluation.std, kind="stable")[:_LEAST_SURE]
    shown = list(columns)[:3]
    values = [evaluation.view.column(name) for name in shown]
    head = ("row", "predicted", f"{percent(LEVEL)} interval", "observed", "why", *map(str, shown))
    rows = []
    for i in order:
        ends = f"{number(evaluation.interval[i, 0])} to {number(evaluation.interval[i, 1])}"
        cells = (str(i), number(evaluation.mean[i]), ends, number(evaluation.y[i]), _why(evaluation, int(i)))
        rows.append((*cells, *(cell(column, int(i)) for column in values)))
    return head, rows


def _why(evaluation: Evaluation, i: int) -> str:
    """Return the largest part of the variance of a row in words."""
    if evaluation.support is not None and evaluation.support.status[i] != "inside":
        where = "outside the range of" if evaluation.support.status[i] == "outside" else "in a gap of"
        return f"{where} {evaluation.support.column[i]}"
    if not evaluation.parts:
        return "–"
    largest = max(evaluation.parts, key=lambda name: float(evaluation.parts[name][i]))
    return {"disagreement": "members disagree", "shape": "neighbours differ"}.get(largest, largest)


def members_alike(model: Any) -> str:
    """Return a sentence if the data do not tell the members apart."""
    if not isinstance(model, BDKNRegressor) or model.members_told_apart_:
        return ""
    return f"Here {NOTHING_TO_CHOOSE}: equal weights are as likely as these, so read nothing into their order."


def how_made(evaluation: Evaluation, given: int) -> list[tuple[str, str]]:
    """Return the model, its parameters, rows, seed and versions."""
    model = evaluation.model
    found = [("Model", type(model).__name__), ("Parameters", _parameters(model))]
    if isinstance(model, BDKNRegressor):
        found += [
            ("Learned from", count(round(model.combination_.n), "row")),
            ("Members in use", str(len(model.member_names_))),
            ("Degrees of freedom", number(model.dof_)),
            ("Target", describe_link(model.link_)),
            ("Shape", "mixed with densities of neighbours" if model.density_ is not None else "Student-t"),
        ]
        if model.provenance_ is not None:
            found.append(("Seed", str(model.provenance_.entropy)))
    n = len(evaluation.y)
    found.append(("Rows of this page", count(n, "row") if n == given else f"{n} drawn from {count(given, 'row')}"))
    return [*found, *versions().items()]


def _parameters(model: Any) -> str:
    """Return the parameters that differ from their defaults."""
    signature = inspect.signature(type(model)).parameters
    own = model.get_params(deep=False)
    changed = [f"{name}={value!r}" for name, value in own.items() if not _is_default(value, signature, name)]
    return ", ".join(changed) or "all as by default"


def _is_default(value: Any, signature: Any, name: str) -> bool:
    return name == "verbose" or (name in signature and repr(signature[name].default) == repr(value))


def describe_link(link: Any) -> str:
    """Return in words how the target was transformed."""
    if link == IDENTITY:
        return "predicted as it is"
    inner = link.link if isinstance(link, ContinuedLink) else link
    words: dict[type, str] = {
        IdentityLink: "predicted as it is",
        LogLink: "predicted by its logarithm",
        MirroredLink: "predicted by the logarithm of its distance to the upper bound",
        LogitLink: "predicted by its logit",
        YeoJohnsonLink: "predicted by a power of it",
    }
    told = words.get(type(inner), "transformed")
    lower, upper = link.support
    bounds = [f"{name} {number(end)}" for name, end in (("from", lower), ("to", upper)) if np.isfinite(end)]
    return f"{told}, bounds {' '.join(bounds)}" if bounds else told


_FEW_ROWS = 20
"""With fewer rows than this nothing is said about calibration."""

_SURELY = 0.01
"""Probability below which a deviation is not put down to chance."""

_BINS = 10


@dataclass(frozen=True)
class Verdict:
    """One sentence about a model, and its state: "good", "fair" or "poor"."""

    sentence: str
    state: str


@dataclass(frozen=True)
class KeyNumber:
    """A number with its uncertainty, the same for predicting the mean, and what it means."""

    name: str
    value: str
    baseline: str
    meaning: str


def verdict_of(evaluation: Evaluation, target: str) -> Verdict:
    """Return how far off predictions are, beside the mean, and whether intervals hold as often as they should."""
    own, base = (float(np.mean(scores["absolute"])) for scores in (evaluation.own_scores, evaluation.baseline_scores))
    held, n = int(evaluation.held.sum()), len(evaluation.y)
    calibration, state = judge_calibration(evaluation)
    gain = 1.0 - own / base if base > 0 else 0.0
    beside, useful = _beside_the_mean(evaluation, gain)
    sentence = (
        f"Predictions of {target} are off by {number(own)} on average, {beside}; {held} of {count(n, 'row')} lie in "
        f"their {percent(LEVEL)} interval ({percent(held / n)}), {calibration}."
    )
    return Verdict(sentence, state if useful else "poor")


def _beside_the_mean(evaluation: Evaluation, gain: float) -> tuple[str, bool]:
    """Return how the error compares with that of the mean, and whether it is surely smaller."""
    apart = evaluation.baseline_scores["absolute"] - evaluation.own_scores["absolute"]
    error = float(apart.std() / np.sqrt(len(apart)))
    if apart.mean() > 2.0 * error:
        return f"{percent(gain)} less than always predicting the mean", True
    if apart.mean() < -2.0 * error:
        return f"{percent(-gain)} more than always predicting the mean", False
    return "no better than always predicting the mean, as far as these rows can tell", False


def judge_calibration(evaluation: Evaluation) -> tuple[str, str]:
    """Return in words whether the intervals hold as often as they say, and the state that follows."""
    n, share = len(evaluation.y), float(evaluation.held.mean())
    low, high = chance_of(n, LEVEL)
    if n < _FEW_ROWS:
        return "too few rows to judge the calibration", "fair"
    if share < low:
        return "fewer than calibrated intervals would hold: they are too narrow", "poor"
    if share > high:
        return "more than calibrated intervals would hold: they are wider than they need be", "fair"
    if pit_chance(evaluation.pit) < _SURELY:
        return "as many as they should, though the predicted shapes do not fit everywhere", "fair"
    return "as calibrated intervals would", "good"


def pit_chance(pit: FloatArray) -> float:
    """Return the probability of a PIT histogram as uneven as this one, if predictions were calibrated."""
    seen = np.histogram(np.clip(pit, 0.0, 1.0), bins=_BINS, range=(0.0, 1.0))[0]
    return float(stats.chisquare(seen).pvalue)


_MEASURES: tuple[tuple[str, str, str], ...] = (
    ("Mean absolute error", "absolute", "how far off predictions are on average, in units of the target"),
    ("Root mean squared error", "squared", "the same with large errors counting more"),
    ("CRPS", "crps", "error of the whole distribution, in units of the target; smaller is better"),
    ("Negative log likelihood", "nll", "surprise at what came; smaller is better"),
    (f"Coverage of {percent(LEVEL)} intervals", "held", f"should be near {percent(LEVEL)}"),
    (f"Width of {percent(LEVEL)} intervals", "width", "median over the rows; narrow is good if coverage holds"),
)


def key_numbers(evaluation: Evaluation) -> list[KeyNumber]:
    """Return each measure with its bootstrap standard error, of the model and of predicting the mean."""
    weights = resample(len(evaluation.y))
    found = []
    for name, key, meaning in _MEASURES:
        own, base = evaluation.own_scores[key], evaluation.baseline_scores[key]
        found.append(KeyNumber(name, _shown(key, own, weights), _shown(key, base, weights), meaning))
    return found


def _shown(key: str, scores: FloatArray, weights: FloatArray) -> str:
    if key == "width":
        return number(float(np.median(scores)))
    with np.errstate(invalid="ignore"):
        value, draws = float(np.mean(scores)), weights @ scores
        if key == "squared":
            value, draws = float(np.sqrt(value)), np.sqrt(draws)
        error = float(np.std(draws))
    if key == "held":
        return f"{percent(value, 1)} ± {percent(error, 1)}"
    return with_error(value, error)


def tiles(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the four numbers shown large: error, gain over the mean, coverage, and width."""
    own, base = evaluation.own_scores, evaluation.baseline_scores
    weights = resample(len(evaluation.y))
    errors = weights @ own["absolute"]
    least = np.finfo(np.float64).tiny  # if all targets are equal, there is no error to compare with
    gains = 1.0 - errors / np.maximum(weights @ base["absolute"], least)
    gain = 1.0 - own["absolute"].mean() / max(base["absolute"].mean(), least)
    low, high = chance_of(len(evaluation.y), LEVEL)
    return [
        _tile(number(own["absolute"].mean()), "mean absolute error", f"± {number(float(errors.std()), 2)}"),
        _tile(percent(gain), "less error than the mean", f"± {percent(float(gains.std()))}"),
        _tile(percent(evaluation.held.mean()), "of intervals held", f"chance: {percent(low)} to {percent(high)}"),
        _tile(number(float(np.median(own["width"]))), f"width of {percent(LEVEL)} intervals", "median"),
    ]


def _tile(value: str, label: str, note: str) -> dict[str, Any]:
    return {"value": value, "label": label, "note": note}
