"""Where training rows lie, and how far other rows are from them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from bdkn.model.extrapolation import Columns, Support, gate, nearest_number, similarity_matrix


def uniform(n=80, p=3, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, p))


def ratio(support, X):
    """Return the ratio of each row of a table."""
    return support.nearest(support.place(X)[1])[1]


@given(n=st.integers(1, 60), p=st.integers(1, 4), seed=st.integers(0, 99), grid=st.sampled_from([0.0, 0.5, 2.0]))
def test_training_rows_have_distance_zero_and_others_one_that_grows_without_bound(n, p, seed, grid):
    X = np.random.default_rng(seed).normal(size=(n, p))
    X = np.round(X / grid) * grid if grid else X
    support = Support.fit(X)
    np.testing.assert_array_equal(ratio(support, X), 0.0)
    ray = np.random.default_rng(seed + 1).normal(size=p)
    far = [ratio(support, (X.mean(axis=0) + t * ray)[None])[0] for t in (1e5, 1e6)]
    assert far[1] > 9 * far[0] > 9


@given(seed=st.integers(0, 99), shift=st.floats(-1e3, 1e3), unit=st.floats(1e-6, 1e6))
def test_the_units_of_columns_do_not_matter(seed, shift, unit):
    X, new = uniform(40, 2, seed), 3 * uniform(9, 2, seed + 1)
    units = np.array([1.0, unit])
    before = ratio(Support.fit(X), new)
    moved = ratio(Support.fit(shift * units + units * X), shift * units + units * new)
    np.testing.assert_allclose(moved, before, rtol=1e-6, atol=1e-6)


def test_the_ratio_is_the_distance_over_that_between_rows():
    X, new = uniform(50, 2), 2 * uniform(30, 2, 1)
    support = Support.fit(X)
    Z, scale = (X - support.columns.center) / support.columns.scale, support.columns.scale
    apart = np.linalg.norm(Z[:, None] - Z, axis=2) + np.diag(np.full(len(Z), np.inf))
    typical = np.quantile(apart.min(axis=1), 0.9)
    by_hand = np.linalg.norm((new[:, None] - X) / scale, axis=2).min(axis=1) / typical
    np.testing.assert_allclose(ratio(support, new), by_hand, rtol=1e-3)  # rows are rounded to 1e-4 for it


def test_of_many_rows_prototypes_are_kept_and_no_training_row_is_outside():
    X = uniform(30_000, 2)
    X[17] = 1e5, -3e5
    support = Support.fit(X)
    assert len(support.prototypes) <= 1024
    assert ratio(support, X).max() <= 1.0 + 1e-12
    assert ratio(support, np.array([[2.0, 0.0]]))[0] > 2.0, "an outlier does not hide other rows"


def test_repeated_rows_and_repeated_values_count_once():
    X = uniform(40, 2)
    once, thrice = Support.fit(X), Support.fit(np.repeat(X, 3, axis=0))
    np.testing.assert_array_equal(once.prototypes, thrice.prototypes)
    assert once.typical == thrice.typical
    jittered = np.repeat(X, 3, axis=0) + 1e-7 * np.random.default_rng(0).normal(size=(120, 2))
    assert Support.fit(jittered).typical == pytest.approx(once.typical, rel=0.05)


@pytest.mark.parametrize("value", [0.0, 7.5, -1e12, 1e-12])
def test_a_constant_column_that_changes_is_far_away(value):
    X = np.column_stack([uniform(40, 1), np.full(40, value)])
    support, new = Support.fit(X), X[:3].copy()
    np.testing.assert_array_equal(ratio(support, new), 0.0)
    new[:, 1] = value * 1.01 if value else 1e-3
    assert ratio(support, new).min() >= 2.0
    np.testing.assert_array_equal(support.columns.beyond(new)[:, 1] > 0.0, True)
    new[:, 1] = np.float32(value)
    assert ratio(support, new).max() == 0.0, "rounding to single precision is no change"


def test_binary_columns():
    rng = np.random.default_rng(0)
    X = np.column_stack([uniform(200, 1), rng.integers(0, 2, 200), rng.random(200) < 0.01])
    support = Support.fit(X)
    assert np.isfinite(support.prototypes).all()
    assert ratio(support, X).max() == 0.0
    assert ratio(support, np.array([[0.0, 5.0, 0.0]]))[0] > 1.0


@pytest.mark.parametrize("X", [np.ones((1, 2)), np.ones((9, 2)), np.zeros((9, 2))])
def test_a_single_row(X):
    support = Support.fit(X)
    np.testing.assert_array_equal(ratio(support, X), 0.0)
    assert ratio(support, X[:1] + 5.0)[0] >= 2.0


def test_columns_of_text_and_dates_and_missing_numbers():
    days = pd.date_range("2020-01-01", periods=40)
    frame = pd.DataFrame({"x": uniform(40, 1)[:, 0], "kind": ["a", "b"] * 20, "day": days})
    frame.loc[3, "x"] = np.nan
    support = Support.fit(frame)
    np.testing.assert_array_equal(ratio(support, frame), 0.0)
    later = frame[:1].assign(day=days[-1] + pd.Timedelta(days=400))
    unknown = frame[:1].assign(kind="c")
    assert ratio(support, later)[0] > 2.0
    assert ratio(support, unknown)[0] >= 2.0


def test_sparse_tables_are_as_dense_ones():
    X = uniform(40, 3) * (uniform(40, 3, 1) > 0)
    dense, sparse = Support.fit(X), Support.fit(csr_array(X))
    np.testing.assert_array_equal(dense.prototypes, sparse.prototypes)
    np.testing.assert_array_equal(ratio(dense, 2 * X), ratio(sparse, csr_array(2 * X)))


@given(seed=st.integers(0, 99), n=st.integers(1, 50), m=st.integers(1, 50))
def test_the_nearest_prototype_is_the_nearest(seed, n, m):
    rng = np.random.default_rng(seed)
    Z, prototypes = rng.normal(size=(n, 3)), rng.normal(size=(m, 3))
    apart = np.linalg.norm(Z[:, None] - prototypes, axis=2)
    np.testing.assert_array_equal(nearest_number(Z, similarity_matrix(prototypes)), apart.argmin(axis=1))


def test_the_gate_is_closed_up_to_ratio_one_and_open_from_two():
    np.testing.assert_array_equal(gate(np.array([0.0, 1.0, 1.5, 2.0, 1e9])), [0.0, 0.0, 0.5, 1.0, 1.0])


def test_outliers_do_not_determine_the_scale_of_a_column():
    X = uniform(200, 1)
    outlier = X.copy()
    outlier[5] = 1e9
    scales = [Columns.fit(table, np.arange(200)).scale[0] for table in (X, outlier)]
    assert scales[1] == pytest.approx(scales[0], rel=0.1)


@given(n=st.integers(60, 1500), p=st.integers(1, 6), seed=st.integers(0, 99), size=st.sampled_from([1.0, 1e8]))
@settings(max_examples=15)
def test_bounds_by_some_prototypes_are_above_one_for_every_row_outside(n, p, seed, size):
    generator = np.random.default_rng(seed)
    support = Support.fit(size * generator.normal(size=(n, p)) ** 3)
    new = size * generator.normal(size=(700, p)) ** 3
    exact = generator.random(len(new)) < 0.2
    expected, found = ratio(support, new), support.ratio(support.place(new)[1], exact)
    needed = exact | (expected > 1.0)
    np.testing.assert_array_equal(found[needed], expected[needed])
    assert (found >= expected - 1e-12).all()
    assert (found[~needed] <= 1.0).all()


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", ["uniform", "heavy tails", "grid", "frame"])
def test_the_farthest_rows_are_those_of_all_distances(kind):
    generator = np.random.default_rng(0)
    X = generator.standard_t(2.0, size=(6000, 3)) if kind == "heavy tails" else generator.uniform(size=(6000, 3))
    X = np.round(X, 1) if kind == "grid" else X
    table = pd.DataFrame(X, columns=["a", "b", "c"]) if kind == "frame" else X
    whole = Support.fit(table)
    prototypes = whole.standardize(table)[generator.permutation(6000)[:768]]
    support = Support(whole.columns, prototypes, 0.0)
    distances = np.linalg.norm(whole.standardize(table)[:, None] - prototypes, axis=2).min(axis=1)
    order = np.argsort(-distances, kind="stable")[:257]
    rows, found = support._farthest(table, 257)
    np.testing.assert_allclose(found, distances[order], rtol=1e-12, atol=1e-12)
    if kind != "grid":  # where many rows are equally far, up to rounding
        np.testing.assert_array_equal(rows, order)


def test_few_prototypes_are_compared_with_all_rows():
    X = uniform(5000, 2)
    support = Support(Columns.fit(X, np.arange(5000)), np.zeros((1, 2)), 0.0)
    rows, found = support._farthest(X, 5)
    distances = np.linalg.norm(support.standardize(X), axis=1)
    np.testing.assert_array_equal(rows, np.argsort(-distances)[:5])
    np.testing.assert_allclose(found, np.sort(distances)[:-6:-1], rtol=1e-12)
