"""A wrong parameter is named, with what is allowed and what was given."""

import copy
import pickle
import re
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from quick import DESIGNS, EACH, QUICK, grouped, table
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

import bdkn
from bdkn.errors import InvalidParameterError
from bdkn.estimators import BayesianStackingRegressor, BDKNRegressor, DeepEnsembleRegressor

X, y = table(20)

WRONG = [
    ({"n_members": 0}, "n_members must be an integer >= 1; got 0"),
    ({"n_members": 2.5}, "n_members must be an integer >= 1; got 2.5"),
    ({"hidden_layer_sizes": "50"}, "hidden_layer_sizes, if a string, must be 'auto'; got '50'"),
    ({"hidden_layer_sizes": None}, 'hidden_layer_sizes must be an integer, a list of them, or "auto"; got None'),
    ({"hidden_layer_sizes": (50, 0)}, "each of hidden_layer_sizes must be an integer >= 1; got 0"),
    ({"activation": "rely"}, "activation must be one of 'relu', .*; got 'rely'; did you mean 'relu'"),
    ({"objective": "mae"}, "objective must be one of 'nll', 'beta_nll', 'mse'; got 'mae'"),
    ({"beta": 2}, "beta must be a number >= 0 and <= 1; got 2"),
    ({"warmup_epochs": -1}, "warmup_epochs must be an integer >= 0; got -1"),
    ({"epochs": 0}, "epochs must be an integer >= 1; got 0"),
    ({"learning_rate": 0}, "learning_rate must be a number > 0; got 0"),
    ({"learning_rate": float("nan")}, "learning_rate must be a number > 0; got nan"),
    ({"schedule": "linear"}, "schedule must be one of 'constant', 'cosine'; got 'linear'"),
    ({"batch_size": 0}, "batch_size must be an integer >= 1; got 0"),
    ({"weight_decay": -1}, "weight_decay must be a number >= 0; got -1"),
    ({"weight_decay": (0.1, -1.0)}, "weight_decay must be a number >= 0; got -1"),
    ({"weight_decay": ()}, r"weight_decay must be one value, or a list of values to take in turn; got \(\)"),
    (
        {"weight_decay": [[0.1]]},
        r"weight_decay must be one value, or a list of values to take in turn; got \[\[0\.1\]\]",
    ),
    ({"epochs": "many"}, "epochs, if a string, must be 'auto'; got 'many'"),
    ({"n_members": "some"}, "n_members, if a string, must be 'auto'; got 'some'"),
    ({"early_stopping": "yes"}, "early_stopping must be True or False; got 'yes'"),
    ({"validation_fraction": 0}, "validation_fraction must be a number > 0 and <= 0.9; got 0"),
    ({"patience": 0}, "patience must be an integer >= 1; got 0"),
    ({"tol": -1}, "tol must be a number >= 0; got -1"),
    ({"standardize_y": None}, "standardize_y must be True or False; got None"),
    ({"engine": "fussed"}, "engine must be one of 'fused', .*; got 'fussed'; did you mean 'fused'"),
    ({"engine": 3}, "engine must be a name or an object with a method train; got 3"),
    ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0; got 0"),
    ({"n_jobs": 1.5}, "n_jobs must be None or an integer other than 0; got 1.5"),
    ({"random_state": -1}, "random_state must be None, an integer >= 0"),
    ({"verbose": -1}, "verbose must be an integer >= 0; got -1"),
]


@pytest.mark.parametrize("cls", [*EACH, BayesianStackingRegressor])
@pytest.mark.parametrize(("given", "message"), WRONG, ids=str)
def test_shared_parameters(cls, given, message):
    with pytest.raises(InvalidParameterError, match=message):
        cls(**grouped(**given)).fit(X, y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("best", "prior_variance must be one of 'evidence', 'paper'; got 'best'"),
        (0, "prior_variance must be a number >= 1e-100 and <= 1e+100; got 0"),
        (None, "prior_variance must be a number >= 1e-100 and <= 1e+100; got None"),
        (float("inf"), "prior_variance must be a number >= 1e-100 and <= 1e+100 and finite; got inf"),
    ],
)
def test_evidence(given, message):
    with pytest.raises(InvalidParameterError, match=re.escape(message)):
        BDKNRegressor(combination=bdkn.CombinationOptions(prior_variance=given)).fit(X, y)


def test_predictive():
    with pytest.raises(InvalidParameterError, match="predictive must be one of 'mixture', 'gaussian'; got 'normal'"):
        DeepEnsembleRegressor(predictive="normal").fit(X, y)


@pytest.mark.parametrize("cls", EACH)
def test_positional_and_unknown_parameters_are_refused(cls):
    with pytest.raises(TypeError, match="positional"):
        cls("networks", 5)
    with pytest.raises(TypeError, match="epoch"):
        cls(epoch=5)


@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize("sizes", [16, np.int64(16), [16], np.array([16])])
def test_ways_to_give_layer_sizes(cls, sizes):
    model = cls(**grouped(**{**QUICK, "hidden_layer_sizes": sizes})).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), cls(**grouped(**QUICK)).fit(X, y).predict(X))


