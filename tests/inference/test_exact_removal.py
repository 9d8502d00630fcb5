"""Rows that leave statistics: what counts as the same rows, whatever the units of the columns."""

from __future__ import annotations

import numpy as np
import pytest
from designs import problem

from bdkn.errors import InvalidParameterError
from bdkn.inference import Statistics
from bdkn.inference.statistics import Factor, remove


def triangle(rows):
    return np.linalg.qr(rows, mode="r")


def without(rows, k, error=0.0):
    """Return the Gram matrix of all rows but the first k, by removing those."""
    root = remove(triangle(rows), rows[:k].copy(order="F"), np.full(rows.shape[1], error))
    return root.T @ root


@pytest.mark.parametrize("sizes", [(1e-8, 1e8, 1.0), (1e8, 1e-8, 1.0), (1e-20,) * 3, (1e20,) * 3])
def test_the_units_of_columns_do_not_matter(sizes):
    rows = np.random.default_rng(0).normal(size=(12, 3))
    wanted = (rows[5:].T @ rows[5:]) * np.outer(sizes, sizes)
    np.testing.assert_allclose(without(rows * sizes, 5), wanted, rtol=1e-10)


def test_arguments_are_not_changed():
    rows = np.random.default_rng(0).normal(size=(8, 3))
    root, some = triangle(rows), rows[:3].copy()
    before = root.copy()
    remove(root, some, np.zeros(3))
    np.testing.assert_array_equal(root, before)
    np.testing.assert_array_equal(some, rows[:3])


def test_a_column_of_zeros_stays_one():
    rows = np.random.default_rng(0).normal(size=(8, 3)) * [1.0, 0.0, 1.0]
    root = remove(triangle(rows), rows[:3].copy(), np.zeros(3))
    np.testing.assert_allclose(root.T @ root, rows[3:].T @ rows[3:], atol=1e-13)


def test_numbers_whose_squares_vanish_take_nothing_away():
    rows = np.full((2, 2), 1e-200)
    np.testing.assert_array_equal(np.abs(remove(np.eye(2), rows, np.zeros(2))), np.eye(2))


def test_a_column_of_norm_one_is_gathered_too():
    root, rows = 3.0 * np.eye(2), np.array([[0.6, 1.0], [0.8, -1.0]])
    found = remove(root, rows, np.zeros(2))
    np.testing.assert_allclose(found.T @ found, 9.0 * np.eye(2) - rows.T @ rows, rtol=1e-14)


@pytest.mark.parametrize("small", [1e-8, -1e-8, 1e-5])
def test_a_column_that_is_nearly_one_entry_loses_no_digits(small):
    root, rows = 3.0 * np.eye(2), np.array([[1.0, 1.0], [small, 1.0]])
    found = remove(root, rows, np.zeros(2))
    wanted = 9.0 * np.eye(2) - rows.T @ rows
    np.testing.assert_allclose(found.T @ found, wanted, rtol=1e-14)


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_a_row_may_exceed_what_is_there_by_the_error_and_no_more(size):
    root, error = np.array([[size]]), np.array([1e-8 * size])
    assert remove(root, np.array([[size * (1.0 + 0.7e-8)]]), error) == 0.0
    with pytest.raises(InvalidParameterError, match="must be among those that were added"):
        remove(root, np.array([[size * (1.0 + 1.4e-8)]]), error)


@pytest.mark.parametrize("other", [5.0, -5.0])
def test_the_rest_of_a_row_is_bounded_by_its_pivot(other):
    with pytest.raises(InvalidParameterError, match="must be among those that were added"):
        remove(np.diag([1.0, 10.0]), np.array([[1.0, other]]), np.zeros(2))


def test_statistics_stay_as_they_were():
    Phi, y, _ = problem()
    stats = Statistics.from_rows(Phi, y)
    before = stats.root.copy()
    _ = stats - Statistics.from_rows(Phi[:5], y[:5])
    np.testing.assert_array_equal(stats.root, before)


def test_counts_that_add_up_but_for_rounding_leave_nothing():
    Phi, y = np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([3.0, 3.0])
    stats = Statistics.from_rows(Phi, y, counts=[1000.1, 2000.4], precision=[2.0, 2.0])
    other = Statistics.from_rows(Phi[:1], y[:1], counts=[1000.1 + 2000.4 + 5e-13], precision=[2.0])
    assert stats.n != other.n
    left = stats - other
    assert (left.n, left.sum_log_w) == (0.0, 0.0)
    np.testing.assert_array_equal(left.root, 0.0)
    np.testing.assert_array_equal(left.ref, 0.0)


