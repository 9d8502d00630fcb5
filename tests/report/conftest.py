import pytest

from bdkn.regressors import BDKNRegressor, DeepEnsembleRegressor
from bdkn.report import ConstantGaussian, diabetes, fit_models

SMALL = {"n_members": 3, "hidden_layer_sizes": (8,), "epochs": 5, "engine": "reference", "random_state": 0}


@pytest.fixture(scope="session")
def trial():
    """Return a trial of small models, quickly fitted."""
    models = {
        "BDKN": BDKNRegressor(**SMALL),
        "Deep ensemble": DeepEnsembleRegressor(**SMALL),
        "Constant": ConstantGaussian(),
    }
    return fit_models(models, diabetes())
