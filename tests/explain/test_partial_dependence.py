from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from bdkn import BayesianStackingRegressor
from bdkn.analysis.explanation import stack_rows, with_column
from bdkn.analysis.partial_dependence import default_grid
from bdkn.errors import InvalidParameterError


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=120)


@pytest.fixture(scope="module")
def model(data):
    member = ("sum", lambda X: np.sin(X[:, 0]) + X[:, 1])
    return BayesianStackingRegressor([member], target="identity", random_state=0).fit(*data)


def test_it_is_the_average_over_rows(model, data):
    X = data[0][:40]
    found = model.partial_dependence(X, 0, grid=[-1.0, 0.5], coverage=0.8)
    for k, value in enumerate((-1.0, 0.5)):
        rows = np.column_stack([np.full(40, value), X[:, 1]])
        dist = model.predict_dist(rows)
        lower, upper = dist.interval(0.8)
        assert found.mean[k] == pytest.approx(dist.mean().mean())
        assert found.lower[k] == pytest.approx(lower.mean(), abs=1e-6)
        assert found.upper[k] == pytest.approx(upper.mean(), abs=1e-6)
        pooled = [brentq(lambda y, q=q, d=dist: d.cdf(y).mean() - q, -20.0, 20.0) for q in (0.1, 0.9)]
        assert [found.all_lower[k], found.all_upper[k]] == pytest.approx(pooled, abs=1e-6)


def test_counts_have_intervals_of_counts(data):
    X, y = data
    model = BayesianStackingRegressor([("sum", lambda X: X.sum(axis=1))], random_state=0)
    model.fit(X, np.round(y).clip(-2, 2))
    found = model.partial_dependence(X, 1, grid=[0.0])
    assert found.all_upper[0] == pytest.approx(round(found.all_upper[0]), abs=1e-6)


def test_default_grids(data):
    X = data[0]
    grid = default_grid(X[:, 0])
    assert len(grid) == 25
    assert set(grid) <= set(X[:, 0])
    assert default_grid(np.array([2.0, 1.0, 2.0, np.nan])) == [1.0, 2.0]
    assert default_grid(np.array(["b", "a", "b", None], dtype=object)) == ["a", "b"]
    dates = np.array(["2020-01-01", "NaT", "2021-01-01"], dtype="datetime64[D]")
    assert default_grid(dates) == [dates[0], dates[2]]
    with pytest.raises(InvalidParameterError, match="all of its values are missing: give grid="):
        default_grid(np.array([np.nan]))


def test_columns_by_name(data):
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    X, _y = data
    kinds = np.where(X[:, 1] > 0.0, "a", "b")
    frame = pandas.DataFrame({"size": X[:, 0], "kind": pandas.Categorical(kinds)})
    member = ("kinds", lambda table: np.asarray(table["size"]) + 2.0 * np.asarray(table["kind"] == "a"))
    model = BayesianStackingRegressor([member], density="student-t", random_state=0)
    model.fit(frame, X[:, 0] + 2.0 * (kinds == "a"))
    found = model.partial_dependence(frame, "kind")
    assert found.column == "kind"
    assert found.grid.tolist() == ["a", "b"]
    assert found.mean[0] - found.mean[1] == pytest.approx(2.0, abs=1e-3)
    assert list(found.to_frame().columns) == ["kind", "mean", "lower", "upper", "all_lower", "all_upper"]
    with pytest.raises(InvalidParameterError, match="column must be one of 'size', 'kind'; got 'kinds'; did you mean"):
        model.partial_dependence(frame, "kinds")
    for table in (frame, polars.from_pandas(frame), pyarrow.table(frame)):
        new = with_column(table, 0, [1.0, 2.0])
        assert type(new) is type(table)
        stacked = stack_rows(table, new)
        assert stacked.shape == (122, 2)


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        (2, {}, "column, if not a name, must be an integer >= 0 and <= 1"),
        (0, {"grid": []}, "grid must hold at least one value"),
        (0, {"coverage": 1.5}, "coverage must be a number > 0 and <= 1"),
    ],
)
def test_refusals(model, data, column, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        model.partial_dependence(data[0], column, **options)


def test_displays(model, data):
    pytest.importorskip("matplotlib")
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from bdkn.plots import DependenceDisplay, ExplanationDisplay

    X, y = data
    display = DependenceDisplay.from_estimator(model, X, 0, grid=[-1.0, 0.0, 1.0], max_rows=10)
    assert len(display.ax_.lines[0].get_xdata()) == 3
    explanation = model.explain(X, max_rows=4)
    row = ExplanationDisplay.from_explanation(explanation, 2)
    assert row.data.base + row.data.values.sum() == pytest.approx(row.data.prediction)
    assert len(row.ax_.patches) == 2
    shortened = ExplanationDisplay.from_explanation(explanation, part="variance", max_columns=1).data
    assert shortened.columns[1] == "1 other columns"
    scaled = make_pipeline(StandardScaler(), BayesianStackingRegressor([("first", lambda X: X[:, 0])], random_state=0))
    assert ExplanationDisplay.from_estimator(scaled.fit(X, y), X[:5]).data.columns[0] == "0"
    transformed = TransformedTargetRegressor(scaled, transformer=StandardScaler()).fit(X, y)
    with pytest.raises(InvalidParameterError, match="transformed target are not explained in its units"):
        ExplanationDisplay.from_estimator(transformed, X)
