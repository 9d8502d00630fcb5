"""Scikit-learn regressors that predict distributions."""

from __future__ import annotations

from bdkn.analysis.decisions import Order
from bdkn.analysis.explanation import Explanation
from bdkn.analysis.partial_dependence import PartialDependence
from bdkn.estimators.base import ProbabilisticRegressor
from bdkn.estimators.bdkn import BayesianStackingRegressor, BDKNRegressor
from bdkn.estimators.deep_ensemble import DeepEnsembleRegressor
from bdkn.estimators.registry import REGRESSORS, load
from bdkn.model.extrapolation import SupportReport

__all__ = [
    "REGRESSORS",
    "BDKNRegressor",
    "BayesianStackingRegressor",
    "DeepEnsembleRegressor",
    "Explanation",
    "Order",
    "PartialDependence",
    "ProbabilisticRegressor",
    "SupportReport",
    "load",
]
