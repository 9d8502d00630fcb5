import numpy as np
import pytest

from bdkn.data.folds import seed_sequence
from bdkn.errors import InvalidParameterError


def first(seed):
    return np.random.default_rng(seed_sequence(seed)).random(4).tolist()


def test_an_integer_is_always_the_same_seed():
    assert first(3) == first(np.int64(3)) == np.random.default_rng(3).random(4).tolist()
    assert first(3) != first(4)


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_a_generator_advances(make):
    one, two = make(0), make(0)
    assert first(one) == first(two)
    assert first(one) != first(make(0))


def test_none_is_new_every_time():
    assert first(None) != first(None)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", np.random])
def test_other_seeds_are_refused(seed):
    with pytest.raises(
        InvalidParameterError, match=r"random_state must be None, an integer >= 0, a numpy\.random\.Generator"
    ):
        seed_sequence(seed)
