"""Commands that have no memory, lose a worker, or change the same file at the same time."""

from __future__ import annotations

import os
import threading
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
import typer

import bdkn
from bdkn.cli.terminal import Screen, errors_as_messages
from bdkn.cli.update import changing
from bdkn.storage.atomic import locked


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "Error: there is not enough memory (no details); use fewer processes"),
        (MemoryError("Unable to allocate 1 TiB"), "Error: there is not enough memory (Unable to allocate 1 TiB); use"),
        (BrokenProcessPool("a page"), "Error: a worker process was killed, usually since memory ran out; use fewer"),
    ],
)
def test_what_the_machine_lacks_is_told_in_one_sentence(
    error: Exception, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, errors_as_messages():
        raise error
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err.startswith(message)


def test_two_updates_of_one_file_wait_for_each_other(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    from typer.testing import CliRunner

    from bdkn.cli import app

    model, rows = tmp_path / "model.bdkn", home / "flats.csv"
    model.write_bytes((home / "flats.bdkn").read_bytes())
    words = ["update", str(model), str(rows), "--target", "price", "--out", str(model)]
    results = []
    with locked(model):
        thread = threading.Thread(target=lambda: results.append(CliRunner().invoke(app, words)))
        thread.start()
        thread.join(0.5)
        assert not results  # it waits, however fast it is
        changed = bdkn.load(model)
        changed.made_ = {**changed.made_, "absorbed": ["rows of another process"]}
        changed.save(model)
    thread.join()
    assert results[0].exit_code == 0, results[0].output
    assert "waiting for another process, which changes" in results[0].stderr
    absorbed = bdkn.load(model).made_["absorbed"]
    assert absorbed[0] == "rows of another process"
    assert len(absorbed) == 2


def test_another_file_is_changed_without_waiting(tmp_path: Path) -> None:
    model, out = tmp_path / "model.bdkn", tmp_path / "new.bdkn"
    model.write_text("")
    with locked(model), changing(model, out, Screen()):
        assert os.listdir(tmp_path) == ["model.bdkn"]
