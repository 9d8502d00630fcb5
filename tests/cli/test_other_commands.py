import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import bdkn
from bdkn.metrics import coverage, crps
from bdkn.table_files import read_table


@pytest.fixture
def labelled(home):
    table = read_table(home / "flats.csv").dropna(subset="price")
    return table[list(bdkn.load(home / "flats.bdkn").feature_names_in_)], table["price"].to_numpy()


def test_evaluate_prints_scores_calibration_and_the_worst_rows(home, run, labelled):
    result = run("evaluate", home / "flats.bdkn", home / "flats.csv", "--worst", 2)
    assert result.exit_code == 0, result.output
    assert "Half of the predictions of 'price' are off by less than" in result.stdout
    assert "Rows predicted worst" in result.stdout
    found = json.loads(run("evaluate", home / "flats.bdkn", home / "flats.csv", "--json", "-q").stdout)
    model, (X, y) = bdkn.load(home / "flats.bdkn"), labelled
    dist = model.predict_dist(X)
    assert found["crps"] == pytest.approx(crps(y, dist))
    assert dict(found["calibration"])[0.9] == pytest.approx(coverage(y, dist, 0.9))
    worst = int(np.argmin(dist.logpdf(y)))
    assert found["worst"][0]["target"] == y[worst]
    assert found["worst"][0]["row"] == (worst + 2 if worst >= 3 else worst + 1)  # row 4 has no target
    assert len(found["worst"]) == 5


def test_evaluate_needs_the_columns_of_the_model(home, run, tmp_path):
    read_table(home / "flats.csv").drop(columns="area").to_csv(tmp_path / "less.csv", index=False)
    result = run("evaluate", home / "flats.bdkn", tmp_path / "less.csv")
    assert result.exit_code == 2
    assert "'area'" in result.stderr


def test_inspect_tells_what_is_in_a_model(home, run):
    result = run("inspect", home / "flats.bdkn")
    assert result.exit_code == 0, result.output
    for text in ("BDKNRegressor", "flats.csv, 119 rows", "price", "network 1", "the day as a number"):
        assert text in result.stdout
    found = json.loads(run("inspect", home / "flats.bdkn", "--json").stdout)
    assert found["parameters"]["epochs"] == 20
    assert [row["name"] for row in found["columns"]] == ["area", "district", "rooms", "lift", "built"]
    model = bdkn.load(home / "flats.bdkn")
    assert dict(found["members"]) == dict(zip(model.member_names_, model.weights_.tolist(), strict=True))
    assert found["made"]["target"] == "price"


def test_inspect_of_a_model_made_in_python(run, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    bdkn.DeepEnsembleRegressor(n_members=2, epochs=2, random_state=0).fit(X, X[:, 0]).save(tmp_path / "m.bdkn")
    result = run("inspect", tmp_path / "m.bdkn")
    assert result.exit_code == 0, result.output
    assert "not known: made in Python" in result.stdout
    result = run("evaluate", tmp_path / "m.bdkn", tmp_path / "m.bdkn")
    assert "--target must be given" in result.stderr


def test_update_judges_new_rows_and_absorbs_them(home, run, tmp_path, monkeypatch, labelled):
    calls = []

    def partial_fit(self, X, y, *, forgetting=1.0):
        calls.append((len(X), len(y), forgetting))
        return self

    monkeypatch.setattr(bdkn.BDKNRegressor, "partial_fit", partial_fit, raising=False)
    words = ("update", home / "flats.bdkn", home / "flats.csv", "--out", tmp_path / "new.bdkn", "--forgetting", 0.9)
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert calls == [(119, 119, 0.9)]
    assert "The new rows, before the model learned from them (119 rows):" in result.stdout
    assert "noise (standard deviation)" in result.stdout
    assert bdkn.load(tmp_path / "new.bdkn").made_["absorbed"] == ["119 rows of flats.csv"]


def test_update_of_a_model_that_cannot_absorb_rows(home, run, tmp_path):
    X = pd.DataFrame({"area": np.arange(40.0)})
    bdkn.DeepEnsembleRegressor(n_members=2, epochs=2, random_state=0).fit(X, X["area"] ** 2).save(tmp_path / "m.bdkn")
    result = run("update", tmp_path / "m.bdkn", home / "flats.csv", "--target", "price", "--out", tmp_path / "n.bdkn")
    assert result.exit_code == 2
    assert "a DeepEnsembleRegressor cannot" in result.stderr


@dataclass
class Explanation:
    """What ``explain`` returns, for two columns."""

    columns = ("rooms", "area")
    parts = ("mean", "variance")
    base = np.array([100.0, 4.0])
    prediction = np.array([[130.0, 9.0]])
    values = np.array([[[10.0, 1.0], [20.0, 4.0]]])


def test_explain_shows_what_columns_add(home, run, monkeypatch):
    seen = []

    def fake(self, X, background=None, **options):
        seen.append((len(X), len(background), options))
        return Explanation()

    monkeypatch.setattr(bdkn.BDKNRegressor, "explain", fake, raising=False)
    words = ("explain", home / "flats.bdkn", home / "flats.csv")
    result = run(*words, "--row", 2, "--seed", 3)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert ["average", "prediction", "100", "4"] in lines
    area = read_table(home / "flats.csv")["area"][1]
    assert ["area", "=", str(area), "+20", "+4"] in lines
    assert ["row", "2", "130", "9"] in lines
    found = json.loads(run(*words, "--json").stdout)
    assert [row["column"] for row in found["columns"]] == ["area", "rooms"]
    assert seen == [(1, 120, {"max_rows": 100, "random_state": 3}), (120, 120, {"max_rows": 100, "random_state": 0})]
    assert "--row must be at most 120" in run(*words, "--row", 121).stderr


def test_report_calls_the_page(home, run, tmp_path, monkeypatch):
    import bdkn.report

    seen = {}

    def write_page(model, X, y, path, **options):
        seen.update(options, rows=len(y), columns=list(X.columns))
        path.write_text("<html>")

    monkeypatch.setattr(bdkn.report, "write_page", write_page, raising=False)
    words = ("report", home / "flats.bdkn", home / "flats.csv", "--out")
    result = run(*words, tmp_path / "page.html", "--title", "Flats")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Page: {tmp_path / 'page.html'}\n"
    assert seen == {
        "title": "Flats",
        "target_name": "price",
        "rows": 119,
        "columns": ["area", "district", "rooms", "lift", "built"],
    }
    assert "the ending of --out must be one of '.html', '.htm'; got '.pdf'" in run(*words, tmp_path / "page.pdf").stderr
