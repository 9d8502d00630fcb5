"""Help of every verb is shown at once and teaches by an example."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from bdkn.cli import app

VERBS = ["fit", "predict", "evaluate", "report", "explain", "inspect", "update", "compare"]
HEAVY = ("torch", "numba", "matplotlib", "sklearn", "scipy", "numpy", "pandas", "pyarrow", "jinja2")


@pytest.mark.no_cover
def test_help_of_no_verb_loads_anything_heavy():
    script = (
        "import sys\nfrom bdkn.cli import app\n"
        f"for verb in {VERBS}:\n    app([verb, '--help'], standalone_mode=False, prog_name='bdkn')\n"
        f"print('loaded:', *[name for name in {HEAVY} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1].strip() == "loaded:"


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb):
    shown = CliRunner().invoke(app, [verb, "--help"]).output
    assert "Example:" in shown
    assert f"bdkn {verb} flats" in shown


def test_every_verb_is_in_the_help():
    shown = CliRunner().invoke(app, ["--help"]).output
    for verb in VERBS:
        assert f" {verb} " in shown
