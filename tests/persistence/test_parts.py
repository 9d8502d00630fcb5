"""Temporary parts of files: their names, and when they are locked, written, closed, renamed and removed."""

from __future__ import annotations

import os
import re
import socket
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bdkn.errors import InvalidParameterError
from bdkn.storage import atomic
from bdkn.storage.atomic import replace_file

posix = pytest.mark.skipif(os.name != "posix", reason="modes, links and locks of POSIX")
PART = ".model.bdkn.12.0123abcd.part"


def test_a_part_has_the_first_80_bytes_of_the_name_the_process_and_eight_digits(tmp_path: Path) -> None:
    for name in ("model.bdkn", "m" * 79, "m" * 80, "m" * 81, "m" * 200):
        part, file = atomic.open_part(tmp_path / name)
        file.close()
        assert re.fullmatch(rf"\.{name[:80]}\.{os.getpid()}\.[0-9a-f]{{8}}\.part", part.name)
        assert part.parent == tmp_path


def test_a_name_that_is_taken_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = iter([b"aaaa", b"aaaa", b"bbbb"])
    monkeypatch.setattr(os, "urandom", lambda _: next(digits))
    first, one = atomic.open_part(tmp_path / "model.bdkn")
    second, two = atomic.open_part(tmp_path / "model.bdkn")
    one.close()
    two.close()
    assert [path.name.split(".")[-2] for path in (first, second)] == [b"aaaa".hex(), b"bbbb".hex()]


def test_a_part_that_is_lost_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[Any] = []
    monkeypatch.setattr(atomic, "_lock_part", lambda file: files.append(file) or len(files) == 2)
    _, file = atomic.open_part(tmp_path / "model.bdkn")
    assert [each.closed for each in files] == [True, False]
    file.close()


@posix
def test_folders_and_links_with_the_name_of_a_part_stay(tmp_path: Path) -> None:
    (tmp_path / PART).mkdir()
    atomic.remove_abandoned(tmp_path / PART)
    (tmp_path / "there").touch()
    link = tmp_path / PART.replace("12", "13")
    link.symlink_to(tmp_path / "there")
    atomic.remove_abandoned(link)
    assert sorted(os.listdir(tmp_path)) == [PART, link.name, "there"]


def test_where_there_are_no_locks_at_all_open_files_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "fcntl", None)
    (tmp_path / PART).touch()
    atomic.remove_abandoned(tmp_path / PART)
    assert os.listdir(tmp_path) == []
    replace_file(tmp_path / "model.bdkn", b"new")
    assert os.listdir(tmp_path) == ["model.bdkn"]


@posix
@pytest.mark.parametrize(("age", "stays"), [(86399, True), (86400, False)])
def test_without_locks_a_part_stays_for_exactly_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: int, stays: bool
) -> None:
    def flock(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(atomic.fcntl, "flock", flock)
    monkeypatch.setattr(atomic.time, "time", lambda: 2e9)
    (tmp_path / PART).touch()
    os.utime(tmp_path / PART, (2e9 - age, 2e9 - age))
    atomic.remove_abandoned(tmp_path / PART)
    assert (tmp_path / PART).exists() == stays


@posix
def test_the_whole_content_is_on_the_disk_before_the_old_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    (tmp_path / "model.bdkn").write_bytes(b"old")
    replace = os.replace

    def replacing(part: Path, path: Path) -> None:
        done.append(("replace", path.read_bytes()))
        replace(part, path)

    monkeypatch.setattr(os, "fsync", lambda number: done.append(("fsync", os.fstat(number).st_size)))
    monkeypatch.setattr(os, "replace", replacing)
    replace_file(tmp_path / "model.bdkn", b"new one")
    assert done == [("fsync", 7), ("replace", b"old")]
    assert (tmp_path / "model.bdkn").read_bytes() == b"new one"


@posix
@pytest.mark.parametrize(("system", "closed"), [("posix", False), ("nt", True)])
def test_a_part_is_renamed_while_it_is_locked_or_on_windows_once_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, closed: bool
) -> None:
    done: list[bool] = []

    class Other(SimpleNamespace):
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

    def replace(part: Path, path: Path) -> None:
        done.append(file.closed)
        os.replace(part, path)

    monkeypatch.setattr(atomic, "os", Other(name=system, replace=replace))
    with atomic.replacing(tmp_path / "model.bdkn") as file:
        file.write(b"new")
    assert done == [closed]
    assert os.listdir(tmp_path) == ["model.bdkn"]


@posix
def test_a_file_that_is_replaced_keeps_its_owner_before_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, given = tmp_path / "model.bdkn", list[object]()
    path.write_bytes(b"old")
    path.chmod(0o640)
    old = path.stat()

    def chown(part: Path, *owner: int) -> None:
        given.append((part.suffix, owner))
        raise PermissionError("not a superuser")

    monkeypatch.setattr(os, "chown", chown)
    replace_file(path, b"new")
    assert given == [(".part", (old.st_uid, old.st_gid))]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_where_files_have_no_owners_they_are_replaced_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "chown", raising=False)
    for content in (b"old", b"new"):
        replace_file(tmp_path / "model.bdkn", content)
    assert (tmp_path / "model.bdkn").read_bytes() == b"new"


@posix
def test_sockets_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        with pytest.raises(InvalidParameterError, match="it is a socket"):
            replace_file(Path("socket"), b"new")


def test_folders_are_refused_as_targets(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file in it"):
        replace_file(tmp_path, b"new")


@posix
@pytest.mark.parametrize("error", [OSError("no locks here"), KeyboardInterrupt()])
def test_a_file_that_cannot_be_locked_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    opened = list[int]()

    def flock(descriptor: int, _: int) -> None:
        opened.append(descriptor)
        raise error

    monkeypatch.setattr(atomic.fcntl, "flock", flock)
    if isinstance(error, OSError):
        assert atomic._lock_path(tmp_path, None) is None
    else:
        with pytest.raises(KeyboardInterrupt):
            atomic._lock_path(tmp_path, None)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


@posix
def test_a_file_that_was_replaced_meanwhile_is_closed_and_the_new_one_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened = tmp_path / "file", list[int]()
    path.touch()

    def flock(descriptor: int, how: int) -> None:
        opened.append(os.dup(descriptor))
        if len(opened) == 1:
            (tmp_path / "new").touch()
            os.replace(tmp_path / "new", path)

    monkeypatch.setattr(atomic.fcntl, "flock", flock)
    before = os.open(tmp_path, os.O_RDONLY)
    os.close(before)
    descriptor = atomic._lock_path(path, None)
    assert descriptor == before  # the number of the first, which was closed, is used again
    assert os.path.samestat(os.fstat(opened[1]), path.stat())
    for number in (descriptor, *opened):
        os.close(number)


@posix
@pytest.mark.parametrize("notified", [True, False])
def test_a_process_that_must_wait_reports_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notified: bool
) -> None:
    calls, messages = list[int](), list[str]()

    def flock(_: int, how: int) -> None:
        calls.append(how)
        if how & atomic.fcntl.LOCK_NB:
            raise BlockingIOError

    monkeypatch.setattr(atomic.fcntl, "flock", flock)
    with atomic.alone(tmp_path, messages.append if notified else None):
        assert calls == [atomic.fcntl.LOCK_EX | atomic.fcntl.LOCK_NB, atomic.fcntl.LOCK_EX]
    assert messages == [f"waiting for another process, which changes {tmp_path}"] * notified


def test_without_a_module_of_locks_nobody_waits_and_nothing_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "fcntl", None)
    with atomic.alone(tmp_path / "absent"):
        pass
