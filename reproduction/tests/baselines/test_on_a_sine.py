"""Every method on a sine: better than a constant, and honest about the noise."""

import numpy as np
import pytest
from sine import sine

from bdkn.metrics import coverage, nll, rmse
from bdkn.predictive import Gaussian
from bdkn_paper import BLLRegressor, DKLRegressor, GPRegressor, LDBLLRegressor, MFVIRegressor, VBLLRegressor

MODELS = [
    GPRegressor(),
    DKLRegressor(epochs=300),
    BLLRegressor(epochs=150),
    BLLRegressor(epochs=300, head="gaussian"),
    LDBLLRegressor(epochs=60),
    MFVIRegressor(hidden_layer_sizes=20, learning_rate=0.02, batch_size=None, epochs=700, early_stopping=False),
    VBLLRegressor(epochs=60, learning_rate=0.01),
]


@pytest.mark.no_cover
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_it_beats_a_constant_and_covers(model):
    (X, y), (X_test, y_test) = sine(300), sine(3000, seed=1)
    dist = model.set_params(random_state=0, n_jobs=1).fit(X, y).predict_dist(X_test)
    constant = Gaussian(np.full(len(y_test), y.mean()), y.std())
    assert rmse(y_test, dist) < 0.4 * rmse(y_test, constant)
    assert nll(y_test, dist) < nll(y_test, constant) - 0.7
    assert coverage(y_test, dist, 0.9) == pytest.approx(0.9, abs=0.05)
