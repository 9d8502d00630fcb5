"""Predictions of a fitted combination in the units of the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.data.frames import numeric_table
from bdkn.data.scaling import TargetScaler
from bdkn.ensemble.held_out import HeldOut
from bdkn.ensemble.selection import CombinationSettings
from bdkn.estimators.fitted import Combined
from bdkn.inference import Forecast
from bdkn.lazy import lazy
from bdkn.model.density import carry
from bdkn.predictive import Gaussian, Predictive, StudentT, StudentTMixture, Transformed
from bdkn.stages import stage
from bdkn.typing import FloatArray


def widened_forecast(combined: Combined, forecast: Forecast, X: Any, *, joint: bool = False) -> Forecast:
    """Return the members' forecast with the variance outside of the training rows; ``joint`` for all together."""
    widening = combined.widening
    return forecast if widening is None else widening.widen(X, forecast, combined.combination, joint=joint)


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction of checked rows X by a combination.

    ``forecast`` is that of ``widened_forecast``, joint for moments and draws.
    """

    combined: Combined
    forecast: Forecast
    X: Any

    def dist(self) -> Predictive:
        """Return the distribution of each row."""
        return self._dist

    @lazy
    def _dist(self) -> Predictive:
        combined, targets = self.combined, self.combined.targets
        with stage("predict"):
            if combined.density is None:
                return targets.restore(combined.combination.predictive(self.forecast, targets.scale, targets.mean))
            return targets.restore(self._scaled[1].affine(targets.scale, targets.mean))

    def variances(self) -> dict[str, FloatArray]:
        """Return the parts of the variance of each row, which add up to it."""
        combined, targets = self.combined, self.combined.targets
        parts = combined.combination.variance(self.forecast)
        if combined.density is not None:
            student, mixture = self._scaled
            parts["shape"] = mixture.var() - student.var()
        unit: float | FloatArray = targets.squared
        if not targets.is_linear:
            with np.errstate(divide="ignore", invalid="ignore"):
                unit = np.nan_to_num(self.dist().var() / sum(parts.values()), nan=0.0)
        return {name: unit * part for name, part in parts.items()}

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean of each row, and the covariance of all rows of a joint prediction."""
        combined, targets = self.combined, self.combined.targets
        covariance = combined.combination.covariance(self.forecast)
        if targets.is_linear and combined.density is None:
            mean = combined.combination.predictive(self.forecast, targets.scale, targets.mean).loc
            return mean, targets.squared * covariance
        dist = self.dist()
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.nan_to_num(dist.std() / np.sqrt(np.diag(covariance)), nan=0.0)
        return dist.mean(), np.asarray(slope[:, None] * covariance * slope)

    def draws(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Return draws (n, size) of a joint prediction; each column is one of all rows together."""
        targets = self.combined.targets
        student, shaped = self._scaled
        drawn = carry(student, shaped, self.combined.combination.draw(self.forecast, size, generator))
        drawn = targets.mean + targets.scale * drawn
        dist = targets.restore(shaped.affine(targets.scale, targets.mean))
        return dist.carry(drawn) if isinstance(dist, Transformed) else drawn

    @lazy
    def _scaled(self) -> tuple[StudentT, StudentT | StudentTMixture]:
        """The Student-t and the mixture with neighbours, if there is one, in scaled units."""
        student, density = self.combined.combination.predictive(self.forecast), self.combined.density
        if density is None:
            return student, student
        return student, density.mix(student, numeric_table(self.X, density.columns), self._inside(student))

    def _inside(self, student: StudentT) -> FloatArray | None:
        """Return the share of each row's squared scale that is not due to its distance from the training rows."""
        outside = self.forecast.outside
        if outside is None:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.clip(1.0 - np.nan_to_num(outside.variance / student.scale**2), 0.0, 1.0)


def left_one_out(held_out: HeldOut, targets: TargetScaler, settings: CombinationSettings) -> tuple[float, float]:
    """Return the log score and the RMSE of these members, each row predicted from the others."""
    y, counts = held_out.y, held_out.counts
    dist = settings.combine(held_out).leave_one_out(held_out.forecast(), y, counts)
    if targets.is_linear:
        log_score = np.average(dist.logpdf(y), weights=counts) - np.log(targets.scale)
        return float(log_score), float(targets.scale * np.sqrt(np.average((dist.loc - y) ** 2, weights=counts)))
    own, restored = targets.inverse(y), targets.restore(dist.affine(targets.scale, targets.mean))
    error = np.sqrt(np.average((restored.mean() - own) ** 2, weights=counts))
    return float(np.average(restored.logpdf(own), weights=counts)), float(error)


def scores_of_first(held_out: HeldOut, targets: TargetScaler, settings: CombinationSettings) -> FloatArray:
    """Return the log score and the RMSE (2, H) of the first 1, 2, .. members."""
    sizes = range(1, held_out.means.shape[1] + 1)
    return np.transpose([left_one_out(held_out[np.arange(size)], targets, settings) for size in sizes])


def losses_without(held_out: HeldOut, targets: TargetScaler, settings: CombinationSettings) -> FloatArray:
    """Return by how much the log score is lower without each of the members."""
    members = np.arange(held_out.means.shape[1])
    without = [left_one_out(held_out[np.delete(members, h)], targets, settings)[0] for h in members]
    return left_one_out(held_out, targets, settings)[0] - np.array(without)


def target_scores(held_out: HeldOut, targets: TargetScaler) -> dict[str, FloatArray]:
    """Return RMSE and NLL of each member's own Gaussian, for a target that is transformed."""
    filled, y = held_out.filled(), targets.inverse(held_out.y)
    errors, scores = [], []
    for mean, variance in zip(filled.means.T, filled.variances.T, strict=True):
        dist = targets.restore(Gaussian(targets.mean + targets.scale * mean, targets.scale * np.sqrt(variance)))
        errors.append(np.sqrt(np.average((dist.mean() - y) ** 2, weights=held_out.counts)))
        scores.append(-np.average(dist.logpdf(y), weights=held_out.counts))
    return {"rmse": np.array(errors), "nll": np.array(scores)}
