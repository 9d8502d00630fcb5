"""Scikit-learn regressors that predict distributions."""

from bdkn.regressors.base import ProbabilisticRegressor
from bdkn.regressors.baselines.bll import BLLRegressor
from bdkn.regressors.baselines.dkl import DKLRegressor
from bdkn.regressors.baselines.gp import GPRegressor
from bdkn.regressors.baselines.ldbll import LDBLLRegressor
from bdkn.regressors.baselines.mfvi import MFVIRegressor
from bdkn.regressors.baselines.torch_regressor import TorchRegressor
from bdkn.regressors.baselines.vbll import VBLLRegressor
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
    "BLLRegressor",
    "BayesianStackingRegressor",
    "DKLRegressor",
    "DeepEnsembleRegressor",
    "Explanation",
    "GPRegressor",
    "LDBLLRegressor",
    "MFVIRegressor",
    "Order",
    "PartialDependence",
    "ProbabilisticRegressor",
    "SupportReport",
    "TorchRegressor",
    "VBLLRegressor",
    "load",
]
