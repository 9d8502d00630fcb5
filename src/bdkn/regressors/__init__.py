"""Scikit-learn regressors that predict distributions."""

from bdkn.regressors.base import ProbabilisticRegressor
from bdkn.regressors.bdkn import BDKNRegressor
from bdkn.regressors.deep_ensemble import DeepEnsembleRegressor
from bdkn.regressors.ensemble import EnsembleRegressor
from bdkn.regressors.registry import REGRESSORS, load
from bdkn.regressors.stacking import BayesianStackingRegressor

__all__ = [
    "REGRESSORS",
    "BDKNRegressor",
    "BayesianStackingRegressor",
    "DeepEnsembleRegressor",
    "EnsembleRegressor",
    "ProbabilisticRegressor",
    "load",
]
