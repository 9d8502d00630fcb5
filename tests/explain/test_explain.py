"""Shapley values against enumeration, known functions and the sum that they must have."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdkn import BayesianStackingRegressor, BDKNRegressor, DeepEnsembleRegressor
from bdkn.analysis import explanation as module
from bdkn.analysis.explanation import MixedRows, _draw_evenly
from bdkn.errors import InvalidParameterError, OutsideDataWarning

QUICK = {"n_members": 2, "hidden_layer_sizes": (8,), "epochs": 15, "n_bins": 0, "random_state": 0}


def bent(X):
    return 2.0 * X[:, 0] + np.sin(2.0 * X[:, 1]) * X[:, 2] + X[:, 2] * X[:, 3]


def other(X):
    return X[:, 0] ** 2 + X[:, 3]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    return X, bent(X) + 0.3 * other(X) + 0.3 * rng.normal(size=150)


@pytest.fixture(scope="module")
def model(data):
    return BayesianStackingRegressor([("bent", bent), ("other", other)], random_state=0).fit(*data)


@pytest.fixture(scope="module")
def networks(data):
    return BDKNRegressor(**QUICK).fit(*data)


def outputs(model, X):
    """Return mean, variance and its parts (n, K) by the methods that users call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDataWarning)
        parts = model.predict_var(X, decompose=True)
        return np.stack([model.predict(X), sum(parts.values()), *parts.values()], axis=1)


def enumerated(model, row, background):
    """Return the Shapley values (p, K) by the sum over all sets of columns, and the average of the background."""
    p = len(row)
    value = {}
    for size in range(p + 1):
        for columns in itertools.combinations(range(p), size):
            mixed = background.copy()
            mixed[:, list(columns)] = row[list(columns)]
            value[columns] = outputs(model, mixed).mean(axis=0)
    found = np.zeros((p, len(value[()])))
    for j, columns in itertools.product(range(p), value):
        if j not in columns:
            share = math.factorial(len(columns)) * math.factorial(p - len(columns) - 1) / math.factorial(p)
            found[j] += share * (value[tuple(sorted((*columns, j)))] - value[columns])
    return found, value[()]


class TestValues:
    @pytest.mark.parametrize("name", ["model", "networks"])
    def test_all_orders_are_the_enumeration(self, name, data, request, monkeypatch):
        """With every order once for each row of the background, sampling is the sum over all sets of columns."""
        model, row, background = request.getfixturevalue(name), data[0][20], data[0][:6]
        ranks = np.array(list(itertools.permutations(range(4))))
        half = np.repeat(ranks[:12], 6, axis=0)  # the opposite orders are the other half
        assert {tuple(3 - rank) for rank in ranks[:12]} == set(map(tuple, ranks[12:]))
        monkeypatch.setattr(module, "_ranks", lambda generator, shape: np.stack([half, 3 - half], axis=1)[None])
        explanation = model.explain(row[None], background, n_samples=72)
        exact, base = enumerated(model, row, background)
        np.testing.assert_allclose(explanation.base, base, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(explanation.values[0], exact, rtol=1e-5, atol=1e-6 * np.abs(exact).max())

    def test_more_samples_are_nearer_to_the_enumeration(self, model, data):
        row, background = data[0][20], data[0][:6]
        exact = enumerated(model, row, background)[0][:, 0]
        found = model.explain(row[None], background, n_samples=1200, variance=False).of("mean")[0]
        np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())

    def test_standard_errors_tell_the_error(self, model, data):
        X = data[0]
        ratios = []
        for i in range(8):
            exact, _ = enumerated(model, X[i], X)
            explanation = model.explain(X[i : i + 1], X, n_samples=24, random_state=i)
            ratios.append((explanation.values[0, :, 0] - exact[:, 0]) / explanation.standard_error[0, :, 0])
        assert 0.4 < np.sqrt(np.mean(np.square(ratios))) < 1.8

    def test_two_columns_are_exact_with_the_whole_background(self, data):
        X = data[0][:, :2]
        model = BayesianStackingRegressor([("product", lambda X: X[:, 0] * np.exp(X[:, 1]))], random_state=0)
        model.fit(X, X[:, 0] * np.exp(X[:, 1]) + 0.1 * data[1])
        explanation = model.explain(X[:1], X[:30], n_samples=30)
        np.testing.assert_allclose(explanation.values[0], enumerated(model, X[0], X[:30])[0], rtol=1e-6, atol=1e-9)

    def test_a_linear_function_has_known_values(self):
        rng = np.random.default_rng(0)
        X, slopes = rng.normal(size=(90, 3)), np.array([3.0, -1.0, 0.5])
        model = BayesianStackingRegressor([("line", lambda X: X @ slopes)], target="identity", random_state=0)
        model.fit(X, X @ slopes)
        explanation = model.explain(X[:5], X[:20], n_samples=20)
        weight = model.weights_[0]
        np.testing.assert_allclose(explanation.of("mean"), weight * slopes * (X[:5] - X[:20].mean(axis=0)), atol=1e-6)

    def test_a_column_that_does_nothing_adds_nothing(self, model, data):
        X = np.column_stack([data[0], data[0][:, 0]])
        wide = BayesianStackingRegressor([("bent", bent)], density="student-t", random_state=0).fit(X, data[1])
        np.testing.assert_allclose(wide.explain(X[:3]).of("mean")[:, 4], 0.0, atol=1e-12)


