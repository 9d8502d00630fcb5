"""The verdict in one sentence, and the key numbers with their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from bdkn.report.evaluation import LEVEL, Evaluation, chance_of, resample
from bdkn.report.wording import count, number, percent, with_error
from bdkn.typing import FloatArray

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
