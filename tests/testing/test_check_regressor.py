"""The conformance suite of regressors: a class of one's own passes, and one that breaks a rule is named by the rule."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from bdkn.data.folds import seed_sequence
from bdkn.data.training_data import TableReader
from bdkn.estimators import ProbabilisticRegressor
from bdkn.model.prediction import Prediction
from bdkn.predictive import Gaussian
from bdkn.testing import check_regressor


@dataclass(frozen=True, eq=False)
class LinePrediction(Prediction):
    """The Gaussians of some rows around a line."""

    means: np.ndarray
    std: float

    @property
    def dist(self):
        return Gaussian(self.means, np.full(len(self.means), self.std))

    def moments(self):
        return self.dist.mean(), self.std**2 * np.eye(len(self.means))

    def draws(self, size, generator):
        return self.dist.rvs(size, generator)


@dataclass(frozen=True, eq=False)
class FittedLine:
    reader: TableReader
    weights: np.ndarray
    std: float
    prediction: type = LinePrediction

    def predict(self, X, *, joint=False):
        return self.prediction(_design(X) @ self.weights, self.std)


@dataclass(kw_only=True, eq=False, repr=False)
class Line(ProbabilisticRegressor):
    """A line by weighted least squares, with Gaussian noise."""

    random_state: int | None = None

    def _fit(self, X, y, sample_weight):
        seed_sequence(self.random_state)
        reader, rows = TableReader.fit(X, y, sample_weight, owner=type(self).__name__)
        rows = rows.counted()
        root = np.sqrt(np.ones(len(rows)) if rows.counts is None else rows.counts)
        weights = np.linalg.lstsq(_design(rows.X) * root[:, None], rows.y * root, rcond=None)[0]
        errors = rows.y - _design(rows.X) @ weights
        return FittedLine(reader, weights, np.sqrt(np.average(errors**2, weights=rows.counts)))


def _design(X):
    return np.column_stack([X, np.ones(len(X))])


class Impatient(Line):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)


class Forgetful(Line):
    def _fit(self, X, y, sample_weight):
        fitted = super()._fit(X, y, sample_weight)
        return replace(fitted, weights=fitted.weights + 1e-6 * np.random.default_rng().normal())


class Hasty(Line):
    def fit(self, X, y, sample_weight=None):
        self.model_ = FittedLine(TableReader("Hasty", 3), np.zeros(4), 1.0)
        return super().fit(X, y, sample_weight)


class Meddling(Line):
    def fit(self, X, y, sample_weight=None):
        self.random_state = 7
        return super().fit(X, y, sample_weight)


class SociablePrediction(LinePrediction):
    @property
    def dist(self):
        return Gaussian(self.means + len(self.means), np.full(len(self.means), self.std))


class NarrowPrediction(LinePrediction):
    def draws(self, size, generator):
        mean = self.means[:, None]
        return mean + 0.5 * (super().draws(size, generator) - mean)


class WidePrediction(LinePrediction):
    def moments(self):
        mean, covariance = super().moments()
        return mean, 2.0 * covariance


class PointPrediction(LinePrediction):
    @property
    def dist(self):
        return Gaussian(self.means, np.zeros(len(self.means)))


class Sociable(Line):
    def _fit(self, X, y, sample_weight):
        return replace(super()._fit(X, y, sample_weight), prediction=SociablePrediction)


class Narrow(Line):
    def _fit(self, X, y, sample_weight):
        return replace(super()._fit(X, y, sample_weight), prediction=NarrowPrediction)


class Wide(Line):
    def _fit(self, X, y, sample_weight):
        return replace(super()._fit(X, y, sample_weight), prediction=WidePrediction)


class Point(Line):
    def _fit(self, X, y, sample_weight):
        return replace(super()._fit(X, y, sample_weight), prediction=PointPrediction)


class Unscaled(Line):
    def _fit(self, X, y, sample_weight):
        return replace(super()._fit(X, y, sample_weight), std=1.0)


class Weightless(Line):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


BROKEN = {
    Impatient: "fit returns self",
    Forgetful: "the same seed gives the same bits",
    Hasty: "a fit that fails changes nothing",
    Meddling: "fit does not change parameters",
    Sociable: "the mean of a row depends on that row alone",
    Narrow: "the joint draws of a row follow its predictive",
    Wide: "the covariance's diagonal is the squared std",
    Unscaled: "standard deviations are in the units of the target",
    Weightless: "raises .* with 'must be >= 0'",
    Point: "standard deviations are positive",
}


def test_a_regressor_of_ones_own_conforms():
    check_regressor(Line())


def test_the_suites_need_no_test_framework():
    script = "import sys; sys.modules['pytest'] = None; import bdkn.testing; print('_pytest' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_it_can_be_checked_on_other_rows():
    generator = np.random.default_rng(3)
    X = generator.normal(size=(30, 2))
    check_regressor(Line(random_state=4), X=X, y=X[:, 0] + generator.normal(size=30))
    with pytest.raises(AssertionError, match="at least 24 rows with 2 columns"):
        check_regressor(Line(), X=X[:5], y=X[:5, 0])
    with pytest.raises(TypeError, match="both X and y"):
        check_regressor(Line(), X=X)


@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: cls.__name__)
def test_a_regressor_that_breaks_a_rule_is_named_by_the_rule(cls):
    with pytest.raises(AssertionError, match=BROKEN[cls]) as caught:
        check_regressor(cls())
    assert caught.value.__notes__[-1].endswith(f"of {cls.__name__}")
