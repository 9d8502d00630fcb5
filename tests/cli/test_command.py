import subprocess
import sys

import pytest
from typer.testing import CliRunner

import bdkn
from bdkn.cli import app

HEAVY = ("torch", "numba", "matplotlib", "sklearn", "scipy", "numpy", "pandas", "jinja2")


@pytest.mark.parametrize("words", [["--help"], ["demo", "--help"], ["--version"]])
def test_help_and_version_load_nothing_heavy(words):
    script = (
        f"import sys; from bdkn.cli import app; app({words}, standalone_mode=False, prog_name='bdkn'); "
        f"print('loaded:', *[name for name in {HEAVY} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1].strip() == "loaded:"


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"bdkn {bdkn.__version__}\n")


def test_python_m_bdkn():
    run = subprocess.run([sys.executable, "-m", "bdkn", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: bdkn [OPTIONS] COMMAND" in run.stdout
    assert "demo" in run.stdout


def test_no_arguments_print_help():
    assert "Usage:" in CliRunner().invoke(app, []).output


def test_an_unknown_verb():
    result = CliRunner().invoke(app, ["dmo"])
    assert result.exit_code == 2
    assert "No such command 'dmo'" in result.output
