"""The conformance suite of regressors: a class of one's own passes, and one that breaks a rule is named by the rule."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from bdkn.ensemble.provenance import seed_sequence
from bdkn.estimators import ProbabilisticRegressor
from bdkn.predictive import Gaussian
from bdkn.testing import check_regressor


@dataclass(frozen=True, eq=False)
class FittedLine:
    weights: np.ndarray
    std: float


@dataclass(kw_only=True, eq=False, repr=False)
class Line(ProbabilisticRegressor):
    """A line by weighted least squares, with Gaussian noise."""

    random_state: int | None = None

    def _fit(self, rows):
        seed_sequence(self.random_state)
        root = np.sqrt(np.ones(len(rows)) if rows.counts is None else rows.counts)
        weights = np.linalg.lstsq(_design(rows.X) * root[:, None], rows.y * root, rcond=None)[0]
        return FittedLine(weights, np.sqrt(np.average((rows.y - _design(rows.X) @ weights) ** 2, weights=rows.counts)))

    def _predictive(self, X):
        return Gaussian(_design(X) @ self.fitted_.weights, np.full(len(X), self.fitted_.std))

    def _moments(self, X):
        return self._predictive(X).mean(), self.fitted_.std**2 * np.eye(len(X))

    def _joint_draws(self, X, size, generator):
        return self._predictive(X).rvs(size, generator)


def _design(X):
    return np.column_stack([X, np.ones(len(X))])


class Impatient(Line):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)


class Forgetful(Line):
    def _fit(self, rows):
        fitted = super()._fit(rows)
        return FittedLine(fitted.weights + 1e-6 * np.random.default_rng().normal(), fitted.std)


class Hasty(Line):
    def fit(self, X, y, sample_weight=None):
        self.fitted_ = FittedLine(np.zeros(4), 1.0)
        return super().fit(X, y, sample_weight)


class Meddling(Line):
    def _fit(self, rows):
        self.random_state = 7
        return super()._fit(rows)


class Sociable(Line):
    def _predictive(self, X):
        dist = super()._predictive(X)
        return Gaussian(dist.loc + len(X), dist.scale)


class Narrow(Line):
    def _joint_draws(self, X, size, generator):
        mean = self._predictive(X).mean()[:, None]
        return mean + 0.5 * (super()._joint_draws(X, size, generator) - mean)


class Wide(Line):
    def _moments(self, X):
        mean, covariance = super()._moments(X)
        return mean, 2.0 * covariance


class Unscaled(Line):
    def _fit(self, rows):
        return FittedLine(super()._fit(rows).weights, 1.0)


class Weightless(Line):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


class Point(Line):
    def _predictive(self, X):
        return Gaussian(super()._predictive(X).loc, np.zeros(len(X)))


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
