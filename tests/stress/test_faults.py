"""Trials of faults.py find damaged files, and none if a writer replaces whole files."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the trials use fork and /proc")


@pytest.fixture(scope="module")
def faulty() -> Any:
    """Return the parts of the trials."""
    from faulty import kinds, trials, works

    return type("Parts", (), {"kinds": kinds, "trials": trials, "works": works})


def _whole(folder: Path) -> None:
    from bdkn.storage.atomic import replace_file

    replace_file(folder / "file.txt", b"new" * 100)


def _in_halves(folder: Path) -> None:
    for _ in range(2):
        with (folder / "file.txt").open("ab") as file:
            file.write(b"new" * 50)


def _leaving(folder: Path) -> None:
    (folder / ".draft").write_bytes(b"left behind")
    _whole(folder)


def _wrong(faulty: Any, run: Callable[[Path], None], folder: Path) -> list[str]:
    """Return all that is found wrong when a signal comes before each step."""
    work = faulty.works.Work("test", lambda: {"file.txt": b""}, run)
    place = folder / "place"
    known = faulty.trials.reference(work, place)
    assert known.steps > 1
    found = []
    for step in range(1, known.steps + 1):
        work.begin(faulty.kinds.clean(place))
        kill = faulty.kinds.at_step(place, step, faulty.kinds.signal_itself(signal.SIGKILL))
        ending = faulty.trials.run(work, place, kill)
        assert ending.code == -signal.SIGKILL
        found += faulty.trials.problems(place, known, ending) or faulty.trials.not_repaired(work, place, known)
    return found


def test_a_file_that_is_replaced_as_a_whole_passes(faulty: Any, tmp_path: Path) -> None:
    assert _wrong(faulty, _whole, tmp_path) == []


def test_half_a_file_is_found(faulty: Any, tmp_path: Path) -> None:
    found = _wrong(faulty, _in_halves, tmp_path)
    assert "file.txt is neither the old one nor the new one" in found


def test_what_is_left_behind_is_found(faulty: Any, tmp_path: Path) -> None:
    assert ".draft is left behind" in _wrong(faulty, _leaving, tmp_path)


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda folder: (folder / "precious.bin").unlink(), "precious.bin is lost"),
        (lambda folder: {}["key"], "an error that does not say what to do: KeyError: 'key'"),
        (lambda folder: os.kill(os.getpid(), signal.SIGUSR1), f"it crashed by signal {int(signal.SIGUSR1)}: "),
        (lambda folder: None, "it ended well, but not everything was written"),
    ],
)
def test_other_faults_are_found(do: Callable[[Path], object], message: str, faulty: Any, tmp_path: Path) -> None:
    good = faulty.works.Work("good", lambda: {"file.txt": b""}, _whole)
    known = faulty.trials.reference(good, tmp_path / "place")
    bad = faulty.works.Work("bad", good.files, do)
    bad.begin(faulty.kinds.clean(tmp_path / "place"))
    ending = faulty.trials.run(bad, tmp_path / "place")
    assert message in faulty.trials.problems(tmp_path / "place", known, ending)


def test_one_trial_of_a_real_work(faulty: Any, tmp_path: Path) -> None:
    work = next(work for work in faulty.works.WORKS if work.name == "save")
    place = tmp_path / "place"
    known = faulty.trials.reference(work, place)
    work.begin(faulty.kinds.clean(place))
    ending = faulty.trials.run(work, place, faulty.kinds.file_size_limit(1000))
    assert ending.text.startswith("OSError")
    assert faulty.trials.problems(place, known, ending) == []
    assert faulty.trials.not_repaired(work, place, known) == []