class TestSums:
    @settings(max_examples=12)
    @given(
        seed=st.integers(0, 1000),
        rows=st.integers(1, 4),
        n_samples=st.integers(2, 9),
        n_background=st.integers(2, 12),
    )
    def test_base_and_values_are_the_prediction(self, networks, data, seed, rows, n_samples, n_background):
        X = data[0]
        chosen = np.random.default_rng(seed).permutation(len(X))
        mine, background = X[chosen[:rows]], X[chosen[rows : rows + n_background]]
        explanation = networks.explain(mine, background, n_samples=n_samples, random_state=seed)
        predicted = outputs(networks, mine)
        np.testing.assert_allclose(explanation.prediction, predicted, rtol=1e-5, atol=1e-7)
        total = explanation.base + explanation.values.sum(axis=1)
        np.testing.assert_allclose(total, explanation.prediction, rtol=1e-9, atol=1e-9)
        parts = explanation.values[:, :, 2:].sum(axis=2)
        np.testing.assert_allclose(parts, explanation.of("variance"), rtol=1e-7, atol=1e-9)

    @pytest.mark.no_cover
    def test_all_rows_and_parts(self, networks, data):
        explanation = networks.explain(data[0], max_rows=25)
        assert explanation.values.shape == (25, 4, len(explanation.parts))
        assert explanation.parts[:6] == ("mean", "variance", "noise", "disagreement", "weights", "outside")
        np.testing.assert_allclose(explanation.base + explanation.values.sum(axis=1), explanation.prediction, atol=1e-9)

    def test_ensembles_have_noise_and_disagreement(self, data):
        model = DeepEnsembleRegressor(**QUICK).fit(*data)
        explanation = model.explain(data[0][:4])
        assert explanation.parts == ("mean", "variance", "noise", "disagreement")
        mean, std = model.predict(data[0][:4], return_std=True)
        np.testing.assert_allclose(explanation.prediction[:, :2], np.stack([mean, std**2], axis=1), rtol=1e-5)


