from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from designs import assert_same, problem, problems
from hypothesis import given
from hypothesis import strategies as st

from bdkn.errors import InvalidParameterError
from bdkn.inference import Prior, Statistics, posterior


def gram(stats):
    """Return the Gram matrix of [Φ, y] that the statistics stand for."""
    H = stats.n_weights
    to_zero = np.eye(H + 1)
    to_zero[:H, H] = stats.ref
    seen = stats.root @ to_zero
    return seen.T @ seen


def test_root_is_triangular_and_has_the_gram_matrix_of_the_rows():
    Phi, y, rng = problem()
    w = rng.uniform(0.1, 10.0, len(y))
    stats = Statistics.from_rows(Phi, y, precision=w)
    A = np.column_stack([Phi, y]) * np.sqrt(w)[:, None]
    np.testing.assert_array_equal(stats.root, np.triu(stats.root))
    np.testing.assert_allclose(gram(stats), A.T @ A, rtol=1e-12)
    assert stats.n == len(y)
    np.testing.assert_allclose(stats.sum_log_w, np.sum(np.log(w)))


def test_plain_rows_need_no_reference():
    Phi, y, _ = problem(noise=0.3)
    np.testing.assert_array_equal(Statistics.from_rows(Phi, y).ref, 0.0)


def test_a_nearly_perfect_fit_gets_its_solution_as_reference():
    Phi, y, _ = problem(noise=1e-9)
    stats = Statistics.from_rows(Phi, y)
    np.testing.assert_allclose(stats.ref, np.linalg.lstsq(Phi, y)[0], rtol=1e-7)
    assert np.linalg.norm(stats.root[:, -1]) < 1e-7


def test_the_reference_stays_moderate_where_few_rows_and_equal_columns_would_make_it_huge():
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(2, 1)) + 1e-9 * rng.normal(size=(2, 2))
    assert np.max(np.abs(Statistics.from_rows(Phi, [1.0, -1.0]).ref)) < 100.0


def test_the_residual_norm_keeps_its_digits_when_a_later_chunk_fits_perfectly():
    rng = np.random.default_rng(3)
    Phi = np.column_stack([np.ones(400), rng.normal(size=400)])
    small = 1e-3 * rng.normal(size=400)
    offset = np.repeat([0.0, 1e6], 200)
    stats = Statistics.from_rows(Phi * np.where(offset, 1e6, 1e-6)[:, None], offset + small, chunk_rows=100)
    plain = np.linalg.lstsq(Phi[:200], small[:200])[1][0]
    assert stats.root[-1, -1] ** 2 >= plain * (1 - 1e-9)


@given(problems(), st.integers(1, 20))
def test_chunks_of_any_size_have_the_same_statistics(data, chunk_rows):
    Phi, y, _ = data
    assert_same(Statistics.from_rows(Phi, y, chunk_rows=chunk_rows), Statistics.from_rows(Phi, y))


def test_chunks_may_come_from_a_generator_with_and_without_weights():
    Phi, y, rng = problem()
    w, c = rng.uniform(0.5, 2.0, 10), rng.integers(0, 3, 10)
    chunks = ((Phi[:10], y[:10]), (Phi[10:20], y[10:20], w), (Phi[20:], y[20:], w, c))
    streamed = Statistics.from_chunks(chunk for chunk in chunks)
    precision = np.concatenate([np.ones(10), w, w])
    counts = np.concatenate([np.ones(20), c])
    assert_same(streamed, Statistics.from_rows(Phi, y, precision=precision, counts=counts))


@given(problems())
def test_one_row_at_a_time_equals_all_at_once(data):
    Phi, y, _ = data
    each = [Statistics.from_rows(Phi[i : i + 1], y[i : i + 1]) for i in range(len(y))]
    assert_same(reduce(Statistics.merge, each, Statistics.empty(Phi.shape[1])), Statistics.from_rows(Phi, y))


@given(problems(min_rows=3))
def test_merge_in_any_order_and_any_grouping(data):
    Phi, y, rng = data
    cuts = np.sort(rng.integers(0, len(y) + 1, 2))
    a, b, c = (Statistics.from_rows(p, t) for p, t in zip(np.split(Phi, cuts), np.split(y, cuts), strict=True))
    whole = Statistics.from_rows(Phi, y)
    for merged in (a + b + c, c + b + a, a + (c + b), (b + a) + c):
        assert_same(merged, whole)


