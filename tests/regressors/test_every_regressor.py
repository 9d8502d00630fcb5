"""All regressors keep one contract, beside scikit-learn's own."""

import pytest

import bdkn
from bdkn.estimators import REGRESSORS
from bdkn.testing import check_regressor

SMALL = {"n_members": 2, "hidden_layer_sizes": 8, "epochs": 10, "learning_rate": 0.01}
MEMBERS = [("ensemble", bdkn.DeepEnsembleRegressor(**SMALL)), ("posterior", bdkn.BDKNRegressor(**SMALL, cv=2))]

MODELS = [
    bdkn.BDKNRegressor(**SMALL),
    bdkn.BDKNRegressor(**SMALL, design="hold-out"),
    bdkn.BDKNRegressor(**SMALL, design="in-sample"),
    bdkn.DeepEnsembleRegressor(**SMALL),
    bdkn.DeepEnsembleRegressor(**SMALL, predictive="gaussian"),
    bdkn.BayesianStackingRegressor(MEMBERS, cv=2),
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
    check_regressor(model)
