"""Scikit-learn regressors that predict distributions."""

from bdkn.regressors.base import ProbabilisticRegressor
from bdkn.regressors.bdkn import BDKNRegressor
from bdkn.regressors.decisions import Order
from bdkn.regressors.deep_ensemble import DeepEnsembleRegressor
from bdkn.regressors.explanation import Explanation
from bdkn.regressors.partial_dependence import PartialDependence
from bdkn.regressors.registry import REGRESSORS, load
from bdkn.regressors.stacking import BayesianStackingRegressor
from bdkn.regressors.support_report import SupportReport

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
