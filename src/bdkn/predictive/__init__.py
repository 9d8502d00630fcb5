"""Predictive distributions: the only form in which metrics, plots and reports see a prediction."""

from __future__ import annotations

from bdkn.predictive.base import Predictive
from bdkn.predictive.joined import JoinedPredictive, join
from bdkn.predictive.links import ContinuedLink, IdentityLink, LogitLink, LogLink, MirroredLink, YeoJohnsonLink
from bdkn.predictive.location_scale import Gaussian, StudentT
from bdkn.predictive.mixture import GaussianMixture, StudentTMixture
from bdkn.predictive.multivariate_t import MatrixT, MultivariateT, VectorT
from bdkn.predictive.transformed import Transformed

__all__ = [
    "ContinuedLink",
    "Gaussian",
    "GaussianMixture",
    "IdentityLink",
    "JoinedPredictive",
    "LogLink",
    "LogitLink",
    "MatrixT",
    "MirroredLink",
    "MultivariateT",
    "Predictive",
    "StudentT",
    "StudentTMixture",
    "Transformed",
    "VectorT",
    "YeoJohnsonLink",
    "join",
]
