"""The six methods that the paper compares with, each trained by PyTorch, which a fit imports."""

from bdkn_paper.baselines.bll import BLLRegressor
from bdkn_paper.baselines.dkl import DKLRegressor
from bdkn_paper.baselines.gp import GPRegressor
from bdkn_paper.baselines.ldbll import LDBLLRegressor
from bdkn_paper.baselines.mfvi import MFVIRegressor
from bdkn_paper.baselines.torch_regressor import TorchRegressor
from bdkn_paper.baselines.vbll import VBLLRegressor

BASELINES: dict[str, type[TorchRegressor]] = {
    cls.__name__: cls for cls in (GPRegressor, DKLRegressor, BLLRegressor, LDBLLRegressor, MFVIRegressor, VBLLRegressor)
}
"""The regressors by name."""

__all__ = [
    "BASELINES",
    "BLLRegressor",
    "DKLRegressor",
    "GPRegressor",
    "LDBLLRegressor",
    "MFVIRegressor",
    "TorchRegressor",
    "VBLLRegressor",
]
