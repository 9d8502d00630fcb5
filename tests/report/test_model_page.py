import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bdkn import BayesianStackingRegressor, BDKNRegressor, DeepEnsembleRegressor
from bdkn.analysis.tables import RawColumn, TableView
from bdkn.errors import InvalidParameterError, no_extrapolation_warnings
from bdkn.predictive import Gaussian
from bdkn.report import Page, make_page, write_page
from bdkn.report.charts import driver_lines, ticks, variance_lines
from bdkn.report.evaluation import Evaluation, chance_of, divide, drivers_of, errors_by_column, resample
from bdkn.report.page import as_script, evaluate
from bdkn.report.verdict import judge_calibration, key_numbers, least_sure, verdict_of, warnings_of
from bdkn.report.what_if import payload_of
from bdkn.report.wording import number, percent, with_error

SMALL = {"n_members": 2, "epochs": 10, "effort": "fast", "random_state": 0, "cv": 2, "density": "student-t"}


class FirstColumn:
    """A model that predicts the first column, with a given standard deviation."""

    def __init__(self, std):
        self.std = std

    def predict_dist(self, X):
        return Gaussian(np.asarray(X)[:, 0], np.broadcast_to(self.std, len(X)))

    def predict_interval(self, X, coverage):
        return np.stack(self.predict_dist(X).interval(coverage), axis=1)


def judged(std=1.0, noise=1.0, n=400, seed=0, size=5.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [size, 1.0, 1.0]
    return Evaluation(FirstColumn(std), TableView.of(X), X[:, 0] + noise * rng.normal(size=n))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(140, 3)), columns=["a", "b", "c"])
    return X, (2.0 * X["a"] + 0.3 * rng.normal(size=140)).to_numpy()


@pytest.fixture(scope="module")
def model(rows):
    X, y = rows
    return BDKNRegressor(**SMALL).fit(X[:90], y[:90])


