"""Files that are written completely or not at all: targets, temporary parts, modes and locks."""

import os
import re
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from bdkn.errors import InvalidParameterError
from bdkn.storage import atomic
from bdkn.storage.atomic import remove_abandoned_parts, replace_file, replacing

posix = pytest.mark.skipif(os.name != "posix", reason="modes, links and locks of POSIX")


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "model.bdkn"
    path.write_bytes(b"old")
    path.chmod(mode)
    replace_file(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


@posix
def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "model.bdkn", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model.bdkn").stat().st_mode) == 0o640


@posix
def test_a_link_is_kept_and_its_target_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "model.bdkn", tmp_path / "link.bdkn"
    target.write_bytes(b"old")
    link.symlink_to(target)
    replace_file(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert not target.is_symlink()


@posix
def test_a_link_to_nothing_makes_the_file_it_leads_to(tmp_path):
    link = tmp_path / "link.bdkn"
    link.symlink_to(tmp_path / "later.bdkn")
    replace_file(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "later.bdkn").read_bytes() == b"new"


@posix
def test_a_link_to_itself_is_refused(tmp_path):
    link = tmp_path / "link.bdkn"
    link.symlink_to(link)
    with pytest.raises(InvalidParameterError, match="a link that leads to itself; remove it"):
        replace_file(link, b"new")


@posix
def test_devices_and_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidParameterError, match=r"pipe must be the name of a file, .* it is a pipe: choose"):
        replace_file(tmp_path / "pipe", b"new")
    with pytest.raises(InvalidParameterError, match=r"/dev/null must be the name of a file, .* it is a device"):
        replace_file(type(tmp_path)("/dev/null"), b"new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize("name", ["m" * 240, "ü" * 120, "模" * 80], ids=["letters", "two bytes", "three bytes"])
def test_long_names(tmp_path, name):
    replace_file(tmp_path / name, b"new")
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"new"


def test_parts_of_killed_writers_are_removed_and_nothing_else(tmp_path):
    script = (
        "import sys, pathlib, os\nfrom bdkn.storage.atomic import replacing\n"
        "with replacing(pathlib.Path(sys.argv[1])) as file:\n    file.write(b'half'); file.flush(); os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "model.bdkn")], check=False)
    assert [name.endswith(".part") for name in os.listdir(tmp_path)] == [True]
    others = {"notes.part", ".model.part", ".model.bdkn.12.zzzzzzzz.part"}
    for name in others:
        (tmp_path / name).touch()
    replace_file(tmp_path / "other.bdkn", b"new")
    assert set(os.listdir(tmp_path)) == {"other.bdkn", *others}


def test_parts_of_living_writers_are_kept(tmp_path):
    with replacing(tmp_path / "model.bdkn") as file:
        file.write(b"new")
        replace_file(tmp_path / "other.bdkn", b"other")
        remove_abandoned_parts(tmp_path)
    assert (tmp_path / "model.bdkn").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["model.bdkn", "other.bdkn"]


@posix
def test_without_locks_parts_of_the_last_day_are_kept(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError("no locks here")

    new, old = (tmp_path / f".model.bdkn.{pid}.01234567.part" for pid in (1, 2))
    for path in (new, old):
        path.touch()
    os.utime(old, (time.time() - 1e6,) * 2)
    monkeypatch.setattr(atomic.fcntl, "flock", flock)
    replace_file(tmp_path / "model.bdkn", b"new")
    assert sorted(os.listdir(tmp_path)) == [new.name, "model.bdkn"]


@posix
def test_a_part_that_was_removed_before_it_was_locked_is_created_again(tmp_path, monkeypatch):
    calls, flock = [], atomic.fcntl.flock

    def removed_first(file, how):
        calls.append(how)
        if len(calls) == 1:
            os.unlink(file.name)
        flock(file, how)

    monkeypatch.setattr(atomic.fcntl, "flock", removed_first)
    replace_file(tmp_path / "model.bdkn", b"new")
    assert len(calls) == 2
    assert (tmp_path / "model.bdkn").read_bytes() == b"new"


PART = ".model.bdkn.12.0123abcd.part"


def test_a_part_has_the_first_80_bytes_of_the_name_the_process_and_eight_digits(tmp_path):
    for name in ("model.bdkn", "m" * 79, "m" * 80, "m" * 81, "m" * 200):
        part, file = atomic.open_part(tmp_path / name)
        file.close()
        assert re.fullmatch(rf"\.{name[:80]}\.{os.getpid()}\.[0-9a-f]{{8}}\.part", part.name)
        assert part.parent == tmp_path


def test_a_name_that_is_taken_is_not_used(tmp_path, monkeypatch):
    digits = iter([b"aaaa", b"aaaa", b"bbbb"])
    monkeypatch.setattr(os, "urandom", lambda _: next(digits))
    first, one = atomic.open_part(tmp_path / "model.bdkn")
    second, two = atomic.open_part(tmp_path / "model.bdkn")
    one.close()
    two.close()
    assert [path.name.split(".")[-2] for path in (first, second)] == [b"aaaa".hex(), b"bbbb".hex()]


def test_a_part_that_is_lost_is_closed(tmp_path, monkeypatch):
    files = []
    monkeypatch.setattr(atomic, "_lock_part", lambda file: files.append(file) or len(files) == 2)
    _, file = atomic.open_part(tmp_path / "model.bdkn")
    assert [each.closed for each in files] == [True, False]
    file.close()


@posix
def test_folders_and_links_with_the_name_of_a_part_are_kept(tmp_path):
    (tmp_path / PART).mkdir()
    atomic.remove_abandoned(tmp_path / PART)
    (tmp_path / "there").touch()
    link = tmp_path / PART.replace("12", "13")
    link.symlink_to(tmp_path / "there")
    atomic.remove_abandoned(link)
    assert sorted(os.listdir(tmp_path)) == [PART, link.name, "there"]


def test_where_there_are_no_locks_at_all_open_files_cannot_be_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "fcntl", None)
    (tmp_path / PART).touch()
    atomic.remove_abandoned(tmp_path / PART)
    assert os.listdir(tmp_path) == []
    replace_file(tmp_path / "model.bdkn", b"new")
    assert os.listdir(tmp_path) == ["model.bdkn"]


@posix
@pytest.mark.parametrize(("age", "stays"), [(86399, True), (86400, False)])
def test_without_locks_a_part_is_kept_for_exactly_a_day(tmp_path, monkeypatch, age, stays):
    def flock(*_):
        raise OSError("no locks here")

    monkeypatch.setattr(atomic.fcntl, "flock", flock)
    monkeypatch.setattr(atomic.time, "time", lambda: 2e9)
    (tmp_path / PART).touch()
    os.utime(tmp_path / PART, (2e9 - age, 2e9 - age))
    atomic.remove_abandoned(tmp_path / PART)
    assert (tmp_path / PART).exists() == stays


@posix
def test_the_whole_content_is_on_the_disk_before_the_old_file_is_replaced(tmp_path, monkeypatch):
    done = []
    (tmp_path / "model.bdkn").write_bytes(b"old")
    replace = os.replace

    def replacing(part, path):
        done.append(("replace", path.read_bytes()))
        replace(part, path)

    monkeypatch.setattr(os, "fsync", lambda number: done.append(("fsync", os.fstat(number).st_size)))
    monkeypatch.setattr(os, "replace", replacing)
    replace_file(tmp_path / "model.bdkn", b"new one")
    assert done == [("fsync", 7), ("replace", b"old")]
    assert (tmp_path / "model.bdkn").read_bytes() == b"new one"


@posix
@pytest.mark.parametrize(("system", "closed"), [("posix", False), ("nt", True)])
def test_a_part_is_renamed_while_it_is_locked_or_on_windows_once_it_is_closed(tmp_path, monkeypatch, system, closed):
    done = []

    class Other(SimpleNamespace):
        def __getattr__(self, name):
            return getattr(os, name)

    def replace(part, path):
        done.append(file.closed)
        os.replace(part, path)

    monkeypatch.setattr(atomic, "os", Other(name=system, replace=replace))
    with atomic.replacing(tmp_path / "model.bdkn") as file:
        file.write(b"new")
    assert done == [closed]
    assert os.listdir(tmp_path) == ["model.bdkn"]


@posix
def test_a_file_that_is_replaced_keeps_its_owner_before_its_mode(tmp_path, monkeypatch):
    path, given = tmp_path / "model.bdkn", []
    path.write_bytes(b"old")
    path.chmod(0o640)
    old = path.stat()

    def chown(part, *owner):
        given.append((part.suffix, owner))
        raise PermissionError("not a superuser")

    monkeypatch.setattr(os, "chown", chown)
    replace_file(path, b"new")
    assert given == [(".part", (old.st_uid, old.st_gid))]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_where_files_have_no_owners_they_are_replaced_all_the_same(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "chown", raising=False)
    for content in (b"old", b"new"):
        replace_file(tmp_path / "model.bdkn", content)
    assert (tmp_path / "model.bdkn").read_bytes() == b"new"


@posix
def test_sockets_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        with pytest.raises(InvalidParameterError, match="it is a socket"):
            replace_file(Path("socket"), b"new")


def test_folders_are_refused_as_targets(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file in it"):
        replace_file(tmp_path, b"new")


@posix
@pytest.mark.parametrize("error", [OSError("no locks here"), KeyboardInterrupt()])
def test_a_file_that_cannot_be_locked_is_closed(tmp_path, monkeypatch, error):
    opened = []

    def flock(descriptor, _):
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
def test_a_file_that_was_replaced_meanwhile_is_closed_and_the_new_one_locked(tmp_path, monkeypatch):
    path, opened = tmp_path / "file", []
    path.touch()

    def flock(descriptor, how):
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
def test_a_process_that_must_wait_reports_it_once(tmp_path, monkeypatch, notified):
    calls, messages = [], []

    def flock(_, how):
        calls.append(how)
        if how & atomic.fcntl.LOCK_NB:
            raise BlockingIOError

    monkeypatch.setattr(atomic.fcntl, "flock", flock)
    with atomic.locked(tmp_path, messages.append if notified else None):
        assert calls == [atomic.fcntl.LOCK_EX | atomic.fcntl.LOCK_NB, atomic.fcntl.LOCK_EX]
    assert messages == [f"waiting for another process, which changes {tmp_path}"] * notified


def test_without_a_module_of_locks_nobody_waits_and_nothing_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "fcntl", None)
    with atomic.locked(tmp_path / "absent"):
        pass
