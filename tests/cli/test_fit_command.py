import json

import numpy as np
import pandas as pd
import pytest
from flats_table import mixed_table

import bdkn
from bdkn.cli.fit import Estimate, Training, held_out_estimate
from bdkn.estimators import members
from bdkn.predictive import Gaussian


def test_a_fit_ends_with_an_honest_estimate(home):
    lines = (home / "fit.txt").read_text().splitlines()
    assert lines[0] == "Estimated from rows that were held out of training in turn (119 rows):"
    assert lines[1].startswith("  Half of the predictions of 'price' are off by less than ")
    assert "smaller than that of predicting the mean for every row (R² = 0." in lines[2]
    assert " of 119 held-out rows (" in lines[3]
    assert ") lie inside their 90% interval, which is " in lines[3]
    assert "NLL" in lines[4]
    assert lines[5] == f"Model: {home / 'flats.bdkn'}"


def test_the_estimate_is_that_of_leave_one_out(home):
    model = bdkn.load(home / "flats.bdkn")
    found = held_out_estimate(model, 0.9)
    curve = model.member_curve()
    assert found.rmse == pytest.approx(curve["rmse"][-1], rel=1e-6)
    assert found.nll == pytest.approx(-curve["log_score"][-1], rel=1e-6)
    assert model.made_["estimate"]["rmse"] == found.rmse


def test_numbers_of_an_estimate():
    y = np.array([0.0, 2.0, 4.0, 6.0])
    found = Estimate.of(y, Gaussian(y + 1.0, np.full(4, 0.5)), 0.9, "By hand")
    assert (found.rmse, found.typical_error, found.coverage) == (1.0, 1.0, 0.0)
    assert found.r2 == pytest.approx(1 - 1 / 5)
    assert "0 of 4 rows (0.0%) lie inside their 90% interval" in found.sentences("y")[3]
    uneven = Estimate.of(y, Gaussian(y + np.array([0.0, 1.0, 2.0, -9.0]), np.full(4, 0.5)), 0.9, "By hand")
    assert (uneven.rmse, uneven.typical_error) == (pytest.approx(np.sqrt(86 / 4)), 1.5)  # half of the errors are less
    worse = Estimate.of(y, Gaussian(np.full(4, 100.0), np.full(4, 0.5)), 0.9, "By hand")
    assert "predicting the mean for every row is as good" in worse.sentences("y")[2]


@pytest.mark.usefixtures("small_fits")
def test_json_holds_the_estimate_and_the_notes(home, run, tmp_path):
    words = ("fit", home / "flats.csv", "--target", "price", "--features", "area,rooms", "--out", tmp_path / "m.bdkn")
    result = run(*words, "--json", "--coverage", 0.8)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["inputs"] == ["area", "rooms"]
    assert found["estimate"]["level"] == 0.8
    assert found["estimate"]["rows"] == 119
    assert "1 of 120 rows have no 'price' and are not used" in found["notes"]
    assert "Note: 1 of 120 rows have no 'price' and are not used" in result.stderr
    assert "Fitting bdkn to 119 rows and 2 columns" in result.stderr


@pytest.mark.usefixtures("small_fits")
def test_rows_in_the_order_of_time(home, run, tmp_path, monkeypatch):
    seen = {}
    former = bdkn.BDKNRegressor.fit

    def fit(self, X, y, **options):
        seen.update(cv=self.cv, X=X, **options)
        return former(self, X, y, **options)

    monkeypatch.setattr(bdkn.BDKNRegressor, "fit", fit)
    words = ("fit", home / "flats.csv", "--target", "price", "--drop", "id", "--out", tmp_path / "m.bdkn", "-q")
    assert run(*words, "--time", "built").exit_code == 0
    assert type(seen["cv"]).__name__ == "TimeSeriesSplit"
    assert list(seen["X"].columns) == ["area", "district", "rooms", "lift"]
    table = pd.read_csv(home / "flats.csv").dropna(subset="price").sort_values("built")
    assert seen["X"]["rooms"].tolist() == table["rooms"].tolist()