def shown(page):
    """Return the text of a page without scripts, styles and tags."""
    text = re.sub(r"<(script|style).*?</\1>", " ", page.html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


def test_the_page_has_all_its_parts_in_order(model, rows):
    X, y = rows
    text = shown(make_page(model, X[90:], y[90:], title="A title", target_name="the target"))
    parts = [
        "A title", "Predictions of the target are off by", "mean absolute error", "What if", "How good it is",
        "Root mean squared error", "Predictions", "Calibration", "Where it is worse", "What drives predictions",
        "What the uncertainty consists of", "Support", "Members", "Rows it is least sure of", "How it was made",
        "numpy",
    ]  # fmt: skip
    places = [text.index(part) for part in parts[:1]]
    for part in parts[1:]:
        places.append(text.index(part, places[-1]))
    assert "BDKNRegressor" in text
    assert "random_state=0" in text


def test_the_same_rows_give_the_same_page(model, rows):
    X, y = rows
    assert make_page(model, X[90:], y[90:]).html == make_page(model, X[90:], y[90:]).html


def test_report_writes_what_it_returns(model, rows, tmp_path):
    X, y = rows
    page = model.report(X[90:], y[90:], tmp_path / "page.html", target_name="y <1>")
    assert isinstance(page, Page)
    assert (tmp_path / "page.html").read_text("utf-8") == page.html
    assert "y &lt;1&gt;" in page.html
    assert page._repr_html_().startswith("<iframe")
    assert "MB" in repr(page)


def test_the_page_refers_to_nothing_outside(model, rows):
    X, y = rows
    html = make_page(model, X[90:], y[90:]).html
    assert set(re.findall(r"https?://[^\s\"'<]*", html)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe)\b|\bsrc=", html)


def test_paths_that_a_page_cannot_have(model, rows, tmp_path):
    X, y = rows
    for path in (tmp_path, tmp_path / "none" / "page.html"):
        with pytest.raises(InvalidParameterError, match="must be written to a file in a folder that exists; got"):
            write_page(model, X[90:], y[90:], path)


def test_rows_and_targets_must_fit(model, rows):
    X, y = rows
    with pytest.raises(InvalidParameterError, match=r"with one target each; got 50 rows and targets of shape \(49,\)"):
        make_page(model, X[90:], y[91:])
    with pytest.raises(InvalidParameterError, match="missing: 'c'"):
        make_page(model, X[["a", "b"]][90:], y[90:])
    with pytest.raises(InvalidParameterError, match="rows must be"):
        make_page(model, X, y, rows=1)


def test_of_many_rows_some_are_drawn(model, rows):
    X, y = rows
    evaluation, n = evaluate(model, X, y, 30)
    assert (len(evaluation.y), n) == (30, 140)
    assert "30 drawn from 140 rows" in shown(make_page(model, X, y, rows=30))


def test_other_columns_are_ignored(model, rows):
    X, y = rows
    more = X[90:].assign(other="text")[["other", "c", "a", "b"]]
    assert make_page(model, more, y[90:]).html == make_page(model, X[90:], y[90:]).html


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_tables_of_any_kind_give_the_same_numbers(model, rows, kind):
    X, y = rows
    other = {"polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}[kind](X)
    own, same = (Evaluation(model, TableView.of(table), y) for table in (X, other))
    for one, two in zip(drivers_of(own), drivers_of(same), strict=True):
        assert one.name == two.name
        assert one.mean == pytest.approx(two.mean, rel=1e-9)
    some = np.array([3, 1])
    np.testing.assert_array_equal(same.view.rows(some).column("b").values, X["b"].to_numpy()[some])


def test_the_verdict_counts_rows_and_compares_with_the_mean():
    evaluation = judged()
    sentence = verdict_of(evaluation, "y").sentence
    inside = int(np.sum(np.abs(evaluation.y - evaluation.mean) <= stats.norm.ppf(0.95)))
    assert f"{inside} of 400 rows lie in their 90" in sentence
    gain = 1 - np.abs(evaluation.y - evaluation.mean).mean() / np.abs(evaluation.y - evaluation.y.mean()).mean()
    assert f"{percent(gain)} less than always predicting the mean" in sentence
    assert verdict_of(evaluation, "y").state == "good"


@pytest.mark.parametrize(
    ("std", "words", "state"),
    [
        (1.0, "as in calibrated intervals", "good"),
        (0.5, "too narrow", "poor"),
        (2.0, "wider than they need", "fair"),
    ],
)
def test_calibration_is_judged(std, words, state):
    found = judge_calibration(judged(std))
    assert words in found[0]
    assert found[1] == state


def test_few_rows_are_not_judged():
    assert judge_calibration(judged(n=12)) == ("too few rows to judge the calibration", "fair")


def test_a_model_no_better_than_the_mean_is_poor():
    verdict = verdict_of(judged(size=0.05), "y")
    assert "no better than always predicting the mean" in verdict.sentence
    assert verdict.state == "poor"


def test_the_verdict_on_a_model_worse_than_the_mean():
    evaluation = judged(noise=0.1)
    backwards = Evaluation(evaluation.model, evaluation.view, -evaluation.y)
    assert "more than always predicting the mean" in verdict_of(backwards, "y").sentence


def test_standard_errors_of_the_bootstrap_are_those_of_means():
    scores = np.random.default_rng(0).normal(size=300)
    assert np.std(resample(300) @ scores) == pytest.approx(scores.std() / np.sqrt(300), rel=0.15)
    names = [row.name for row in key_numbers(judged())]
    assert names[:2] == ["Mean absolute error", "Root mean squared error"]


def test_chance_is_binomial():
    low, high = chance_of(200, 0.9)
    assert stats.binom.cdf(round(high * 200), 200, 0.9) - stats.binom.cdf(round(low * 200) - 1, 200, 0.9) >= 0.95


@given(st.lists(st.one_of(st.none(), st.floats(-1e3, 1e3)), min_size=1, max_size=60))
def test_ranges_divide_all_rows(values):
    column = RawColumn("x", "number", np.array([np.nan if value is None else value for value in values]))
    if column.missing.all():
        return
    groups = [at for _, at in divide(column)]
    np.testing.assert_array_equal(np.sum(groups, axis=0), 1)


def test_values_dates_and_truth_have_labels():
    text = RawColumn("x", "text", np.array(["b", "a", "b", None], dtype=object))
    assert [(label, int(at.sum())) for label, at in divide(text)] == [("b", 2), ("a", 1), ("missing", 1)]
    assert [label for label, _ in divide(RawColumn("x", "boolean", np.array([1.0, 0.0, 1.0])))] == ["yes", "no"]
    days = RawColumn("x", "date", np.arange(100.0))
    assert divide(days)[0][0] == "1970-01-01 to 1970-01-20"


def test_the_column_where_errors_differ_comes_first():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X[:, 0] + np.where(X[:, 2] > 1.0, 3.0, 0.3) * rng.normal(size=500)
    first = errors_by_column(Evaluation(FirstColumn(1.0), TableView.of(X), y))[0]
    assert first.name == "column 2"
    assert np.argmax(first.error) == len(first.labels) - 1
    assert sum(first.rows) == 500


def test_drivers_are_what_explain_returns(model, rows):
    X, y = rows
    found = drivers_of(Evaluation(model, TableView.of(X), y))
    table = model.explain(X, max_rows=100).table()
    assert [driver.name for driver in found] == table["column"]
    np.testing.assert_allclose([driver.mean for driver in found], table["mean"])
    np.testing.assert_allclose([driver.mean_error for driver in found], table["mean_error"])
    assert sum(driver.variance_error > 0.0 for driver in found) > 1


def test_models_that_cannot_be_explained_have_no_drivers():
    assert {driver.mean for driver in drivers_of(judged(n=40))} == {0.0}
    assert driver_lines(drivers_of(judged(n=40))) == ()


def test_warnings_in_plain_words(model, rows):
    X, y = rows
    seen = warnings_of(evaluate(model, X[:90], y[:90], 100)[0])
    assert any("are training rows, or equal to some" in text for text in seen)
    with no_extrapolation_warnings():
        new = warnings_of(evaluate(model, X[90:] + 10.0, y[90:], 100)[0])
    assert any("of the rows are farther from all training rows" in text for text in new)
    assert not any("training rows, or equal" in text for text in new)
    assert any("With 20 rows, numbers are rough" in text for text in warnings_of(judged(n=20)))
    assert any("too narrow" in text for text in warnings_of(judged(0.4)))
    shifted = judged()
    assert any("too low by" in text for text in warnings_of(Evaluation(shifted.model, shifted.view, shifted.y + 1.0)))
    assert warnings_of(judged(seed=3)) == []


def test_rows_that_are_least_sure_come_with_a_reason(model, rows):
    X, y = rows
    far = pd.concat([X[90:], X[:1].assign(b=30.0)])
    evaluation = evaluate(model, far, np.append(y[90:], 0.0), 100)[0]
    head, found = least_sure(evaluation, ["b"])
    assert head[-1] == "b"
    assert found[0][0] == "50"
    assert found[0][4] == "outside the range of b"


def test_variance_is_divided_by_fifths(model, rows):
    X, _ = rows
    parts, std = model.predict_var(X, decompose=True), model.predict(X, return_std=True)[1]
    lines = variance_lines(parts, std).lines
    assert [line.label for line in lines][:2] == ["all rows", "surest fifth"]
    shares = [float(share) for share in re.findall(r'width="([\d.]+)"', lines[0].track)]
    assert sum(shares) == pytest.approx(100.0, abs=0.05)


def test_a_model_that_is_too_large_is_omitted(model):
    assert payload_of(model).model is not None
    small = payload_of(model, most_bytes=1000)
    assert small.model is None
    assert re.search(r"omitted: the model has [\d.]+ MB, and the limit is 0.001 MB", small.note)


def test_a_density_that_is_too_large_is_omitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.where(rng.random(120) < 0.5, 1.5, -1.5) + 0.05 * rng.normal(size=120)
    model = BDKNRegressor(**{**SMALL, "density": "auto", "target": "identity"}).fit(X, y)
    whole = payload_of(model)
    assert whole.model["density"]
    without = payload_of(model, most_bytes=len(json.dumps(whole.model)) - 1000)
    assert "density" not in without.model
    assert "shows the Student-t distribution alone" in without.note


def test_a_stack_has_a_page_without_what_if(rows):
    from sklearn.linear_model import Ridge

    X, y = rows
    stack = BayesianStackingRegressor([("ridge", Ridge()), ("<b>", Ridge(10.0))], random_state=0).fit(X[:90], y[:90])
    page = stack.report(X[90:], y[90:])
    assert "The what-if is omitted: its members are not networks of this package" in page.html
    assert "whatIf" not in page.html
    assert "&lt;b&gt;" in page.html
    if not stack.weights_identified_:
        assert "equal weights are as likely as these" in page.html


def test_an_ensemble_has_a_page_with_what_it_has(rows):
    X, y = rows
    page = DeepEnsembleRegressor(n_members=2, epochs=5, random_state=0).fit(X[:90], y[:90]).report(X[90:], y[90:])
    text = shown(page)
    assert "RMSE on the training rows" in text
    assert "Support" not in text
    assert "whatIf" in page.html


def test_data_cannot_end_a_script():
    text = as_script({"name": "</script><!--", "amp": "&"})
    assert "<" not in text
    assert json.loads(text)["name"] == "</script><!--"


@given(st.floats(-1e12, 1e12, allow_subnormal=False))
def test_numbers_in_words_are_near(value):
    if abs(value) < 1e-12:
        return
    text = number(value).replace("−", "-").replace("\u202f", "")
    assert float(text) == pytest.approx(value, rel=5.1e-3)


def test_numbers_and_their_errors():
    assert with_error(43.123, 3.14) == "43.1 ± 3.1"
    assert with_error(12345.6, 120.0) == "12\u202f350 ± 120"
    assert with_error(-0.01234, 0.00045) == "−0.01234 ± 0.00045"
    assert [number(value) for value in (1995.0, 22986.3, 270200.0, 0.0, 43.04)] == [
        "1995", "23\u202f000", "270\u202f200", "0", "43.0",
    ]  # fmt: skip
    assert number(float("nan")) == "–"
    assert percent(0.881) == "88\u202f%"


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_lie_inside(low, span, most):
    found = ticks(low, low + span, most)
    assert all(low - 1e-6 * span <= value <= low + span + 1e-6 * span for value in found)
    assert 1 <= len(found) <= most + 2 or len(found) == 0
