"""All nine regressors keep one contract, beside scikit-learn's own."""

from importlib.util import find_spec

import pytest

import bdkn
from bdkn.regressors import REGRESSORS
from bdkn.testing import check_regressor

SMALL = {"n_members": 2, "hidden_layer_sizes": 8, "epochs": 10, "learning_rate": 0.01}
ONE = {"hidden_layer_sizes": 8, "epochs": 15, "learning_rate": 0.02, "n_jobs": 1}
MEMBERS = [("ensemble", bdkn.DeepEnsembleRegressor(**SMALL)), ("posterior", bdkn.BDKNRegressor(**SMALL, n_folds=2))]

MODELS = [
    bdkn.BDKNRegressor(**SMALL),
    bdkn.BDKNRegressor(**SMALL, design="hold-out"),
    bdkn.BDKNRegressor(**SMALL, design="in-sample"),
    bdkn.DeepEnsembleRegressor(**SMALL),
    bdkn.DeepEnsembleRegressor(**SMALL, predictive="gaussian"),
    bdkn.BayesianStackingRegressor(MEMBERS, cv=2),
    bdkn.GPRegressor(epochs=20, n_jobs=1),
    bdkn.GPRegressor(epochs=20, n_jobs=1, n_inducing=10),
    bdkn.DKLRegressor(**ONE),
    bdkn.DKLRegressor(**ONE, bounded=True),
    bdkn.BLLRegressor(**ONE),
    bdkn.BLLRegressor(**ONE, head="gaussian"),
    bdkn.LDBLLRegressor(**ONE, derivative_rows=20),
    bdkn.MFVIRegressor(**ONE, n_samples=10),
    bdkn.VBLLRegressor(**ONE),
]


def number(model):
    return MODELS.index(model)


def test_every_regressor_is_checked():
    assert {type(model).__name__ for model in MODELS} == set(REGRESSORS)


@pytest.mark.parametrize("name", REGRESSORS)
def test_no_class_derives_from_more_than_three_of_ours(name):
    assert sum(cls.__module__.startswith("bdkn.") for cls in REGRESSORS[name].__mro__) <= 4


@pytest.mark.no_cover
@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{type(model).__name__}{number(model)}")
def test_regressors_conform(model):
    for package in getattr(model, "packages", ()):
        if find_spec({"pyro-ppl": "pyro"}.get(package, package)) is None:
            pytest.skip(f"this needs {package}; run: pip install 'bdkn[baselines]'")
    check_regressor(model)
