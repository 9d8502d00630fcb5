"""Predictive distributions: all that metrics, plots and reports ever see of a model."""

from bdkn.predictive.base import Predictive
from bdkn.predictive.gaussian import Gaussian
from bdkn.predictive.mixture import GaussianMixture
from bdkn.predictive.multivariate_t import MultivariateT
from bdkn.predictive.student_t import StudentT

__all__ = ["Gaussian", "GaussianMixture", "MultivariateT", "Predictive", "StudentT"]