@given(problems())
def test_permuting_rows_changes_nothing(data):
    Phi, y, rng = data
    order = rng.permutation(len(y))
    assert_same(Statistics.from_rows(Phi[order], y[order]), Statistics.from_rows(Phi, y))


@given(problems(min_rows=2))
def test_counts_are_repetitions(data):
    Phi, y, rng = data
    w, c = rng.uniform(0.1, 10.0, len(y)), rng.integers(0, 4, len(y))
    counted = Statistics.from_rows(Phi, y, precision=w, counts=c)
    repeated = Statistics.from_rows(np.repeat(Phi, c, axis=0), np.repeat(y, c), precision=np.repeat(w, c))
    assert_same(counted, repeated)


def test_a_number_stands_for_one_weight_for_all_rows():
    Phi, y, _ = problem()
    assert_same(
        Statistics.from_rows(Phi, y, precision=4.0, counts=2.0),
        Statistics.from_rows(Phi, y, precision=np.full(len(y), 4.0), counts=np.full(len(y), 2)),
    )


def test_float32_features_give_what_their_widened_values_give():
    Phi, y, _ = problem()
    narrow = Phi.astype(np.float32)
    np.testing.assert_array_equal(
        Statistics.from_rows(narrow, y).root, Statistics.from_rows(narrow.astype(np.float64), y).root
    )


def test_no_rows_and_empty_chunks_are_the_empty_statistics():
    stats = Statistics.from_rows(np.empty((0, 3)), np.empty(0))
    assert (stats.n, stats.sum_log_w) == (0.0, 0.0)
    np.testing.assert_array_equal(stats.root, Statistics.empty(3).root)
    Phi, y, _ = problem(weights=3)
    assert_same(stats + Statistics.from_rows(Phi, y), Statistics.from_rows(Phi, y))


def test_inputs_are_left_as_they_were():
    Phi, y, _ = problem(noise=1e-9)
    before = Phi.copy(), y.copy()
    stats = Statistics.from_rows(np.asfortranarray(Phi), y)
    root = stats.root.copy()
    _ = stats + stats, (stats + stats) - stats, posterior(stats, Prior.isotropic(4, 1.0))
    np.testing.assert_array_equal(Phi, before[0])
    np.testing.assert_array_equal(y, before[1])
    np.testing.assert_array_equal(stats.root, root)


class TestRemove:
    @given(problems(min_rows=2))
    def test_undoes_merge(self, data):
        Phi, y, _ = data
        k = len(y) // 2
        kept, gone = Statistics.from_rows(Phi[:k], y[:k]), Statistics.from_rows(Phi[k:], y[k:])
        left = (kept + gone) - gone
        assert left.n == kept.n
        # The squares of the columns are what rounding is relative to: they were larger before the removal.
        before = gram(kept + gone)
        sizes = np.sqrt(np.outer(np.diag(before), np.diag(before)))
        share = np.abs(np.diag(kept.root)) / (np.abs(np.diag((kept + gone).root)) + 1e-300)
        atol = 1e-10 + 1e-14 / np.min(share[share > 1e-7], initial=1.0) ** 2
        np.testing.assert_allclose(gram(left) / (sizes + 1e-300), gram(kept) / (sizes + 1e-300), atol=atol)

    def test_a_well_determined_remainder_keeps_its_digits(self):
        Phi, y, _ = problem(rows=60)
        kept, gone = Statistics.from_rows(Phi[:40], y[:40]), Statistics.from_rows(Phi[40:], y[40:])
        assert_same((kept + gone).remove(gone), kept, rtol=1e-12)

    def test_one_row_after_another_with_a_large_offset(self):
        Phi, y, _ = problem(rows=100, weights=2)
        Phi[:, 0], y = 1.0, 1e6 + 1e-3 * y
        rest = Statistics.from_rows(Phi, y)
        for i in range(60):
            rest = rest - Statistics.from_rows(Phi[i : i + 1], y[i : i + 1])
        whole = Statistics.from_rows(Phi[60:], y[60:])
        np.testing.assert_allclose(abs(rest.root[-1, -1]), abs(whole.root[-1, -1]), rtol=1e-5)

    def test_all_rows_leaves_the_empty_statistics(self):
        Phi, y, rng = problem()
        w = rng.uniform(0.5, 2.0, len(y))
        nothing = Statistics.from_rows(Phi, y, precision=w) - Statistics.from_rows(Phi, y, precision=w)
        assert (nothing.n, nothing.sum_log_w) == (0.0, 0.0)
        assert not nothing.root.any()

    def test_equal_columns_stay_equal(self):
        Phi, y, _ = problem(rows=20)
        Phi[:, 2] = Phi[:, 0]
        kept, gone = Statistics.from_rows(Phi[:12], y[:12]), Statistics.from_rows(Phi[12:], y[12:])
        assert_same((kept + gone) - gone, kept, rtol=1e-8)

    def test_a_remainder_with_a_small_column_is_not_taken_for_rows_never_added(self):
        Phi, y, _ = problem(rows=5, weights=2)
        for small in 10.0 ** np.arange(-7.0, 0.0, 0.1):
            Phi[:2, 0] *= small / np.abs(Phi[:2, 0]).max()
            kept, gone = Statistics.from_rows(Phi[:2], y[:2]), Statistics.from_rows(Phi[2:], y[2:])
            left = (kept + gone) - gone
            np.testing.assert_allclose(gram(left), gram(kept), atol=1e-6 + 1e-14 / small**2)

    @pytest.mark.parametrize("what", ["features", "targets", "too many"])
    def test_rows_that_were_never_added_are_refused(self, what):
        Phi, y, _ = problem(rows=8)
        other = {
            "features": (Phi + 5.0, y),
            "targets": (Phi, y + 5.0),
            "too many": (np.tile(Phi, (2, 1)), np.tile(y, 2)),
        }
        with pytest.raises(InvalidParameterError, match=r"must be among those|observations left must be"):
            Statistics.from_rows(Phi, y) - Statistics.from_rows(*other[what])

    def test_a_foreign_row_along_a_vanishing_direction_is_refused(self):
        stats = Statistics.from_rows([[1.0, 5.0], [0.0, 1.0]], [0.0, 0.0])
        with pytest.raises(InvalidParameterError, match="must be among those that were added"):
            stats - Statistics.from_rows([[1.0, 3.0]], [0.0])


