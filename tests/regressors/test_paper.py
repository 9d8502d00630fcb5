import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from bdkn import CombinationOptions, TrainingOptions
from bdkn.errors import InvalidParameterError
from bdkn.estimators import BDKNRegressor, DeepEnsembleRegressor
from bdkn.metrics import rmse

SHARED = {
    "n_members": 5,
    "hidden_layer_sizes": (50, 50),
    "activation": "relu",
    "objective": "nll",
    "weight_decay": 0.0,
    "n_bins": 0,
    "training": TrainingOptions(
        warmup_epochs=0, schedule="constant", batch_size=32, standardize_y=False, early_stopping=False
    ),
}


@pytest.mark.parametrize(
    ("cls", "extra"),
    [
        (
            BDKNRegressor,
            {"design": "in-sample", "combination": CombinationOptions(prior_variance="paper"), "target": "identity"},
        ),
        (DeepEnsembleRegressor, {"predictive": "gaussian"}),
    ],
)
@pytest.mark.parametrize(
    ("setting", "differs"),
    [(1, {"learning_rate": 0.1, "epochs": 40}), (2, {"learning_rate": 1e-3, "epochs": 500})],
)
def test_the_settings_of_the_paper(cls, extra, setting, differs):
    params = cls.from_paper(setting).get_params()
    assert (SHARED | differs | extra).items() <= params.items()
    untouched = params.keys() - SHARED.keys() - differs.keys() - extra.keys()
    assert {name: params[name] for name in untouched} == {name: cls().get_params()[name] for name in untouched}


def test_setting_one_is_the_default_and_anything_can_be_overridden():
    model = BDKNRegressor.from_paper(
        random_state=3, epochs=7, combination=CombinationOptions(prior_variance="evidence")
    )
    assert (model.learning_rate, model.random_state, model.epochs, model.combination.prior_variance) == (
        0.1,
        3,
        7,
        "evidence",
    )


def test_there_are_two_settings():
    with pytest.raises(InvalidParameterError, match=r"setting must be 1 \(rate 0.1, 40 epochs\) or 2 .*; got 3"):
        BDKNRegressor.from_paper(3)


def yacht():
    folder = os.environ.get("BDKN_DATA")
    if not folder:
        pytest.skip("set BDKN_DATA to the folder that holds yacht.csv.gz to compare with the paper's table")
    with gzip.open(Path(folder) / "yacht.csv.gz", "rt") as file:
        values = np.loadtxt(file, delimiter=",", skiprows=1)
    return values[:, :-1], values[:, -1]


def splits(n, count):
    """Yield training and test rows of the customary splits."""
    generator = np.random.RandomState(1)
    for _ in range(count):
        rows = generator.choice(range(n), n, replace=False)
        yield rows[: round(n * 0.9)], rows[round(n * 0.9) :]


@pytest.mark.no_cover
def test_yacht_is_near_the_paper():
    X, y = yacht()
    errors = []
    for train, test in splits(len(y), 6):
        model = BDKNRegressor.from_paper(1, random_state=0).fit(X[train], y[train])
        errors.append(rmse(y[test], model.predict_dist(X[test])))
    assert np.mean(errors) == pytest.approx(0.82, abs=0.3)
