"""The script that writes hostile files finds nothing wrong in a short run, and sees what would be wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="limits of memory are POSIX")
pytest.importorskip("bdkn_paper")
hostile_files = pytest.importorskip("hostile_files")


@pytest.mark.parametrize(("trial", "count"), [(trial, 15) for _, trial, _ in hostile_files.IN_PROCESS])
def test_nothing_is_wrong(tmp_path, trial, count):
    told, read, wrong = hostile_files.run_trials(trial, count, 1, tmp_path)
    assert wrong == []
    assert told + read == count


def writes_outside(rng, folder):
    (folder.parent / "x").write_bytes(b"")
    return "read"


def writes_far_outside(rng, folder):
    Path("/dev/null").write_bytes(b"")
    return "read"


def runs_a_program(rng, folder):
    subprocess.run([sys.executable, "-c", ""], check=True)
    return "read"


def raises(rng, folder):
    raise KeyError("a")


@pytest.mark.parametrize(
    ("trial", "message"),
    [
        (writes_outside, "not allowed: open|outside of the folder"),
        (writes_far_outside, "not allowed: open /dev/null"),
        (runs_a_program, "not allowed: subprocess.Popen"),
        (raises, "KeyError: 'a'"),
    ],
)
def test_what_is_wrong_is_seen(tmp_path, trial, message):
    _, _, wrong = hostile_files.run_trials(trial, 1, 0, tmp_path)
    assert len(wrong) == 1
    assert any(part in wrong[0] for part in message.split("|"))


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_crashes_is_seen():
    from hostile.children import in_child

    assert in_child(lambda: "said")[0] == "said"
    assert in_child(lambda: 1 / 0)[0] == "ZeroDivisionError: division by zero"  # type: ignore[arg-type, return-value]
    said, _ = in_child(_crash)
    assert said.startswith("ended by status")
    assert in_child(_fill)[1] > 150


def _crash():
    import os

    os.kill(os.getpid(), 9)


def _fill():
    return str(len(b"x" * (200 << 20)))
