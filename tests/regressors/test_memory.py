import tracemalloc

import numpy as np
import pytest
from quick import EACH

from bdkn.training.fused.engine import prepare


@pytest.mark.no_cover
@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_fit_adds_less_than_one_and_a_half_times_the_table(cls, order):
    prepare()
    rng = np.random.default_rng(0)
    X = np.asarray(rng.standard_normal((25_000, 90), dtype=np.float32), order=order)
    model = cls(n_members=2, hidden_layer_sizes=(4,), epochs=1, random_state=0)
    if hasattr(model, "density"):
        model.set_params(density="student-t")  # a forest of so many rows has a size of its own
    tracemalloc.start()
    try:
        model.fit(X, X[:, 0])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * X.nbytes