@pytest.mark.usefixtures("small_fits")
def test_groups_and_weights_reach_the_fit(home, run, tmp_path, monkeypatch):
    seen = {}
    former = bdkn.BDKNRegressor.fit

    def fit(self, X, y, **options):
        seen.update(X=X, **options)
        return former(self, X, y, **options)

    monkeypatch.setattr(bdkn.BDKNRegressor, "fit", fit)
    words = ("fit", home / "flats.csv", "--target", "price", "--drop", "id,built", "--out", tmp_path / "m.bdkn", "-q")
    result = run(*words, "--groups", "district", "--weights", "rooms", "--lower", 0)
    assert result.exit_code == 2
    assert "--groups must have a label in every row; column 'district' lacks one in row 10" in result.stderr
    pd.read_csv(home / "flats.csv").dropna(subset="district").to_csv(tmp_path / "known.csv", index=False)
    words = ("fit", tmp_path / "known.csv", *words[2:])
    assert run(*words, "--groups", "district", "--weights", "rooms", "--lower", 0).exit_code == 0
    assert set(seen["groups"]) == {"north", "south", "east"}
    assert seen["sample_weight"].min() == 1.0
    assert list(seen["X"].columns) == ["area", "lift"]


@pytest.mark.usefixtures("small_fits")
def test_a_deep_ensemble_is_judged_by_a_fifth_of_the_rows(home, run, tmp_path):
    words = ("fit", home / "flats.csv", "--target", "price", "--features", "area", "--method", "deep-ensemble")
    result = run(*words, "--out", tmp_path / "m.bdkn", "-q")
    assert result.exit_code == 0, result.output
    assert "Estimated from a fifth of the rows, held out of a fit for this purpose (23 rows):" in result.stdout
    assert type(bdkn.load(tmp_path / "m.bdkn")).__name__ == "DeepEnsembleRegressor"


@pytest.mark.no_cover
def test_a_stack_is_judged_by_its_held_out_rows(home, run, tmp_path, monkeypatch):
    """It is fitted with the same options as networks, and its page explains why it has no what-if."""
    from sklearn.linear_model import Ridge

    seen, former = {}, Training.regressor

    def regressor(self):
        seen["model"] = former(self)
        return seen["model"]

    monkeypatch.setattr(Training, "regressor", regressor)
    few = [("ridge", Ridge()), ("strong", Ridge(100.0))]  # the default members take longer
    monkeypatch.setattr(members, "default_estimators", lambda *_, **__: few)
    words = ("--target", "price", "--drop", "id,district", "--method", "stack", "--out", tmp_path / "m.bdkn")
    result = run("fit", home / "flats.csv", *words, "--time", "built", "--lower", 0, "--time-limit", 60, "-q")
    assert result.exit_code == 0, result.output
    made = seen["model"]
    assert (type(made.cv).__name__, made.lower, made.time_limit) == ("TimeSeriesSplit", 0.0, 60.0)
    assert "Estimated from rows that were held out of training in turn" in result.stdout
    model = bdkn.load(tmp_path / "m.bdkn")
    assert model.member_names_ == ("ridge", "strong")
    predicted = run("predict", tmp_path / "m.bdkn", home / "flats.csv", "--out", tmp_path / "predicted.csv")
    assert predicted.exit_code == 0, predicted.output
    assert run("report", tmp_path / "m.bdkn", home / "flats.csv", "--out", tmp_path / "m.html").exit_code == 0
    assert "The what-if is omitted: its members are not networks" in (tmp_path / "m.html").read_text("utf-8")


WRONG = {
    ("--target", "prise"): "--target must be one of 'id', 'area', 'district', 'rooms', 'lift', 'built', 'price'; got "
    "'prise'; did you mean 'price'?",
    ("--target", "district"): "column of numbers; column 'district' holds text; row 1 has 'south'",
    ("--target", "lift"): "holds true and false, which is a matter of classification",
    ("--target", "built"): "column 'built' holds dates",
    ("--target", "price", "--features", "price"): "--features must not contain the target",
    ("--target", "price", "--drop", "idd"): "each column in --drop must be one of",
    ("--target", "price", "--method", "forest"): "--method must be one of 'bdkn', 'deep-ensemble', 'stack'",
    ("--target", "price", "--effort", "most"): "--effort must be one of 'fast', 'balanced', 'best'",
    ("--target", "price", "--time", "district"): "--time must name a column of dates, such as 2024-03-31, or numbers",
    ("--target", "price", "--time", "built", "--groups", "district"): "--time and --groups cannot both",
    ("--target", "price", "--method", "deep-ensemble", "--lower", "0"): "--time-limit need --method bdkn or stack",
    ("--target", "price", "--method", "deep-ensemble", "--time-limit", "9"): "but --effort fast",
    ("--target", "price", "--jobs", "0"): "--jobs must be an integer other than 0",
    (
        "--target",
        "price",
        "--features",
        "area",
        "--drop",
        "area,id,district,rooms,lift,built",
    ): "there must be an input",
}


