"""Regression with honest uncertainty: Bayesian deep kernel networks as scikit-learn estimators.

Names are imported when they are first used, so that ``import bdkn`` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bdkn.data.dask_rows import DaskRows
    from bdkn.data.folds import RowNumberFolds
    from bdkn.data.parquet import ParquetRows
    from bdkn.data.sources import ArrayRows, IteratorRows
    from bdkn.ensemble.selection import CombinationOptions
    from bdkn.errors import (
        BDKNError,
        ColumnsWarning,
        DivergedError,
        DivergedMemberWarning,
        ExtremeTargetWarning,
        FewRowsWarning,
        InvalidParameterError,
        ModelFileError,
        OutsideDataWarning,
        RepeatedRowsWarning,
    )
    from bdkn.estimators import BayesianStackingRegressor, BDKNRegressor, DeepEnsembleRegressor, load
    from bdkn.functions import (
        cross_val_predict_dist,
        expected_cost,
        optimal_order,
        predict_above,
        predict_dist,
        predict_interval,
        predict_quantiles,
        predict_std,
    )
    from bdkn.metrics import Monitor, MonitorReport, calibration_error, coverage, crps, neg_crps, neg_nll, nll, rmse
    from bdkn.model.updating import RowStatistics
    from bdkn.networks.settings import TrainingOptions
    from bdkn.networks.torch_engine import TorchEngine
    from bdkn.predictive import Gaussian, GaussianMixture, StudentT

    __version__: str

__all__ = [
    "ArrayRows",
    "BDKNError",
    "BDKNRegressor",
    "BayesianStackingRegressor",
    "ColumnsWarning",
    "CombinationOptions",
    "DaskRows",
    "DeepEnsembleRegressor",
    "DivergedError",
    "DivergedMemberWarning",
    "ExtremeTargetWarning",
    "FewRowsWarning",
    "Gaussian",
    "GaussianMixture",
    "InvalidParameterError",
    "IteratorRows",
    "ModelFileError",
    "Monitor",
    "MonitorReport",
    "OutsideDataWarning",
    "ParquetRows",
    "RepeatedRowsWarning",
    "RowNumberFolds",
    "RowStatistics",
    "StudentT",
    "TorchEngine",
    "TrainingOptions",
    "__version__",
    "calibration_error",
    "coverage",
    "cross_val_predict_dist",
    "crps",
    "expected_cost",
    "load",
    "neg_crps",
    "neg_nll",
    "nll",
    "optimal_order",
    "predict_above",
    "predict_dist",
    "predict_interval",
    "predict_quantiles",
    "predict_std",
    "rmse",
]

_HOME = {
    "bdkn.errors": (
        "BDKNError",
        "ColumnsWarning",
        "DivergedError",
        "DivergedMemberWarning",
        "ExtremeTargetWarning",
        "FewRowsWarning",
        "InvalidParameterError",
        "ModelFileError",
        "OutsideDataWarning",
        "RepeatedRowsWarning",
    ),
    "bdkn.metrics": (
        "Monitor",
        "MonitorReport",
        "calibration_error",
        "coverage",
        "crps",
        "neg_crps",
        "neg_nll",
        "nll",
        "rmse",
    ),
    "bdkn.predictive": ("Gaussian", "GaussianMixture", "StudentT"),
    "bdkn.estimators": ("BDKNRegressor", "BayesianStackingRegressor", "DeepEnsembleRegressor", "load"),
    "bdkn.functions": (
        "cross_val_predict_dist",
        "expected_cost",
        "optimal_order",
        "predict_above",
        "predict_dist",
        "predict_interval",
        "predict_quantiles",
        "predict_std",
    ),
    "bdkn.model.updating": ("RowStatistics",),
    "bdkn.data.folds": ("RowNumberFolds",),
    "bdkn.ensemble.selection": ("CombinationOptions",),
    "bdkn.networks.settings": ("TrainingOptions",),
    "bdkn.data.sources": ("ArrayRows", "IteratorRows"),
    "bdkn.data.parquet": ("ParquetRows",),
    "bdkn.data.dask_rows": ("DaskRows",),
    "bdkn.networks.torch_engine": ("TorchEngine",),
}


def __getattr__(name: str) -> Any:
    """Import a public name of this package from its module, on first use."""
    from importlib import import_module
    from importlib.metadata import version

    if name == "__version__":
        return version("bdkn")
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'bdkn' has no attribute {name!r}; its names are {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
