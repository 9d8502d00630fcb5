"""Files that one process at a time changes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from bdkn.storage.atomic import locked

pytest.importorskip("fcntl")


def _in_thread(path: Path, notes: list[str], order: list[str]) -> threading.Thread:
    """Start a thread that wants the lock, too."""

    def work() -> None:
        with locked(path, notes.append):
            order.append("second")

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("replaced", [False, True])
def test_the_second_waits_for_the_first_also_if_the_file_is_replaced(tmp_path: Path, replaced: bool) -> None:
    path, notes, order = tmp_path / "file", list[str](), list[str]()
    path.write_text("old")
    with locked(path):
        thread = _in_thread(path, notes, order)
        while not notes:  # until the thread waits
            thread.join(0.01)
        if replaced:
            (tmp_path / "new").write_text("new")
            os.replace(tmp_path / "new", path)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert notes == [f"waiting for another process, which changes {path}"]


def test_a_process_that_waits_for_a_replaced_file_waits_for_the_lock_of_the_new_one(tmp_path: Path) -> None:
    path, notes, order = tmp_path / "file", list[str](), list[str]()
    path.write_text("old")
    with locked(path):
        thread = _in_thread(path, notes, order)
        while not notes:
            thread.join(0.01)
        (tmp_path / "new").write_text("new")
        os.replace(tmp_path / "new", path)
        new = locked(path)
        new.__enter__()
    while len(notes) < 2:  # it saw that the file was another one, and waits for that
        thread.join(0.01)
    order.append("first")
    new.__exit__(None, None, None)
    thread.join()
    assert order == ["first", "second"]


def test_a_folder_can_be_locked_and_an_error_frees_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inside"), locked(tmp_path):
        raise ValueError("inside")
    with locked(tmp_path):
        pass


def test_without_locks_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path):
        pass