@pytest.mark.parametrize("more", [0.5, 3.0])
def test_no_more_observations_leave_than_there_are(more):
    Phi, y = np.eye(2), np.ones(2)
    other = Statistics.from_rows(Phi, y, counts=[1.0, 1.0 + more])
    with pytest.raises(InvalidParameterError, match="the number of observations left must be"):
        Statistics.from_rows(Phi, y).remove(other)


def test_rows_of_other_weights_are_refused():
    stats = Statistics.from_rows(np.eye(2), np.ones(2))
    other = Statistics.from_rows(np.eye(3), np.ones(3))
    with pytest.raises(InvalidParameterError, match=r"^other must have 2 weights; got 3"):
        stats.remove(other)
    with pytest.raises(InvalidParameterError, match=r"^other must have 2 weights; got 3"):
        stats.merge(other)


@pytest.mark.parametrize("factors", [(0.5, 0.5), (1.0, 0.5)])
def test_as_many_rows_that_are_others_are_not_those(factors):
    with pytest.raises(InvalidParameterError, match="must be among those that were added"):
        Statistics.from_rows(np.eye(2), np.zeros(2)).remove(Statistics.from_rows(np.diag(factors), np.zeros(2)))


@pytest.mark.parametrize("sizes", [(1e-9, 1.0, 1e-3), (1e6, 1e6, 1e6), (1e-9, 1.0, 1e-9)])
def test_all_rows_but_for_small_differences_leave_nothing(sizes):
    rng = np.random.default_rng(1)
    common = rng.normal(size=20)
    Phi = np.column_stack([common, common + 0.05 * rng.normal(size=20), rng.normal(size=20)]) * sizes
    y = rng.normal(size=20)
    stats = Statistics.from_rows(Phi, y)
    near = Statistics(Factor(stats.root * (1.0 - 1e-10), stats.ref), stats.n, stats.sum_log_w)
    left = stats - near
    np.testing.assert_array_equal(left.root, 0.0)
    assert left.n == 0.0


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_an_exact_fit_leave_in_parts(seed):
    Phi, y, _ = problem(rows=20, weights=3, seed=seed, noise=0.0)
    stats, half = Statistics.from_rows(Phi, y), Statistics.from_rows(Phi[:10], y[:10])
    rest = stats - half
    assert rest.n == 10.0
    left = rest - Statistics.from_rows(Phi[10:], y[10:])
    assert left.n == 0.0
    np.testing.assert_array_equal(left.ref, np.zeros(3))


def test_other_targets_of_an_exact_fit_are_not_those():
    Phi, y, rng = problem(rows=20, weights=3, noise=1e-6)
    stats = Statistics.from_rows(Phi, y)
    assert np.any(stats.ref != 0.0)
    with pytest.raises(InvalidParameterError, match="must be among those that were added"):
        stats.remove(Statistics.from_rows(Phi[:10], y[:10] + 0.1 * rng.normal(size=10)))


def test_a_discount_of_one_changes_nothing_and_one_of_two_doubles():
    Phi, y, _ = problem()
    stats = Statistics.from_rows(Phi, y, precision=np.full(len(y), 3.0))
    assert stats.discount(1.0) is stats
    twice = stats.discount(2.0)
    assert (twice.n, twice.sum_log_w) == (2.0 * stats.n, 2.0 * stats.sum_log_w)
    np.testing.assert_allclose(twice.root.T @ twice.root, 2.0 * stats.root.T @ stats.root, rtol=1e-13, atol=1e-13)


def test_statistics_of_no_rows():
    empty = Statistics.empty(3)
    np.testing.assert_array_equal(empty.ref, np.zeros(3))
    assert Statistics.empty(3, 1).ref.shape == (3, 1)


@pytest.mark.parametrize("given", [(0,), (1.5,), (2, 0), (2, 1.5)])
def test_statistics_of_no_rows_need_whole_numbers(given):
    with pytest.raises(InvalidParameterError, match=r"^n_weights must be" if len(given) == 1 else "^n_targets must be"):
        Statistics.empty(*given)


@pytest.mark.parametrize("name", ["precision", "counts"])
def test_numbers_of_rows_are_named_and_widened(name):
    with pytest.raises(InvalidParameterError, match=f"^{name} must hold one number for each of 2 rows"):
        Statistics.from_rows(np.eye(2), np.ones(2), **{name: [1.0, 1.0, 1.0]})
    narrow = np.array([0.1, 0.3], np.float32)
    found = Statistics.from_rows(np.eye(2), np.ones(2), **{name: narrow})
    wanted = Statistics.from_rows(np.eye(2), np.ones(2), **{name: narrow.astype(np.float64)})
    np.testing.assert_array_equal(found.root, wanted.root)


def test_chunks_of_other_weights_are_refused():
    with pytest.raises(InvalidParameterError, match=r"^every chunk must have 2 weights; got 3"):
        Statistics.from_chunks([(np.eye(2), np.ones(2)), (np.eye(3), np.ones(3))])
