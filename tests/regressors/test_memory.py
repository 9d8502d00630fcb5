import tracemalloc

import numpy as np
import pytest
from quick import grouped
from sklearn.base import clone

from bdkn import BDKNRegressor, DeepEnsembleRegressor
from bdkn.networks.fused import prepare

# Neither what is chosen from predictions nor a forest, whose size is its own, depends on the table; both take long.
BRIEF = {"select_members": False, "tempering": 1.0, "tails": "posterior", "density": "student-t"}
MODELS = [BDKNRegressor(**grouped(**BRIEF)), BDKNRegressor(design="in-sample"), DeepEnsembleRegressor()]


@pytest.mark.no_cover
@pytest.mark.parametrize("model", MODELS, ids=["cross-fit", "in-sample", "deep ensemble"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_fit_adds_less_than_one_and_a_half_times_the_table(model, order):
    prepare()
    rng = np.random.default_rng(0)
    X = np.asarray(rng.standard_normal((60_000, 180), dtype=np.float32), order=order)
    model = clone(model).set_params(n_members=2, hidden_layer_sizes=(4,), epochs=1, random_state=0)
    tracemalloc.start()
    try:
        model.fit(X, X[:, 0])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * X.nbytes
