"""The command as a whole, and what reproduction/README.md says about it."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bdkn_paper.cli import app
from bdkn_paper.experiments import parse_experiment

FOLDER = Path(__file__).parents[2]
README = (FOLDER / "README.md").read_text()
HEAVY = ("torch", "numba", "matplotlib", "sklearn", "scipy", "numpy", "pandas", "jinja2", "pooch")


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["data", "--help"]])
def test_help_loads_nothing_heavy(words):
    script = (
        f"import sys; from bdkn_paper.cli import app; app({words}, standalone_mode=False, prog_name='bdkn-paper'); "
        f"print('loaded:', *[name for name in {HEAVY} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1].strip() == "loaded:"


def test_version():
    try:
        version("bdkn-paper")
    except PackageNotFoundError:
        pytest.skip("bdkn-paper is not installed")
    result = CliRunner().invoke(app, ["--version"])
    assert result.output == f"bdkn-paper {version('bdkn-paper')}, bdkn {version('bdkn')}\n"


@pytest.mark.parametrize("command", sorted(set(re.findall(r"^bdkn-paper ((?:data )?[a-z]+)", README, re.MULTILINE))))
def test_commands_of_the_readme_exist(command):
    assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0


def test_the_experiment_of_the_readme_can_be_read(tmp_path):
    (block,) = re.findall(r"```toml\n(.*?)```", README, flags=re.DOTALL)
    (tmp_path / "bridges.csv").write_text("span,load\n1,2\n2,3\n3,5\n4,6\n")
    experiment = parse_experiment(tomllib.loads(block), tmp_path)
    assert len(experiment.cells(experiment.source())) == 40


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_links_of_the_readme_lead_somewhere(link):
    assert (FOLDER / link).exists()
