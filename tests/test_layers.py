"""Layers are kept; see the contracts in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

import pytest


def test_imports_follow_the_layers():
    pytest.importorskip("importlinter")
    script = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 broken" in run.stdout