@pytest.mark.parametrize("cls", EACH)
def test_numpy_flags_and_numbers_are_fine(cls):
    flags = {"early_stopping": np.True_, "standardize_y": np.False_, "n_jobs": np.int64(1), "verbose": False}
    numbers = {"weight_decay": np.float32(0.01), "tol": np.float64(1e-4)}
    cls(**grouped(**{**QUICK, **flags, **numbers})).fit(X, y)


OPTIONS = {
    "training": bdkn.TrainingOptions(tol=0.5, early_stopping=True),
    "combination": bdkn.CombinationOptions(tempering=0.5, tails="posterior"),
}


@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize(
    "wrong", [{}, {"tol": 0.5}, True, "auto", 3, bdkn.TrainingOptions, OPTIONS["combination"], (0.5,)], ids=str
)
def test_training_must_be_options_of_training(cls, wrong):
    with pytest.raises(InvalidParameterError, match=r"training must be None or bdkn\.TrainingOptions\(\.\.\.\); got "):
        cls(training=wrong).fit(X, y)


@pytest.mark.parametrize("members", ["networks", [("line", Ridge())]], ids=str)
@pytest.mark.parametrize(
    "wrong", [{}, {"tails": "loo"}, False, "auto", 3, bdkn.CombinationOptions, OPTIONS["training"]], ids=str
)
def test_combination_must_be_options_of_the_combination(members, wrong):
    message = r"combination must be None or bdkn\.CombinationOptions\(\.\.\.\); got "
    with pytest.raises(InvalidParameterError, match=message):
        BDKNRegressor(members, combination=wrong).fit(X, y)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_are_values(options):
    first = fields(options)[0].name
    assert options == copy.deepcopy(options) == pickle.loads(pickle.dumps(options)) != type(options)()
    with pytest.raises(FrozenInstanceError):
        setattr(options, first, 3)
    with pytest.raises(TypeError, match="positional"):
        type(options)(getattr(options, first))
    with pytest.raises(TypeError, match="zeal"):
        type(options)(zeal=3)


@pytest.mark.parametrize("cls", [BDKNRegressor, bdkn.BayesianStackingRegressor])
@pytest.mark.parametrize("members", ["networks", "auto", ("networks", "linear"), [("line", Ridge(3.0))]], ids=str)
def test_parameters_are_kept_by_clones_pickles_and_set_params(cls, members):
    given = {"members": members, "cv": KFold(3), **OPTIONS}
    model = cls(**given)
    copies = {
        "clone": clone(model),
        "pickle": pickle.loads(pickle.dumps(model)),
        "set": cls().set_params(**given),
        "made": cls(**model.get_params(deep=False)),
    }
    for name, made in copies.items():
        assert type(made) is cls
        assert str(made.get_params()) == str(model.get_params()), name
        assert {key: getattr(made, key) for key in OPTIONS} == OPTIONS, name
    if isinstance(members, list):
        assert model.get_params()["line__alpha"] == 3.0
        assert clone(model).set_params(line__alpha=2.0).get_params()["line__alpha"] == 2.0
        assert copies["clone"].members[0][1] is not members[0][1]
    else:
        assert set(model.get_params()) == set(model.get_params(deep=False))


def test_a_fitted_regressor_with_options_is_cloned_and_pickled():
    model = BDKNRegressor(**grouped(**QUICK, tempering=0.5)).fit(X, y)
    same = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    assert same.get_params() == model.get_params()
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))
    assert model.combination_.tempering == 0.5


def test_attributes_of_networks_and_of_estimators_are_there_for_those_alone():
    networks = BDKNRegressor(**grouped(**QUICK)).fit(X, y)
    line = BDKNRegressor([("line", Ridge())], random_state=0).fit(X, y)
    for model, other, names in (
        (networks, line, ("ensemble_", "loss_curves_", "n_iter_", "member_scores_")),
        (line, networks, ("estimators_", "named_estimators_", "candidates_", "folds_")),
    ):
        assert all(hasattr(model, name) and not hasattr(other, name) for name in names)


@pytest.mark.parametrize("design", DESIGNS)
def test_networks_take_no_metadata(design):
    with pytest.raises(InvalidParameterError, match="fit has no parameter 'flavour' for networks"):
        BDKNRegressor(**grouped(**QUICK, design=design)).fit(X, y, flavour=1)


def test_network_parameters_of_both_regressors_are_the_same():
    classes = BDKNRegressor, DeepEnsembleRegressor
    given, of_ensemble = ({field.name: (field.type, field.default) for field in fields(cls)} for cls in classes)
    shared = given.keys() & of_ensemble.keys()
    assert {"n_members", "objective", "training", "engine", "random_state"} <= shared
    assert of_ensemble.keys() - shared == {"predictive"}
    assert {name: given[name] for name in shared} == {name: of_ensemble[name] for name in shared}
