"""The commands of docs/guide/command-line.md run, one after the other, in an empty folder; networks train briefly."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bdkn.networks import settings

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "command-line.md"

COMMAND = f"""#!{sys.executable}
from bdkn.__main__ import main
import pytest

from bdkn.networks import settings

usual = settings.default_size
settings.default_size = lambda n_rows: usual(n_rows)._replace(n_members=4, epochs=50)
main()
"""


def run_in_shell(script, environment):
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def is_plain(script):
    """Return whether a block is one command ``bdkn`` without a pipe: it need not start a process of its own."""
    return script.startswith("bdkn ") and script.count("\n") == 1 and not set(script) & set("|<>;&$`")


@pytest.mark.no_cover
def test_the_session_of_the_guide_runs(tmp_path, monkeypatch, run):
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 7
    script = tmp_path / "bin" / "bdkn"
    script.parent.mkdir()
    script.write_text(COMMAND)
    script.chmod(0o755)
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": sys.prefix,
    }
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    usual = settings.default_size
    monkeypatch.setattr(settings, "default_size", lambda n_rows: usual(n_rows)._replace(n_members=4, epochs=50))
    said = []
    for block in blocks:
        if is_plain(block):
            done = run(*shlex.split(block)[1:])
            assert done.exit_code == 0, done.output
            said.append(done.stdout)
        else:
            said.append(run_in_shell(block, environment))
    assert any(map(is_plain, blocks))
    assert "held-out rows" in "".join(said)
    assert "Rows predicted worst" in "".join(said)
    made = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert made == ["compared.png", "flats.bdkn", "flats.csv", "piped.csv", "predicted.csv", "sold.csv"]
    assert 0.5 <= float(said[-1].splitlines()[-1]) <= 1.0


def test_the_guide_names_every_verb():
    from bdkn.cli import app

    text = GUIDE.read_text("utf-8")
    for command in app.registered_commands:
        assert f"bdkn {command.callback.__name__}" in text