@pytest.mark.parametrize("options", WRONG, ids=" ".join)
def test_mistakes_are_told_before_training(home, run, tmp_path, options, monkeypatch):
    monkeypatch.setattr(bdkn.BDKNRegressor, "fit", lambda *args, **kwargs: pytest.fail("fitted before looking"))
    result = run("fit", home / "flats.csv", "--out", tmp_path / "m.bdkn", *options)
    assert result.exit_code == 2
    assert WRONG[options] in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_written_is_told_before_training(home, run, tmp_path):
    words = ("fit", home / "flats.csv", "--target", "price", "--out")
    assert "does not exist; create it first" in run(*words, tmp_path / "none" / "m.bdkn").stderr
    assert "the output must not be the input" in run(*words, home / "flats.csv").stderr
    assert "must end in one of" in run("fit", home / "fit.md", "--target", "y", "--out", tmp_path / "m.bdkn").stderr


def test_an_empty_target_and_infinite_numbers(run, tmp_path):
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [np.nan] * 3})
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m.bdkn")
    assert "column 'y' is empty in all 3 rows" in run(*words).stderr
    (tmp_path / "t.csv").write_text("a,y\n1,2\n2,inf\n")
    assert "row 2 of column 'y' is infinite" in run(*words).stderr


@pytest.mark.usefixtures("small_fits")
def test_columns_that_are_not_used_are_told(home, run, tmp_path):
    result = run("fit", home / "flats.csv", "--target", "price", "--features", "area,id", "--out", tmp_path / "m.bdkn")
    assert result.exit_code == 0, result.output
    assert "Note: column 'id' is not used: 119 of 119 values are different single words" in result.stderr


def test_a_table_as_people_write_it(home, run, tmp_path, small_fits):
    frame = mixed_table(80).drop(columns="id").assign(nothing=None)
    frame["built"], frame["area"] = frame["built"].dt.strftime("%d.%m.%Y"), frame["area"].map("{:,.1f}".format)
    frame["price"] = frame["price"].map("CHF {:,.2f}".format, na_action="ignore")
    data, model = tmp_path / "written.csv", tmp_path / "written.bdkn"
    frame.to_csv(data, index=False)
    fitted = run("fit", data, "--target", "price", "--out", model)
    assert fitted.exit_code == 0, fitted.output
    assert "column 'price' is text that reads as numbers, with separators of thousands or units" in fitted.stderr
    assert {row["name"]: row["kind"] for row in bdkn.load(model).columns_.rows}["built"] == "date"
    new = frame.drop(columns=["nothing", "price"]).iloc[:1].assign(lift=None, built="03.04.2020")
    new.to_csv(tmp_path / "new.csv", index=False)
    predicted = run("predict", model, tmp_path / "new.csv")
    assert predicted.exit_code == 0, predicted.output
    assert "Note: column 'lift' is missing in 1 of 1 rows, and was never in training" in predicted.stderr
    assert "1 row predicted" in predicted.stderr


def test_a_page_about_equal_targets(run, tmp_path, small_fits):
    data, model = tmp_path / "equal.csv", tmp_path / "equal.bdkn"
    mixed_table(40).assign(price=5.0).to_csv(data, index=False)
    fitted = run("fit", data, "--target", "price", "--drop", "id", "--out", model)
    assert "All rows have the same target" in fitted.stdout
    assert "nan" not in fitted.stdout
    page = run("report", model, data, "--out", tmp_path / "equal.html")
    assert page.exit_code == 0, page.output
    assert "invalid value" not in page.stderr


def test_a_table_with_names_only(run, tmp_path):
    (tmp_path / "names.csv").write_text("a,b\n")
    result = run("fit", tmp_path / "names.csv", "--target", "b", "--out", tmp_path / "m.bdkn")
    assert result.exit_code == 2
    assert "must have at least one row; it has a line of names only" in result.stderr
