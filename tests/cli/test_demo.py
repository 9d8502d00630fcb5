import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from bdkn.cli import app
from bdkn.regressors import BDKNRegressor, DeepEnsembleRegressor
from bdkn.report import ConstantGaussian

SMALL = {"n_members": 3, "hidden_layer_sizes": (8,), "epochs": 5, "engine": "reference"}


@pytest.fixture
def small(monkeypatch):
    """Let the demo fit small models."""

    def models(seed, verbose):
        common = {**SMALL, "random_state": seed, "verbose": verbose}
        return {
            "BDKN": BDKNRegressor(**common),
            "Deep ensemble": DeepEnsembleRegressor(**common),
            "Constant Gaussian": ConstantGaussian(),
        }

    monkeypatch.setattr("bdkn.cli.demo.models", models)


def run(*words):
    return CliRunner().invoke(app, ["demo", *map(str, words)])


def numbers(folder):
    return json.loads((folder / "summary.json").read_text("utf-8"))


@pytest.mark.usefixtures("small")
def test_demo_prints_tables_and_writes_the_report(tmp_path):
    result = run("--out", tmp_path / "report", "--picture", tmp_path / "demo.png", "--seed", 3)
    assert result.exit_code == 0, result.output
    scores = numbers(tmp_path / "report")["scores"]
    for score in scores:
        (line,) = [line for line in result.stdout.splitlines() if line.strip().startswith(score["model"] + "  ")]
        assert line.split()[-6:-5] == [f"{score['rmse']:#.4g}"]
        assert f"{score['coverage']:.1%}" in line
    assert "95% interval" in result.stdout
    assert result.stdout.count("network ") == len(numbers(tmp_path / "report")["weights"])
    assert result.stdout.splitlines()[-2:] == [
        f"Report: {tmp_path / 'report' / 'index.html'}",
        f"Picture: {tmp_path / 'demo.png'}",
    ]
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "random_state=3" in numbers(tmp_path / "report")["models"]["BDKN"]


@pytest.mark.usefixtures("small")
def test_progress_goes_to_standard_error_unless_quiet(tmp_path):
    loud, quiet = run("--out", tmp_path), run("--out", tmp_path, "--quiet")
    assert "fitting BDKN" in loud.stderr
    assert "fitting" not in loud.stdout
    assert quiet.stderr == ""
    assert "Scores on 111 test rows" in quiet.stdout


@pytest.mark.usefixtures("small")
def test_the_seed_determines_the_scores_and_a_second_run_replaces_the_first(tmp_path):
    nll = []
    for seed in (0, 0, 1):
        assert run("--out", tmp_path, "--seed", seed, "--quiet").exit_code == 0
        nll.append(numbers(tmp_path)["scores"][0]["nll"])
    assert nll[0] == nll[1] != nll[2]
    assert len(list(tmp_path.iterdir())) == 8


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
    shown = subprocess.run(words, capture_output=True, text=True, check=True, timeout=240)
    assert f"Report: {tmp_path / 'index.html'}" in shown.stdout
    bdkn, published, ensemble, constant = numbers(tmp_path)["scores"]
    assert 0.84 <= bdkn["coverage"] <= 0.96
    assert bdkn["calibration_error"] < 0.05
    assert bdkn["rmse"] < 0.85 * constant["rmse"]
    assert bdkn["nll"] < constant["nll"] - 0.2
    for other in (published, ensemble):
        assert bdkn["nll"] < other["nll"]
        assert bdkn["crps"] < other["crps"]
