"""Piecewise-linear encodings of inputs, and networks with encoded inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import bdkn
from bdkn.networks import EncodedNetworks, MixedNetworks, PiecewiseLinear, join, with_encoding
from bdkn.networks.job import EpochReport, renumbered
from bdkn.networks.mlp import initial_networks
from bdkn.networks.settings import NetworkSettings
from bdkn.networks.spec import NetworkSpec


def table(n: int = 200, p: int = 3, seed: int = 0) -> np.ndarray:
    """Return standardized inputs."""
    return np.random.default_rng(seed).normal(size=(n, p)).astype(np.float32)


def slow_features(encoding: PiecewiseLinear, x: np.ndarray) -> list[float]:
    """Return the inputs and the features of the bins of one row, number by number."""
    found = [float(value) for value in x]
    bins = zip(encoding.columns, encoding.lower, encoding.width, encoding.mean, encoding.scale, strict=True)
    for column, low, width, mean, scale in bins:
        through = min(1.0, max(0.0, (float(x[column]) - float(low)) / float(width)))
        found.append((through - float(mean)) / float(scale))
    return found


def through_bins(encoding: PiecewiseLinear, X: np.ndarray) -> np.ndarray:
    """Return the position of each row in each bin, from 0 to 1."""
    return encoding.transform(X)[:, X.shape[1] :] * encoding.scale + encoding.mean


def test_features_are_those_of_the_formula() -> None:
    """The features of a row are its inputs, then its position in each bin."""
    X = table()
    encoding = PiecewiseLinear.fit(X, 5)
    assert len(encoding) == 15
    expected = [slow_features(encoding, row) for row in X[:20]]
    assert_allclose(encoding.transform(X[:20]), expected, rtol=0, atol=1e-4)


def test_features_are_standardized() -> None:
    """On the rows that an encoding was fitted to, features have mean 0 and standard deviation 1."""
    X = table(500)
    features = PiecewiseLinear.fit(X, 5).transform(X)[:, 3:]
    assert_allclose(features.mean(axis=0), 0.0, atol=1e-5)
    assert_allclose(features.std(axis=0), 1.0, atol=1e-5)


@given(st.integers(2, 12), st.integers(0, 1000))
def test_the_sum_of_a_columns_features_is_its_position_among_the_bins(n_bins: int, seed: int) -> None:
    """The sum over a column's bins increases with x, is 0 below all bins, and their number above."""
    X = np.sort(table(100, 1, seed), axis=0)
    encoding = PiecewiseLinear.fit(X, n_bins)
    far = np.array([[-50.0], *X.tolist(), [50.0]], dtype=np.float32)
    features = through_bins(encoding, far)
    total = features.sum(axis=1)
    assert (np.diff(total) >= -1e-4).all()
    assert_allclose(total[[0, -1]], [0.0, len(encoding)], atol=1e-4)
    assert len(encoding) == n_bins
    assert_array_equal(through_bins(encoding, far * 10)[[0, -1]], features[[0, -1]])


def test_bins_hold_equally_many_rows() -> None:
    """Each of four bins holds a quarter of the rows."""
    X = table(400, 1)
    encoding = PiecewiseLinear.fit(X, 4)
    counted, _ = np.histogram(X[:, 0], np.append(encoding.lower, X.max()))
    assert (np.abs(counted - 100) <= 2).all()


