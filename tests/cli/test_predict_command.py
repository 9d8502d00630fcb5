import json
import threading
import time

import numpy as np
import pandas as pd
import pytest

import bdkn
from bdkn.cli.predict import in_order
from bdkn.table_files import csv_files, read_table


@pytest.fixture
def model(home):
    return bdkn.load(home / "flats.bdkn")


@pytest.fixture
def inputs(home, model):
    return read_table(home / "flats.csv")[list(model.feature_names_in_)]


def test_predictions_are_those_of_the_model_in_the_order_of_the_rows(home, run, tmp_path, model, inputs):
    out = tmp_path / "out.csv"
    words = ("predict", home / "flats.bdkn", home / "flats.csv", "--out", out, "--id", "id", "--coverage", 0.8)
    result = run(*words, "--quantiles", "0.1,0.5", "--above", "200,300")
    assert result.exit_code == 0, result.output
    assert "120 rows predicted" in result.stderr
    assert result.stdout == ""
    found = read_table(out)
    names = [
        "id",
        "mean",
        "std",
        "lower",
        "upper",
        "q0.1",
        "q0.5",
        "above_200",
        "above_300",
        "support",
        "support_column",
    ]
    assert list(found.columns) == names
    assert found["id"].tolist() == [f"{i:05d}" for i in range(120)]
    dist, support = model.predict_dist(inputs), model.support(inputs)
    np.testing.assert_allclose(found["mean"], dist.mean(), rtol=1e-9)
    np.testing.assert_allclose(found["std"], dist.std(), rtol=1e-9)
    np.testing.assert_allclose(found[["lower", "upper"]], model.predict_interval(inputs, 0.8), rtol=1e-9)
    np.testing.assert_allclose(found[["q0.1", "q0.5"]], model.predict_quantiles(inputs, (0.1, 0.5)), rtol=1e-9)
    np.testing.assert_allclose(found["above_300"], 1 - dist.cdf(300.0), atol=1e-12)
    assert found["support"].tolist() == support.status.tolist()
    columns = found["support_column"].astype(object)
    assert columns.where(columns.notna(), None).tolist() == support.column.tolist()


