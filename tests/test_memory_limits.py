"""What does not fit into memory is refused before it is computed."""

from __future__ import annotations

import numpy as np
import pytest

from bdkn import BDKNRegressor, DeepEnsembleRegressor, Gaussian
from bdkn.errors import InvalidParameterError
from bdkn.memory import check_memory, memory_limit

X, Y = np.linspace(0.0, 1.0, 20)[:, None], np.linspace(0.0, 1.0, 20)


@pytest.mark.parametrize("cls", [BDKNRegressor, DeepEnsembleRegressor])
def test_a_million_members_are_refused_at_once(cls):
    with pytest.raises(
        InvalidParameterError, match=r"10000000 members of .* would take about .* GB of memory; .* fewer"
    ):
        cls(n_members=10**7, epochs=1).fit(X, Y)


@pytest.mark.parametrize("wrong", [{"hidden_layer_sizes": 10**12}, {"epochs": 10**15}])
def test_so_are_networks_and_epochs_that_do_not_fit(wrong):
    with pytest.raises(InvalidParameterError, match="of memory; there are"):
        BDKNRegressor(**{"n_members": 2, "epochs": 1, **wrong}).fit(X, Y)


def test_draws_that_do_not_fit_are_refused():
    with pytest.raises(InvalidParameterError, match=r"size=1000000000000 draws of 1 rows would take about 8,000 GB"):
        Gaussian([0.0], [1.0]).rvs(10**12)


def test_small_sizes_are_never_refused_and_the_limit_is_known_here():
    check_memory("this", 1e6, "nothing")
    limit = memory_limit()
    assert limit is None or limit > 1e8
    if limit is not None:
        with pytest.raises(InvalidParameterError, match="this would take about"):
            check_memory("this", 10.0 * limit, "use less")
