import os
import stat
import subprocess
import sys
import time

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
def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
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
