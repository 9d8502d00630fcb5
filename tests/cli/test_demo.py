import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from bdkn.cli import app
from bdkn.regressors import BDKNRegressor, DeepEnsembleRegressor
from bdkn.report import ConstantGaussian

SMALL = {"n_members": 3, "hidden_layer_sizes": (8,), "epochs": 5, "engine": "reference"}


def small_models(seed, verbose):
    common = {**SMALL, "random_state": seed, "verbose": verbose}
    return {
        "BDKN": BDKNRegressor(**common),
        "Deep ensemble": DeepEnsembleRegressor(**common),
        "Constant Gaussian": ConstantGaussian(),
    }


def run_small(*words):
    """Run the demo with small models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bdkn.cli.demo.models", small_models)
        return run(*words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def loud(folder):
    """The demo with seed 3, a picture and progress."""
    return run_small("--out", folder / "report", "--picture", folder / "demo.png", "--seed", 3)


@pytest.fixture(scope="module")
def quiet(folder):
    """The demo with seed 0, without progress."""
    return run_small("--out", folder / "quiet", "--quiet")


def run(*words):
    return CliRunner().invoke(app, ["demo", *map(str, words)])


def numbers(folder):
    return json.loads((folder / "summary.json").read_text("utf-8"))


def test_demo_prints_tables_and_writes_the_report(loud, folder):
    assert loud.exit_code == 0, loud.output
    scores = numbers(folder / "report")["scores"]
    for score in scores:
        (line,) = [line for line in loud.stdout.splitlines() if line.strip().startswith(score["model"] + "  ")]
        assert line.split()[-6:-5] == [f"{score['rmse']:#.4g}"]
        assert f"{score['coverage']:.1%}" in line
    assert "95% interval" in loud.stdout
    assert loud.stdout.count("network ") == len(numbers(folder / "report")["weights"])
    assert loud.stdout.splitlines()[-2:] == [
        f"Report: {folder / 'report' / 'index.html'}",
        f"Picture: {folder / 'demo.png'}",
    ]
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "random_state=3" in numbers(folder / "report")["models"]["BDKN"]


def test_progress_goes_to_standard_error_unless_quiet(loud, quiet):
    assert "fitting BDKN" in loud.stderr
    assert "fitting" not in loud.stdout
    assert quiet.stderr == ""
    assert "Scores on 111 test rows" in quiet.stdout


def test_the_seed_determines_the_scores_and_a_second_run_replaces_the_first(loud, quiet, folder):
    assert (loud.exit_code, quiet.exit_code) == (0, 0)
    nll = [numbers(folder / name)["scores"][0]["nll"] for name in ("quiet", "report")]
    assert run_small("--out", folder / "report", "--quiet").exit_code == 0
    nll.append(numbers(folder / "report")["scores"][0]["nll"])
    assert nll[0] == nll[2] != nll[1]
    assert len(list((folder / "report").iterdir())) == 8


@pytest.mark.parametrize("below", ["", "further/down"])
def test_a_file_at_the_path_of_the_folder_is_an_error(tmp_path, below, monkeypatch):
    monkeypatch.setattr("bdkn.cli.demo.fit", lambda *args, **kwargs: pytest.fail("fitted before looking"))
    (tmp_path / "report").write_text("mine")
    place = tmp_path / "report" / below
    result = run("--out", place)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        f"Error: the report must be written to a folder; got {place}, which is a file or below one: name another "
        "folder\n"
    )
    assert (tmp_path / "report").read_text() == "mine"


def test_a_picture_of_unknown_kind_is_refused_before_anything_is_made(tmp_path):
    result = run("--out", tmp_path / "report", "--picture", tmp_path / "demo.jpg")
    assert result.exit_code == 2
    assert "must be one of '.png', '.svg', '.pdf'; got '.jpg'" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_operating_system_are_printed_without_a_traceback(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied", "report")

    monkeypatch.setattr("bdkn.report.prepare_folder", refuse)
    result = run("--out", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == "Error: [Errno 13] Permission denied: 'report'\n"


def test_a_seed_must_not_be_negative(tmp_path):
    assert run("--out", tmp_path, "--seed", "-1").exit_code == 2


def test_the_true_demo_is_calibrated(tmp_path):
    """Run the command as users do: 90 % intervals contain about 90 %, and scores are better than without inputs."""
    words = [sys.executable, "-m", "bdkn", "demo", "--out", str(tmp_path)]
    shown = subprocess.run(words, capture_output=True, text=True, check=True, timeout=900)
    assert f"Report: {tmp_path / 'index.html'}" in shown.stdout
    bdkn, published, ensemble, constant = numbers(tmp_path)["scores"]
    assert 0.84 <= bdkn["coverage"] <= 0.96
    assert bdkn["calibration_error"] < 0.05
    assert bdkn["rmse"] < 0.85 * constant["rmse"]
    assert bdkn["nll"] < constant["nll"] - 0.2
    for other in (published, ensemble):
        assert bdkn["nll"] < other["nll"]
        assert bdkn["crps"] < other["crps"]
