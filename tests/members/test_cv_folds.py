"""Folds that a cross-validation says."""

import numpy as np
import pytest

from bdkn.data.folds import Folds
from bdkn.errors import InvalidParameterError

SPLITS = [([0, 1, 2], [4, 3]), ([3, 4], [0, 1])]


def test_the_rows_to_train_on_are_those_given():
    folds = Folds.of(6, SPLITS)
    (kept, held_out), (others, rest) = folds
    assert (kept.tolist(), held_out.tolist()) == ([0, 1, 2], [3, 4])
    assert (others.tolist(), rest.tolist()) == ([3, 4], [0, 1])
    assert folds.all_held_out.tolist() == [0, 1, 3, 4]
    assert len(folds) == 2


def test_folds_of_some_rows_are_numbered_from_zero():
    folds = Folds.of(6, SPLITS).only(np.array([1, 2, 4, 5]))
    assert folds.n == 4
    assert [(kept.tolist(), held_out.tolist()) for kept, held_out in folds] == [([0, 1], [2]), ([2], [0])]
    fewer = Folds.of(6, SPLITS).only(np.array([3, 4, 5]))
    assert [(kept.tolist(), held_out.tolist()) for kept, held_out in fewer] == [([], [0, 1])]


def test_no_row_is_left_out_twice():
    with pytest.raises(InvalidParameterError, match="cv must hold out no row twice, as every row is predicted once"):
        Folds.of(4, [([0, 1], [2, 3]), ([0], [1, 2])])


def test_everything_can_be_left_out():
    ((kept, held_out),) = Folds.everything(3)
    assert (kept.tolist(), held_out.tolist()) == ([], [0, 1, 2])


@pytest.mark.parametrize("split", [([0.5], [1.5]), ([[0]], [[1]]), ([0], [1], [2]), [0, 1], 3])
def test_a_split_is_a_pair_of_lists_of_row_numbers(split):
    with pytest.raises(InvalidParameterError, match="got something else in place of a pair"):
        Folds.of(4, [split])


def test_folds_that_train_on_fewer_than_half_of_the_rows_are_noticed():
    assert not Folds.of(7, [([0, 1, 2], [3]), ([3, 4, 5, 6], [0])]).trains_on_few  # all but one row, halved
    assert Folds.of(8, [([0, 1, 2], [3]), ([3, 4, 5, 6], [0])]).trains_on_few
    assert not Folds.of(8, [([0, 1, 2, 3], [4]), ([4, 5, 6, 7], [0])]).trains_on_few
