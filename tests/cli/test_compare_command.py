import json

import numpy as np
import pandas as pd
import pytest

from bdkn.cli import compare as peers
from bdkn.cli.compare import METHODS, EncodedPeer, _limit, chosen_methods, plain_frame, usual_encoder
from bdkn.errors import InvalidParameterError


def test_methods_are_compared_on_the_same_folds(home, run, tmp_path):
    words = ("compare", home / "flats.csv", "--target", "price", "--drop", "id", "--folds", 3)
    result = run(*words, "--methods", "ridge,mean,process,boosting", "--picture", tmp_path / "c.png", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["methods"]
    assert [one["crps"] for one in found] == sorted(one["crps"] for one in found)
    assert found[-1]["method"] == "mean"
    ridge = next(one for one in found if one["method"] == "ridge")
    assert ridge["rmse"] < 20
    assert ridge["rmse"] == pytest.approx(np.mean(ridge["folds"]["rmse"]))
    assert len(ridge["folds"]["nll"]) == 3
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert [item.name for item in (tmp_path).iterdir()] == ["c.png"]
    assert "Bayesian ridge: fitting 3 folds" in result.stderr


@pytest.mark.parametrize("options", [("--time", "built"), ("--groups", "rooms")])
def test_folds_by_time_and_by_group(home, run, options):
    words = (
        "compare",
        home / "flats.csv",
        "--target",
        "price",
        "--features",
        "area",
        "--folds",
        2,
        "--methods",
        "ridge",
    )
    result = run(*words, *options, "-q")
    assert result.exit_code == 0, result.output
    assert "Bayesian ridge" in result.stdout


@pytest.mark.parametrize("name", ["ngboost", "catboost"])
def test_peers_that_are_installed_predict_gaussians(name):
    pytest.importorskip(name)
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=80), "kind": rng.choice(["a", "b"], 80)})
    y = 3 * X["x"].to_numpy() + (X["kind"] == "b").to_numpy() + 0.1 * rng.normal(size=80)
    peer = METHODS[name].make(0, "fast")
    peer.model.set_params(**({"n_estimators": 40} if name == "ngboost" else {"iterations": 200}))
    dist = peer.fit(X, y).predict_dist(X)
    assert np.corrcoef(dist.mean(), y)[0, 1] > 0.9
    assert (dist.std() > 0).all()


def test_methods_of_bdkn_and_the_mean_can_be_made():
    for name in ("bdkn", "stack", "deep-ensemble"):
        assert METHODS[name].make(3, "fast").random_state == 3
    assert METHODS["mean"].make(0, "fast").fit(None, [1.0, 3.0]).predict_dist([0]).mean() == 2.0


def test_usual_encoders_take_mixed_columns():
    X = pd.DataFrame(
        {
            "number": [1.0, np.nan, 3.0, 4.0],
            "flag": pd.array([True, None, False, True], "boolean"),
            "when": pd.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-04"]),
            "kind": ["a", None, "b", "a"],
        }
    )
    plain = plain_frame(X)
    assert plain["flag"].tolist()[::2] == [1.0, 0.0]
    assert plain["when"].diff().tolist()[3] == 1.0
    assert plain["kind"].tolist() == ["a", "missing", "b", "a"]
    assert usual_encoder(plain).fit_transform(plain, np.arange(4.0)).shape == (4, 6)


def test_methods_that_cannot_be_used(monkeypatch):
    assert "process" not in chosen_methods((), 10_000)
    assert "process" in chosen_methods((), 100)
    with pytest.raises(InvalidParameterError, match="did you mean 'catboost'"):
        chosen_methods(("catbost",), 10)
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    with pytest.raises(InvalidParameterError, match="method 'ngboost' needs ngboost; run: pip install ngboost"):
        chosen_methods(("ngboost",), 10)


def test_too_few_rows_for_the_folds(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,2\n2,3\n3,4\n")
    result = run("compare", tmp_path / "t.csv", "--target", "y", "--folds", 5)
    assert result.exit_code == 2
    assert "5 folds need at least 10 rows with a target; got 3" in result.stderr


def test_early_stopping_leaves_out_a_tenth_of_the_rows():
    class Model:
        def fit(self, X, y, **validation):
            self.sizes = (len(y), {name: len(part) for name, part in validation.items()})

    X, y = pd.DataFrame({"x": np.arange(100.0)}), np.arange(100.0)
    peer = EncodedPeer(Model(), lambda model, X: (0, 0), lambda X, y: {"left": y}).fit(X, y)
    assert peer.model.sizes == (90, {"left": 10})
    assert EncodedPeer(Model(), lambda model, X: (0, 0)).fit(X, y).model.sizes == (100, {})


def test_a_mean_far_beyond_the_others_does_not_stretch_the_picture():
    assert _limit([1.0, 1.2, 1.5, 1.6, 1.9]) == 1.9
    assert _limit([1.0, 1.2, 1.5, 1.6, 100.0]) < 2.0


def test_paths_that_a_picture_cannot_have(home, run, tmp_path):
    (tmp_path / "demo.png").mkdir()
    for name, message in (
        ("demo.jpg", "must be one of '.png', '.svg', '.pdf'; got '.jpg'"),
        ("demo.png", "is a folder"),
    ):
        result = run("compare", home / "flats.csv", "--target", "price", "--picture", tmp_path / name)
        assert result.exit_code == 2
        assert message in result.stderr