class TestRefusals:
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
    @pytest.mark.parametrize("where", ["Phi", "y"])
    def test_values_that_are_not_finite_or_overflow(self, bad, where):
        Phi, y, _ = problem()
        if where == "Phi":
            Phi[3, 1] = bad
        else:
            y[3] = bad
        with pytest.raises(InvalidParameterError, match="Phi and y must be finite"):
            Statistics.from_rows(Phi, y)

    @pytest.mark.parametrize(
        ("Phi", "y"), [(np.ones(3), np.ones(3)), (np.ones((3, 2)), np.ones(2)), (np.ones((3, 0)), np.ones(3))]
    )
    def test_shapes(self, Phi, y):
        with pytest.raises(InvalidParameterError, match=r"Phi must be \(rows, weights\) and y \(rows,\)"):
            Statistics.from_rows(Phi, y)

    @pytest.mark.parametrize("precision", [0.0, -1.0, np.nan, np.inf])
    def test_precision(self, precision):
        with pytest.raises(InvalidParameterError, match="precision must be finite and > 0; got"):
            Statistics.from_rows(np.ones((2, 1)), np.ones(2), precision=[1.0, precision])

    @pytest.mark.parametrize("count", [-1.0, np.nan, np.inf])
    def test_counts(self, count):
        with pytest.raises(InvalidParameterError, match="counts must be finite and >= 0; got"):
            Statistics.from_rows(np.ones((2, 1)), np.ones(2), counts=[1.0, count])

    def test_weights_of_another_length(self):
        with pytest.raises(InvalidParameterError, match="counts must hold one number for each of 2 rows"):
            Statistics.from_rows(np.ones((2, 1)), np.ones(2), counts=np.ones(3))

    def test_no_chunks(self):
        with pytest.raises(InvalidParameterError, match="at least one"):
            Statistics.from_chunks([])

    def test_chunks_and_statistics_about_different_weights(self):
        with pytest.raises(InvalidParameterError, match="every chunk must have 2 weights; got 3"):
            Statistics.from_chunks([(np.ones((2, 2)), np.ones(2)), (np.ones((2, 3)), np.ones(2))])
        with pytest.raises(InvalidParameterError, match="other must have 2 weights; got 3"):
            Statistics.empty(2) + Statistics.empty(3)

    def test_chunk_rows(self):
        with pytest.raises(InvalidParameterError, match="chunk_rows must be an integer >= 1; got -1"):
            Statistics.from_rows(np.ones((2, 1)), np.ones(2), chunk_rows=-1)
