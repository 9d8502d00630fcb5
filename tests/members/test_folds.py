from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn.data.folds import Folds, OwnFolds, RowsWithout
from bdkn.errors import InvalidParameterError


@given(st.integers(2, 60), st.integers(2, 70), st.integers(0, 2**32 - 1))
def test_every_row_is_left_out_once_and_trained_on_otherwise(n, folds, seed):
    cross = Folds.cross(n, folds, np.random.default_rng(seed))
    assert len(cross) == min(n, folds)
    sizes = [len(held_out) for held_out in cross.held_out]
    assert max(sizes) - min(sizes) <= 1
    np.testing.assert_array_equal(np.sort(np.concatenate(cross.held_out)), np.arange(n))
    np.testing.assert_array_equal(cross.all_held_out, np.arange(n))
    for kept, held_out in cross:
        np.testing.assert_array_equal(np.sort(np.concatenate([kept, held_out])), np.arange(n))
        assert len(kept) >= 1
        assert (np.diff(kept) > 0).all()
        assert (np.diff(held_out) > 0).all()


@given(st.integers(2, 60), st.floats(0.001, 0.9), st.integers(0, 2**32 - 1))
def test_a_single_fold_holds_out_that_share(n, fraction, seed):
    single = Folds.single(n, fraction, np.random.default_rng(seed))
    ((kept, held_out),) = single
    assert len(single) == 1
    assert 1 <= len(held_out) <= n - 1
    assert abs(len(held_out) - n * fraction) <= 1
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, held_out])), np.arange(n))
    np.testing.assert_array_equal(single.all_held_out, held_out)


def test_rows_fall_into_folds_at_random():
    one, other = (Folds.cross(100, 5, np.random.default_rng(seed)).held_out[0] for seed in (0, 1))
    assert not np.array_equal(one, other)
    assert not np.array_equal(one, np.arange(20))
    again = Folds.cross(100, 5, np.random.default_rng(0)).held_out[0]
    np.testing.assert_array_equal(one, again)


def test_a_members_own_folds_follow_from_seed_and_name():
    def parts(name, entropy=1):
        return np.concatenate(OwnFolds(100, 5, entropy).of_member(name).held_out).tolist()

    assert parts("line") == parts("line")
    assert len({tuple(parts("line")), tuple(parts("tree")), tuple(parts("line", 2))}) == 3
    own = OwnFolds(7, 5, 1)
    np.testing.assert_array_equal(own.all_held_out, own.of_member("line").all_held_out)
    assert len(own.of_member("line")) == 5


@pytest.mark.parametrize(
    "fold",
    [
        lambda n, rng: Folds.cross(n, 5, rng),
        lambda n, rng: Folds.single(n, 0.1, rng),
        lambda n, rng: OwnFolds(n, 5, 0),
    ],
    ids=["cross", "single", "own"],
)
def test_one_row_cannot_be_left_out(fold):
    with pytest.raises(
        InvalidParameterError, match="takes at least 2 rows; got n_samples=1: add rows, or use design='in-sample'"
    ):
        fold(1, np.random.default_rng(0))


def test_rows_without_some_are_numbers_that_numpy_understands():
    held_out = np.array([0, 3, 4])
    rows = RowsWithout(6, held_out)
    assert len(rows) == 3
    np.testing.assert_array_equal(np.asarray(rows), [1, 2, 5])
    assert np.asarray(rows).dtype == np.int32
    np.testing.assert_array_equal(np.arange(10.0, 16.0)[rows], [11.0, 12.0, 15.0])
