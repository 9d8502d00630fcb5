"""What a combination predicts for rows, in the units of the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.inference import Forecast
from bdkn.lazy import lazy
from bdkn.members.density import carry
from bdkn.predictive import Predictive, StudentT, StudentTMixture, Transformed
from bdkn.regressors.fitted import Combined
from bdkn.regressors.frames import numeric_table
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
