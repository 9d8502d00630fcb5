"""Scikit-learn regressors that predict distributions."""

from bdkn.regressors.base import ProbabilisticRegressor
from bdkn.regressors.bdkn import BDKNRegressor
from bdkn.regressors.bll import BLLRegressor
from bdkn.regressors.deep_ensemble import DeepEnsembleRegressor
from bdkn.regressors.dkl import DKLRegressor
from bdkn.regressors.ensemble import EnsembleRegressor
from bdkn.regressors.gp import GPRegressor
from bdkn.regressors.ldbll import LDBLLRegressor
from bdkn.regressors.mfvi import MFVIRegressor
from bdkn.regressors.registry import REGRESSORS, load
from bdkn.regressors.stacking import BayesianStackingRegressor
from bdkn.regressors.torch_regressor import TorchRegressor
from bdkn.regressors.vbll import VBLLRegressor

__all__ = [
    "REGRESSORS",
    "BDKNRegressor",
    "BLLRegressor",
    "BayesianStackingRegressor",
    "DKLRegressor",
    "DeepEnsembleRegressor",
    "EnsembleRegressor",
    "GPRegressor",
    "LDBLLRegressor",
    "MFVIRegressor",
    "ProbabilisticRegressor",
    "TorchRegressor",
    "VBLLRegressor",
    "load",
]
