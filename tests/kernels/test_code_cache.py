"""Compiled code on disk: trusted code is loaded, other code is compiled again, in the first writable folder."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import bdkn
from bdkn.kernels import code_cache
from bdkn.kernels.code_cache import announce, compiled

SOURCE = Path(bdkn.__file__).parent
POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no owners and modes of this kind")


def triple(x: float) -> float:
    """Return 3x."""
    return 3.0 * x


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the only folder in which compiled code is kept."""
    place = tmp_path / "code"
    monkeypatch.setattr(code_cache, "_lasting", lambda: iter([place]))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    code_cache._print_once.cache_clear()
    yield place
    code_cache._print_once.cache_clear()


def _compiled() -> Any:
    """Return the function as in a new process."""
    return compiled(triple)


def _hits(function: Any) -> int:
    assert function(2.0) == 6.0
    return sum(function.stats.cache_hits.values())


def test_code_is_loaded_from_disk(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder.parent / "temporary").mkdir()
    assert _hits(_compiled()) == 0
    assert _hits(_compiled()) == 1
    announce(_compiled(), "a test", 1)
    assert capsys.readouterr().err == ""
    assert not list((folder.parent / "temporary").iterdir())  # it is not needed
    (file,) = folder.iterdir()
    if os.name == "posix":
        assert not file.stat().st_mode & 0o022


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1000] ^= 1
    path.write_bytes(content)


def _as_folder(path: Path) -> None:
    path.unlink()
    (path / "sub").mkdir(parents=True)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "only the file type": lambda path: path.write_bytes(b"bdkn code 1\n"),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "garbage": lambda path: path.write_bytes(b"\x80\x04garbage" * 1000),
    "one bit": _flip,
    "a folder": _as_folder,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_code_is_compiled_again(damage: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _hits(_compiled())
    (file,) = folder.iterdir()
    DAMAGE[damage](file)
    announce(_compiled(), "a test", 1)
    assert "compiling a test" in capsys.readouterr().err
    assert _hits(_compiled()) == 0
    assert _hits(_compiled()) == (0 if damage == "a folder" else 1)


@POSIX
def test_code_that_others_could_have_written_is_not_loaded(folder: Path) -> None:
    _hits(_compiled())
    (file,) = folder.iterdir()
    file.chmod(0o666)
    assert _hits(_compiled()) == 0
    assert _hits(_compiled()) == 1
    file.rename(folder / "elsewhere")
    file.symlink_to(folder / "elsewhere")
    assert _hits(_compiled()) == 0


@POSIX
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() != 0, reason="only root can give files to others")
def test_code_of_another_user_is_not_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hits(_compiled())
    (file,) = folder.iterdir()
    os.chown(file, 12345, 12345)
    assert _hits(_compiled()) == 0
    os.chown(file, 12345, 12345)
    monkeypatch.setattr(code_cache, "_trusted_owners", lambda user: {12345})
    assert _hits(_compiled()) == 1


def test_unfinished_files_of_killed_writers_are_removed(folder: Path) -> None:
    _hits(_compiled())
    (file,) = folder.iterdir()
    old, new = folder / f"{file.name}.1.ab.part", folder / f"{file.name}.2.cd.part"
    for part in (old, new):
        part.write_bytes(b"")
    os.utime(old, (0, 0))
    file.write_bytes(b"")
    _hits(_compiled())
    assert not old.exists()
    assert new.exists()


@POSIX
def test_a_temporary_folder_of_the_user_is_the_last_resort(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.write_text("not a folder")
    place = folder.parent / "temporary"
    place.mkdir(mode=0o700)
    assert _hits(_compiled()) == 0
    assert _hits(_compiled()) == 1
    assert stat.S_IMODE((place / f"bdkn-code-{os.geteuid()}").stat().st_mode) == 0o700
    printed = capsys.readouterr().err
    assert printed.count("which may not last, since none of these folders can be written") == 1
    assert "NUMBA_CACHE_DIR" in printed


def test_without_any_folder_code_is_compiled_and_a_message_is_printed_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.write_text("not a folder")
    assert _hits(_compiled()) == 0
    assert _hits(_compiled()) == 0
    assert capsys.readouterr().err.count("every process will compile it again") == 1


def _open_to_others(place: Path) -> None:
    (place / f"bdkn-code-{os.geteuid()}").mkdir()
    (place / f"bdkn-code-{os.geteuid()}").chmod(0o777)


def _a_link(place: Path) -> None:
    (place / "target").mkdir(mode=0o700)
    (place / f"bdkn-code-{os.geteuid()}").symlink_to(place / "target")


@POSIX
@pytest.mark.parametrize("prepare", [_open_to_others, _a_link, lambda place: place.chmod(0o777)])
def test_a_temporary_folder_that_others_could_fill_is_not_used(
    prepare: Callable[[Path], object], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.write_text("not a folder")
    place = folder.parent / "temporary"
    place.mkdir(mode=0o700)
    prepare(place)
    assert _hits(_compiled()) == 0
    assert _hits(_compiled()) == 0
    assert "cannot be kept" in capsys.readouterr().err
    assert not list(place.rglob("*.nbc"))


def test_code_is_compiled_again_if_a_function_that_it_calls_changed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callee = tmp_path / "bdkn" / "kernels" / "callee.py"
    callee.parent.mkdir(parents=True)
    callee.write_text("one")
    monkeypatch.setattr(code_cache, "_PACKAGE", tmp_path / "bdkn")
    code_cache._stamp.cache_clear()
    try:
        _hits(_compiled())
        assert _hits(_compiled()) == 1
        callee.write_text("two")
        code_cache._stamp.cache_clear()
        assert _hits(_compiled()) == 0
    finally:
        code_cache._stamp.cache_clear()


def test_all_compiled_functions_are_in_the_packages_of_the_digest() -> None:
    used = [
        path
        for path in SOURCE.rglob("*.py")
        if re.search(r"^@(compiled|inlined|intrinsic)", path.read_text("utf-8"), re.M)
    ]
    assert len(used) > 5
    assert {path.relative_to(SOURCE).parts[0] for path in used} == set(code_cache._SOURCES)


CHILD = """
import os, sys, numpy as np
from bdkn.kernels.conjugate import _squares
assert os.path.dirname(__import__("bdkn").__file__) == sys.argv[1]
print(_squares(np.ones((2, 3))), _squares.stats.cache_hits.total())
"""


@POSIX
def test_a_user_without_a_home_and_without_rights_to_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(tmp_path / "read only" / "bdkn")]
    if os.geteuid() == 0:  # root may write everywhere: become somebody who may read everything and write nothing
        if shutil.which("setpriv") is None:
            pytest.skip("there is no setpriv, which starts a program as another user")
        can_read = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
        command = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", *can_read, *command]
    shutil.copytree(SOURCE, tmp_path / "read only" / "bdkn", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "read only" / "bdkn" / "kernels").chmod(0o555)
    place = tmp_path / "temporary"
    place.mkdir()
    place.chmod(0o1777)
    environment = {"HOME": "/nonexistent", "PYTHONPATH": str(tmp_path / "read only"), "TMPDIR": str(place)}
    runs = [
        subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False) for _ in range(2)
    ]
    assert [run.stdout for run in runs] == ["6.0 0\n", "6.0 1\n"], runs[0].stderr
    assert "which may not last" in runs[0].stderr
    assert runs[1].stderr == ""