class TestCalls:
    @pytest.mark.no_cover
    def test_the_same_seed_gives_the_same_values(self, networks, data):
        first, again = (networks.explain(data[0], max_rows=5) for _ in range(2))
        np.testing.assert_array_equal(first.values, again.values)
        np.testing.assert_array_equal(first.rows, again.rows)
        assert not np.array_equal(first.values, networks.explain(data[0], max_rows=5, random_state=1).values)

    def test_means_alone(self, networks, data):
        explanation = networks.explain(data[0][:3], data[0], variance=False)
        assert explanation.parts == ("mean",)
        np.testing.assert_allclose(explanation.prediction[:, 0], networks.predict(data[0][:3]), rtol=1e-6)

    def test_tables_are_sorted(self, model, data):
        explanation = model.explain(data[0], max_rows=20)
        table, row = explanation.table(), explanation.row(3)
        assert table["column"][0] == "0"
        assert (np.diff(table["mean"]) <= 0.0).all()
        assert (np.diff(np.abs(row["mean"])) <= 0.0).all()
        assert set(table) == {"column", *explanation.parts, *(f"{part}_error" for part in explanation.parts)}
        assert row["mean"].sum() + explanation.base[0] == pytest.approx(explanation.prediction[3, 0])

    @pytest.mark.no_cover
    def test_frames(self, data):
        pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
        frame = pandas.DataFrame(data[0], columns=list("abcd"))
        networks = BDKNRegressor(**QUICK).fit(frame, data[1])
        plain = networks.explain(frame, max_rows=4)
        assert plain.columns == ("a", "b", "c", "d")
        np.testing.assert_allclose(networks.explain(polars.from_pandas(frame), max_rows=4).values, plain.values)
        assert isinstance(plain.to_frame(), pandas.DataFrame)
        assert isinstance(plain.to_frame(row=1), pandas.DataFrame)
        numbers = np.arange(12).reshape(3, 4) % 5
        expected = np.column_stack([data[0][numbers[:, j], j] for j in range(4)])
        for table in (frame, polars.from_pandas(frame), pyarrow.table(frame)):
            mixed = MixedRows(table, None, numbers.shape[1]).take(numbers)
            assert type(mixed) is type(table)
            shown = mixed if isinstance(mixed, pandas.DataFrame) else mixed.to_pandas()
            np.testing.assert_array_equal(shown.to_numpy(), expected)

    def test_columns_of_several_inputs_are_replaced_together(self):
        table = np.arange(12.0).reshape(3, 4)
        mixed = MixedRows(table, np.array([0, 1, 1, 0]), 2)
        found = mixed.take(np.array([[0, 2], [1, 0]]))
        np.testing.assert_array_equal(found, [[0.0, 9.0, 10.0, 3.0], [4.0, 1.0, 2.0, 7.0]])

    def test_members_that_read_frames(self, data):
        pandas = pytest.importorskip("pandas")
        kinds = np.where(data[0][:, 1] > 0, "a", "b")
        frame = pandas.DataFrame({"size": data[0][:, 0], "kind": pandas.Categorical(kinds)})
        y = frame["size"] + 2.0 * (frame["kind"] == "a")
        member = ("kinds", lambda table: np.asarray(table["size"]) + 2.0 * np.asarray(table["kind"] == "a"))
        model = BayesianStackingRegressor([member], density="student-t", random_state=0).fit(frame, y)
        explanation = model.explain(frame[:4], frame)
        assert explanation.columns == ("size", "kind")
        np.testing.assert_allclose(explanation.base + explanation.values.sum(axis=1), explanation.prediction)
        assert np.abs(explanation.of("mean")[:, 1]).min() > 0.5

    @pytest.mark.parametrize(
        ("rows", "options", "message"),
        [
            (1, {}, "there must be 2; got 1 in X: give background=, for example the training rows"),
            (9, {"n_samples": 1}, "n_samples must be an integer >= 2"),
            (9, {"max_rows": 0}, "max_rows must be an integer >= 1"),
        ],
    )
    def test_what_cannot_be_explained(self, networks, data, rows, options, message):
        with pytest.raises(InvalidParameterError, match=message):
            networks.explain(data[0][:rows], **options)

    def test_parts_and_rows_that_there_are_not(self, model, data):
        explanation = model.explain(data[0], max_rows=3)
        with pytest.raises(InvalidParameterError, match=r"part must be one of 'mean'.*did you mean 'noise'"):
            explanation.of("noises")
        with pytest.raises(InvalidParameterError, match="i must be an integer >= 0 and <= 2"):
            explanation.row(3)

    def test_draws_are_even(self):
        means = np.random.default_rng(0).permutation(100).astype(float)
        chosen = means[_draw_evenly(means, 10, np.random.default_rng(1))]
        assert (np.floor(chosen / 10.0) == np.arange(10)).all()
