"""Predictive distributions: the only form in which metrics, plots and reports see a prediction."""

from bdkn.predictive.base import Predictive
from bdkn.predictive.location_scale import Gaussian, StudentT
from bdkn.predictive.mixture import GaussianMixture
from bdkn.predictive.multivariate_t import MatrixT, MultivariateT, VectorT
from bdkn.predictive.student_mixture import StudentTMixture

__all__ = [
    "Gaussian",
    "GaussianMixture",
    "MatrixT",
    "MultivariateT",
    "Predictive",
    "StudentT",
    "StudentTMixture",
    "VectorT",
]
