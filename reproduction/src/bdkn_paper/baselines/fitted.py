"""Fitted states of the baselines: one frozen object per regressor, which predicts in scaled units from arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.inference import Posterior
from bdkn.predictive import Gaussian, GaussianMixture, MultivariateT, Predictive, StudentT
from bdkn.typing import FloatArray
from bdkn_paper.baselines.conditioned_gp import BOUND, ConditionedGP
from bdkn_paper.baselines.feature_map import FeatureMap

CERTAIN = 1e15
"""Half the degrees of freedom from which on a posterior's noise counts as known, and its Student-t as a Gaussian."""


@dataclass(frozen=True, eq=False)
class TrainingCourse:
    """The scaling of inputs and targets in a fit, and the curves of its training.

    ``loss_curve`` holds the loss of each epoch on all rows. ``validation_curve`` (2, n) holds epochs, and the NLL of
    held-out rows after each of them in scaled units; n is 0 if no rows were held out.
    """

    inputs: Standardizer
    targets: TargetScaler
    loss_curve: FloatArray
    validation_curve: FloatArray


@dataclass(frozen=True, eq=False)
class FittedBaseline(ABC):
    """The state of a fitted baseline; rows, targets and variances are in scaled units."""

    course: TrainingCourse

    @property
    @abstractmethod
    def noise(self) -> float:
        """The noise variance."""

    @abstractmethod
    def predictive(self, X: FloatArray) -> Predictive:
        """Return the predictive distribution of each row."""

    @abstractmethod
    def joint(self, X: FloatArray) -> MultivariateT:
        """Return the joint predictive distribution of all rows."""

    def draw(self, X: FloatArray, size: int, generator: np.random.Generator) -> FloatArray:
        """Return joint draws (n, size)."""
        return self.joint(X).rvs(size, generator)


@dataclass(frozen=True, eq=False)
class FittedGP(FittedBaseline):
    """The state of ``GPRegressor``."""

    process: ConditionedGP

    @property
    def noise(self) -> float:
        """The noise variance."""
        return self.process.noise

    def predictive(self, X: FloatArray) -> Gaussian:
        """Return the predictive distribution of each row."""
        return self.process.predictive(self.kernel_inputs(X))

    def joint(self, X: FloatArray) -> MultivariateT:
        """Return the joint predictive distribution of all rows."""
        return self.process.joint(self.kernel_inputs(X))

    def kernel_inputs(self, X: FloatArray) -> FloatArray:
        """Return rows as the kernel receives them."""
        return X


@dataclass(frozen=True, eq=False)
class FittedDKL(FittedGP):
    """The state of ``DKLRegressor``: a network, and a Gaussian process on its outputs, clipped if ``bounded``."""

    features: FeatureMap
    bounded: bool

    def kernel_inputs(self, X: FloatArray) -> FloatArray:
        """Return the features of rows as the kernel receives them."""
        features = self.features(X)
        return np.clip(features, -BOUND, BOUND) if self.bounded else features


@dataclass(frozen=True, eq=False)
class FittedBLL(FittedBaseline):
    """The state of ``BLLRegressor`` and ``LDBLLRegressor``: features, and the posterior of a linear model on them."""

    features: FeatureMap
    posterior: Posterior

    @property
    def noise(self) -> float:
        """The noise variance, or its posterior scale b/a."""
        return self.posterior.b / self.posterior.a

    def predictive(self, X: FloatArray) -> Gaussian | StudentT:
        """Return the predictive distribution of each row."""
        predictive = self.posterior.predictive(self._design(X))
        return predictive if self._is_student else Gaussian(predictive.loc, predictive.scale)

    def joint(self, X: FloatArray) -> MultivariateT:
        """Return the joint predictive distribution of all rows."""
        joint = self.posterior.joint(self._design(X))
        return joint if self._is_student else MultivariateT(np.inf, joint.loc, joint.shape)

    def derivative(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the posterior mean and standard deviation of ∂f/∂x, each (n, n_inputs)."""
        J = self.features.derivatives(X)
        n, D, P = J.shape
        Φ = np.concatenate([J, np.zeros((n, 1, P))], axis=1).transpose(0, 2, 1).reshape(n * P, D + 1)
        slopes = self.posterior.predictive(Φ, noise=0.0)
        return slopes.mean().reshape(n, P), slopes.std().reshape(n, P)

    @property
    def _is_student(self) -> bool:
        return self.posterior.a < CERTAIN

    def _design(self, X: FloatArray) -> FloatArray:
        return np.concatenate([self.features(X), np.ones((len(X), 1))], axis=1)


@dataclass(frozen=True, eq=False)
class FittedMFVI(FittedBaseline):
    """The state of ``MFVIRegressor``: a stack of networks drawn from the approximate posterior, and the noise."""

    networks: FeatureMap
    variance: float

    @property
    def noise(self) -> float:
        """The noise variance."""
        return self.variance

    def predictive(self, X: FloatArray) -> GaussianMixture:
        """Return the predictive distribution of each row."""
        return GaussianMixture(self.networks.outputs(X), np.sqrt(self.noise))

    def joint(self, X: FloatArray) -> MultivariateT:
        """Return the Gaussian with the mean and the covariance of the mixture."""
        means = self.networks.outputs(X)
        apart = means - means.mean(axis=1, keepdims=True)
        covariance = apart @ apart.T / means.shape[1] + self.noise * np.eye(len(X))
        return MultivariateT(np.inf, means.mean(axis=1), covariance)

    def draw(self, X: FloatArray, size: int, generator: np.random.Generator) -> FloatArray:
        """Return joint draws (n, size); each draw uses one network for all rows."""
        means = self.networks.outputs(X)
        chosen = generator.integers(means.shape[1], size=size)
        return np.asarray(means[:, chosen] + np.sqrt(self.noise) * generator.standard_normal((len(X), size)))


@dataclass(frozen=True, eq=False)
class VariationalLastLayer:
    """A linear model y = φᵀw + ε with w ~ N(mean, covariance) and ε ~ N(0, noise)."""

    mean: FloatArray
    covariance: FloatArray
    noise: float

    def moments(self, Φ: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean φᵀmean and the variance φᵀ covariance φ + noise of each row."""
        return Φ @ self.mean, np.einsum("nd,de,ne->n", Φ, self.covariance, Φ, optimize=True) + self.noise

    def joint(self, Φ: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean (n,) and the covariance (n, n) of all rows."""
        return Φ @ self.mean, Φ @ self.covariance @ Φ.T + self.noise * np.eye(len(Φ))


@dataclass(frozen=True, eq=False)
class FittedVBLL(FittedBaseline):
    """The state of ``VBLLRegressor``: features, and a linear model on them with a Gaussian for its weights."""

    features: FeatureMap
    last_layer: VariationalLastLayer

    @property
    def noise(self) -> float:
        """The noise variance."""
        return self.last_layer.noise

    def predictive(self, X: FloatArray) -> Gaussian:
        """Return the predictive distribution of each row."""
        mean, variance = self.last_layer.moments(self.features(X))
        return Gaussian(mean, np.sqrt(variance))

    def joint(self, X: FloatArray) -> MultivariateT:
        """Return the joint predictive distribution of all rows."""
        return MultivariateT(np.inf, *self.last_layer.joint(self.features(X)))
