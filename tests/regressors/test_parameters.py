"""A wrong parameter is named, with what is allowed and what was given."""

import re

import numpy as np
import pytest
from quick import EACH, QUICK, grouped, table

import bdkn
from bdkn.errors import InvalidParameterError
from bdkn.estimators import BDKNRegressor, DeepEnsembleRegressor

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


@pytest.mark.parametrize("cls", EACH)
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
