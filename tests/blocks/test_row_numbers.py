"""Folds, chunks and samples as functions of a row's number."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bdkn import RowNumberFolds
from bdkn.data.rows import Rows
from bdkn.data.sample import MemberFolds, chunk_of, draw_sample, fold_of, group_numbers, hash_numbers, is_held_out


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**31))
def test_mixing_is_splitmix(number, salt):
    def scrambled(z):
        z = (z + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    assert int(hash_numbers(np.array([number], dtype=np.uint64), salt)[0]) == scrambled(number ^ scrambled(salt))


def test_folds_are_of_nearly_equal_size_and_independent_of_chunks_and_of_other_seeds():
    numbers = np.arange(100_000, dtype=np.uint64)
    one, other, chunk = fold_of(numbers, 5, 1), fold_of(numbers, 5, 2), chunk_of(numbers, 4)
    for pair in ((one, other), (one, chunk)):
        table = np.zeros((5, 5))
        np.add.at(table, pair, 1)
        expected = len(numbers) / table[table > 0].size
        # A chi-squared statistic with at most 24 degrees of freedom exceeds 60 with probability 1e-4.
        assert np.sum((table[table > 0] - expected) ** 2 / expected) < 60


def test_a_fraction_is_left_out_by_all_members():
    numbers = np.arange(100_000, dtype=np.uint64)
    held_out = is_held_out(numbers, 0.1, 0)
    assert abs(held_out.mean() - 0.1) < 0.005
    found = MemberFolds(1, (0, 0), 0.1).of(numbers)
    assert np.array_equal(found, np.where(held_out, 0, -1)[:, None].repeat(2, axis=1))


def test_equal_labels_have_equal_numbers_in_any_block():
    labels = np.array(["b", "a", "c", "a"])
    found = group_numbers(labels)
    assert found[1] == found[3]
    assert len(set(found.tolist())) == 3
    assert np.array_equal(group_numbers(labels[1:]), found[1:])
    assert np.array_equal(group_numbers(np.array([3, 1])), group_numbers(np.array([3, 1], dtype=np.int16)))


@given(st.integers(1, 300), st.integers(1, 64), st.integers(1, 100), st.integers(1, 5))
def test_the_sample_does_not_depend_on_blocks(n, step, size, weight_every):
    counts = (np.arange(n) % weight_every == 0).astype(float)
    rows = Rows(np.arange(n, dtype=float)[:, None], np.arange(n, dtype=float), counts)

    class Source:
        def __len__(self):
            return n

        def blocks(self, given=None):
            return rows.blocks(step)

    sample, whole = draw_sample(Source(), size), draw_sample(rows, size)
    assert np.array_equal(sample.numbers, whole.numbers)
    assert np.array_equal(sample.rows.y, sample.numbers.astype(float))
    assert np.array_equal(sample.rows.X[:, 0], sample.rows.y)
    assert len(sample.numbers) == min(size, sample.n)
    assert sample.n == counts.sum() == sample.total
    assert sample.is_complete == (size >= sample.n)


def test_a_splitter_of_row_numbers_keeps_groups_together():
    groups = np.repeat(np.arange(30), 3)
    folds = list(RowNumberFolds(3, random_state=4).split(np.zeros((90, 1)), groups=groups))
    assert RowNumberFolds(3).get_n_splits() == len(folds) == 3
    assert sorted(np.concatenate([held_out for _, held_out in folds]).tolist()) == list(range(90))
    for kept, held_out in folds:
        assert not set(groups[kept]) & set(groups[held_out])
