"""The commands of docs/guide/command-line.md run, one after the other, in an empty folder; networks train briefly."""

import os
import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "command-line.md"

COMMAND = f"""#!{sys.executable}
from bdkn.__main__ import main
from bdkn.training import settings

usual = settings.default_size
settings.default_size = lambda n_rows: usual(n_rows)._replace(epochs=50)
main()
"""


def test_the_session_of_the_guide_runs(tmp_path):
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
    session = "set -e\n" + "\n".join(blocks)
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", session],
        cwd=tmp_path / "here",
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows left out of training" in done.stdout
    assert "Rows predicted worst" in done.stdout
    made = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert made == ["compared.png", "flats.bdkn", "flats.csv", "piped.csv", "predicted.csv", "sold.csv"]
    assert 0.5 <= float(done.stdout.splitlines()[-1]) <= 1.0


def test_the_guide_names_every_verb():
    from bdkn.cli import app

    text = GUIDE.read_text("utf-8")
    for command in app.registered_commands:
        assert f"bdkn {command.callback.__name__}" in text