@pytest.mark.parametrize(("with_zeros", "coverage"), [(True, 0.98), (False, 0.999)])
def test_intervals_of_targets_with_bounds_are_those_of_the_model(run, tmp_path, with_zeros, coverage):
    """Ends near a bound of the target lie on the bound, with point masses and without."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    y = np.where(with_zeros & (frame["b"] < -0.5), 0.0, np.exp(2 * frame["a"] + rng.normal(size=200)))
    settings = {"n_members": 2, "hidden_layer_sizes": (8,), "epochs": 20, "density": "student-t", "target": "log"}
    model = bdkn.BDKNRegressor(**settings, random_state=0).fit(frame, y)
    assert (model.target_values_ is not None) == with_zeros
    model.save(tmp_path / "bounded.bdkn")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    words = ("predict", tmp_path / "bounded.bdkn", tmp_path / "rows.csv", "--out", tmp_path / "out.csv")
    result = run(*words, "--coverage", coverage, "--quantiles", "0.01,0.99")
    assert result.exit_code == 0, result.output
    found = read_table(tmp_path / "out.csv")
    expected, quantiles = model.predict_interval(frame, coverage), model.predict_quantiles(frame, [0.01, 0.99])
    np.testing.assert_allclose(found[["lower", "upper"]], expected, rtol=1e-9)
    np.testing.assert_allclose(found[["q0.01", "q0.99"]], quantiles, rtol=1e-9)
    assert ((expected[:, 0] == 0.0) & (quantiles[:, 0] > 0.0)).any()


@pytest.mark.parametrize("name", ["out.tsv", "out.csv.gz", "out.parquet"])
def test_files_of_all_kinds(home, run, tmp_path, name, model, inputs):
    read_table(home / "flats.csv").to_parquet(tmp_path / "flats.parquet")
    words = ("predict", home / "flats.bdkn", tmp_path / "flats.parquet", "--out", tmp_path / name)
    result = run(*words, "--keep", "rooms,area", "--no-support", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"rows": 120, "support": {}, "out": str(tmp_path / name), "notes": []}
    found = read_table(tmp_path / name)
    assert list(found.columns) == ["rooms", "area", "mean", "std", "lower", "upper"]
    np.testing.assert_allclose(found["mean"], model.predict(inputs), rtol=1e-9)
    assert found["rooms"].tolist() == inputs["rooms"].tolist()


def test_standard_input_and_output(home, run, model, inputs):
    text = (home / "flats.csv").read_text()
    result = run("predict", home / "flats.bdkn", "-", "--keep", "area", "--density", "student-t", input=text)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == '"area","mean","std","lower","upper","support","support_column"'
    assert len(lines) == 121
    means = [float(line.split(",")[1]) for line in lines[1:]]
    np.testing.assert_allclose(means, model.without_shape().predict(inputs), rtol=1e-9)
    assert lines[6].startswith('"",')


def test_many_blocks_are_in_the_order_of_the_rows(home, run, tmp_path, monkeypatch, model, inputs):
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 600)
    result = run("predict", home / "flats.bdkn", home / "flats.csv", "--out", tmp_path / "out.csv", "--jobs", 3)
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(read_table(tmp_path / "out.csv")["mean"], model.predict(inputs), rtol=1e-6)


def test_results_are_in_order_and_few_parts_are_in_memory():
    read, done = [], []
    lock = threading.Lock()

    def parts():
        for part in range(12):
            read.append(part)
            yield part

    def work(part):
        time.sleep(0.01 * (part % 3))
        with lock:
            done.append(part)
        return 10 * part

    seen = []
    for result in in_order(work, parts(), 3):
        seen.append(result)
        assert len(read) - len(seen) <= 3
    assert seen == [10 * part for part in range(12)]
    assert list(in_order(work, iter([2, 1]), 1)) == [20, 10]


def test_other_columns_and_their_order_do_not_matter(home, run, tmp_path, model, inputs):
    table = pd.read_csv(home / "flats.csv", dtype={"id": str})
    table[["price", "lift", "built", "rooms", "district", "area"]].to_csv(tmp_path / "turned.csv", index=False)
    result = run("predict", home / "flats.bdkn", tmp_path / "turned.csv", "--out", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(read_table(tmp_path / "out.csv")["mean"], model.predict(inputs), rtol=1e-9)


def test_rows_unlike_the_training_rows_are_told(home, run, tmp_path):
    table = pd.read_csv(home / "flats.csv", dtype={"id": str})
    table["area"] = 5000.0
    table.to_csv(tmp_path / "large.csv", index=False)
    result = run("predict", home / "flats.bdkn", tmp_path / "large.csv", "--out", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    assert (
        "120 of 120 rows of large.csv are unlike the training rows (120 beyond the range of a column)" in result.stderr
    )
    found = read_table(tmp_path / "out.csv")
    assert set(found["support"]) == {"outside"}
    assert set(found["support_column"]) == {"area"}


WRONG = {
    ("--keep", "are"): "must have the column 'are'",
    ("--quantiles", "0.5;0.9"): "--quantiles must be numbers separated by commas, as 0.1,0.9; got '0.5;0.9'",
    ("--quantiles", "1.5"): "each level in --quantiles must be a number >= 0 and <= 1; got 1.5",
    ("--density", "normal"): "--density must be one of 'auto', 'student-t'",
    ("--out", "predicted.xlsx"): "must end in one of",
    ("--json",): "--json prints a summary on standard output; name a file for the table",
}


@pytest.mark.parametrize("options", WRONG, ids=" ".join)
def test_mistakes_are_told(home, run, options):
    result = run("predict", home / "flats.bdkn", home / "flats.csv", *options)
    assert result.exit_code == 2
    assert WRONG[options] in result.stderr
    assert "Traceback" not in result.output


def test_a_table_without_a_column_or_without_rows(home, run, tmp_path):
    table = pd.read_csv(home / "flats.csv")
    table.drop(columns=["area", "rooms"]).to_csv(tmp_path / "less.csv", index=False)
    result = run("predict", home / "flats.bdkn", tmp_path / "less.csv", "--out", tmp_path / "out.csv")
    assert result.exit_code == 2
    assert "must have the columns 'area', 'rooms'; it has 'id', 'district', 'lift', 'built', 'price'" in result.stderr
    table[:0].to_csv(tmp_path / "none.csv", index=False)
    result = run("predict", home / "flats.bdkn", tmp_path / "none.csv", "--out", tmp_path / "out.csv")
    assert result.exit_code == 2
    assert "must have at least one row to predict" in result.stderr
    assert not (tmp_path / "out.csv").exists()


def test_a_cell_that_is_no_number_is_named_and_leaves_no_output(home, run, tmp_path):
    text = (home / "flats.csv").read_text().splitlines()
    text[50] = text[50].replace(text[50].split(",")[1], "large")
    (tmp_path / "odd.csv").write_text("\n".join(text))
    result = run("predict", home / "flats.bdkn", tmp_path / "odd.csv", "--out", tmp_path / "out.csv")
    assert result.exit_code == 2
    assert "must hold numbers; line 51 has 'large'" in result.stderr
    assert [item.name for item in tmp_path.iterdir()] == ["odd.csv"]


def test_the_input_and_the_model_are_not_overwritten(home, run):
    words = ("predict", home / "flats.bdkn", home / "flats.csv", "--out")
    assert "the output must not be the input" in run(*words, home / "flats.csv").stderr


def test_copied_columns_must_not_have_the_names_of_predictions(home, run, tmp_path):
    pd.read_csv(home / "flats.csv").rename(columns={"price": "mean"}).to_csv(tmp_path / "t.csv", index=False)
    result = run("predict", home / "flats.bdkn", tmp_path / "t.csv", "--keep", "mean")
    assert "columns that are copied must not be named as those that are written; got mean" in result.stderr


def test_models_without_names_or_files_that_are_no_models(home, run, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    bdkn.BDKNRegressor(n_members=2, epochs=2, random_state=0).fit(X, X[:, 0]).save(tmp_path / "array.bdkn")
    result = run("predict", tmp_path / "array.bdkn", home / "flats.csv")
    assert result.exit_code == 2
    assert "the model must have the names of its columns" in result.stderr
    assert "there is no model file" in run("predict", tmp_path / "none.bdkn", home / "flats.csv").stderr
    assert "cannot be read as a bdkn model" in run("predict", home / "flats.csv", home / "flats.csv").stderr