def test_a_column_with_few_values_has_a_bin_between_neighbours_and_one_with_two_has_none() -> None:
    """A column with three values has two bins; binary and constant columns have none."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 90), rng.integers(0, 2, 90), np.ones(90)]).astype(np.float32)
    encoding = PiecewiseLinear.fit(X, 8)
    assert_array_equal(encoding.columns, [0, 0])
    assert_array_equal(encoding.lower, [0, 1])
    assert_array_equal(encoding.width, [1, 1])


def test_counts_are_repeated_rows() -> None:
    """A row that counts three times gives the bins of three equal rows."""
    X, counts = table(60), np.random.default_rng(1).integers(1, 4, 60)
    repeated = PiecewiseLinear.fit(np.repeat(X, counts, axis=0), 6)
    weighted = PiecewiseLinear.fit(X, 6, counts.astype(float))
    assert_array_equal(weighted.lower, repeated.lower)
    assert_allclose(weighted.transform(X), repeated.transform(X), rtol=0, atol=1e-4)


def encoded(activation: str, encoding: PiecewiseLinear, count: int, seed: int) -> EncodedNetworks:
    """Return networks with initial weights."""
    spec = NetworkSpec(n_inputs=3 + len(encoding), hidden=(4,), activation=activation)
    generators = [np.random.default_rng(seed + h) for h in range(count)]
    return EncodedNetworks(encoding, initial_networks(spec, generators))


def test_networks_are_joined_by_encoding_and_shape() -> None:
    """Networks of two encodings and activations keep their order and their outputs in one predictor."""
    X = table()
    first, second = PiecewiseLinear.fit(X, 4), PiecewiseLinear.fit(X, 8)
    parts = [encoded("relu", first, 2, 0), encoded("silu", second, 1, 5), encoded("relu", first, 1, 9)]
    joined = join(parts)
    assert isinstance(joined, MixedNetworks)
    assert [len(stack) for stack in joined.stacks] == [3, 1]
    for part, expected in zip(joined.outputs(X), zip(*(one.outputs(X) for one in parts), strict=True), strict=True):
        assert_array_equal(part, np.concatenate(expected))
    assert_array_equal(joined[[2, 3]].outputs(X)[0], joined.outputs(X)[0][[2, 3]])
    assert joined.is_finite().all()


def test_mixed_networks_take_an_encoding() -> None:
    """Networks of two shapes that were trained on encoded inputs predict from the inputs themselves."""
    X = table()
    encoding = PiecewiseLinear.fit(X, 4)
    inner = join([encoded(name, encoding, 1, seed).networks for seed, name in enumerate(("relu", "silu"))])
    whole = with_encoding(encoding, inner)
    assert_array_equal(whole.outputs(X)[0], inner.outputs(encoding.transform(X))[0])


FAST = {"n_members": 4, "epochs": 3, "cv": 2, "random_state": 0, "hidden_layer_sizes": 4}


@pytest.mark.no_cover
def test_members_take_bins_in_turn() -> None:
    """With two activations, members 1 and 2 have no bins, members 3 and 4 have bins; all engines agree."""
    X = table(120).astype(float)
    y = np.abs(X[:, 0])
    everyone = bdkn.CombinationOptions(select_members=False)
    model = bdkn.BDKNRegressor(n_bins=(0, 4), combination=everyone, **FAST).fit(X, y)
    kinds = [type(model.ensemble_[[h]].networks).__name__ for h in range(4)]
    assert kinds == ["Networks", "Networks", "EncodedNetworks", "EncodedNetworks"]
    other = bdkn.BDKNRegressor(n_bins=(0, 4), combination=everyone, engine="reference", **FAST).fit(X, y)
    assert_allclose(model.predict(X), other.predict(X), rtol=0, atol=1e-3)


def test_saved_models_keep_their_encodings(tmp_path) -> None:
    """A model with encodings predicts the same bits after it was saved and loaded."""
    X = table(120).astype(float)
    model = bdkn.BDKNRegressor(n_bins=4, **FAST).fit(X, X[:, 0])
    model.save(tmp_path / "model.bdkn")
    assert_array_equal(bdkn.load(tmp_path / "model.bdkn").predict(X), model.predict(X))


def test_bins_are_limited_by_rows_and_columns() -> None:
    """Few rows or many columns have fewer bins per column, and none if there would be less than two."""
    limits = NetworkSettings.of(bdkn.BDKNRegressor(n_bins=16))
    widths = {}
    for n, p in ((240, 2), (60, 2), (20, 2), (240, 40), (240, 100)):
        rows = bdkn.data.rows.Rows(table(n, p), np.zeros(n))
        ((found, _, _),) = limits.jobs(rows, np.random.SeedSequence(0).spawn(1), [0])
        widths[n, p] = 0 if found is None else len(found) // p
    assert widths == {(240, 2): 16, (60, 2): 5, (20, 2): 0, (240, 40): 3, (240, 100): 0}


def test_bad_bins_are_refused() -> None:
    """n_bins must be whole numbers from 0."""
    for bad in (-1, 2.5, "many", ()):
        with pytest.raises(bdkn.errors.InvalidParameterError, match="n_bins"):
            bdkn.BDKNRegressor(n_bins=bad, **FAST).fit(table(30).astype(float), np.zeros(30))


def test_reports_have_the_numbers_of_all_networks() -> None:
    """A group of networks is trained in one call of an engine, which numbers its own jobs from 0."""
    seen: list[EpochReport] = []
    report = renumbered(seen.append, [3, 5])
    assert report is not None
    report(EpochReport(1, 0, 0.5, None, None, None))
    assert seen[0].job == 5


@pytest.mark.parametrize("n", [1, 7, 64, 200])
def test_compiled_features_have_the_bits_of_the_encoding(n: int) -> None:
    """Compiled code encodes a batch by itself; values beyond all bins and on their ends are among the rows."""
    X = table(n)
    encoding = PiecewiseLinear.fit(table(), 5)
    X[0], X[-1, 0] = [9.0, -9.0, 0.0], encoding.lower[2]
    spec = NetworkSpec(n_inputs=3 + len(encoding))
    networks = initial_networks(spec, [np.random.default_rng(seed) for seed in (0, 1)])
    own = EncodedNetworks(encoding, networks).outputs(X)
    for mine, expected in zip(own, networks.outputs(encoding.transform(X)), strict=True):
        assert_array_equal(mine, expected)
