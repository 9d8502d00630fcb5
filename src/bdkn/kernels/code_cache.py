"""Decorators that compile the inner loops of this library."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import numba
import numba as nb
from numba.core import compiler, serialize
from numba.misc.appdirs import AppDirs

_HERE = Path(__file__).parent
_config: Any = numba.config
_AppDirs: Any = AppDirs
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How files are opened: no links, and no waiting for the writer of a pipe."""


def readable() -> Iterator[Path]:
    """Yield the folders to look for code in: the user's choice, the package's, the user's cache, a temporary one."""
    yield from _lasting()
    if (folder := _temporary(make=False)) is not None:
        yield folder


def write_first(write: Callable[[Path], None]) -> None:
    """Call ``write`` with the folders in turn, until one takes the file; say so once if it will not last."""
    for folder in _lasting():
        if _is_written(write, folder, mode=0o755):
            return
    folder_for_now = _temporary(make=True)
    if folder_for_now is not None and _is_written(write, folder_for_now, mode=0o700):
        _say_once(f"compiled code is kept in {folder_for_now}, which may not last")
    else:
        _say_once("compiled code cannot be kept, and every process will compile it again")


def read_trusted(path: Path) -> bytes | None:
    """Return the content of a file that only this user, root or the owner of this library can have written."""
    try:
        with open(os.open(path, _READ), "rb") as file:
            return file.read() if _is_trusted(os.fstat(file.fileno())) else None
    except OSError:
        return None


def _lasting() -> Iterator[Path]:
    if _config.CACHE_DIR:  # nothing but what the user chose
        yield Path(_config.CACHE_DIR)
        return
    yield _HERE / "__pycache__"
    user = Path(_AppDirs("bdkn", appauthor=False).user_cache_dir)
    if user.is_absolute():  # without a home, "~" stays as it is
        yield user


def _user() -> int | None:
    """Return the number of the user, None on systems without one."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _temporary(*, make: bool) -> Path | None:
    """Return this user's own folder among the temporary ones, None if others could put something in its place."""
    user = _user()
    if user is None:  # on Windows a user's cache can always be written
        return None
    try:
        parent = Path(tempfile.gettempdir())
        folder = parent / f"bdkn-code-{user}"
        above = parent.stat()
        if make:
            folder.mkdir(mode=0o700, exist_ok=True)
        here = folder.lstat()
    except OSError:
        return None
    is_guarded = above.st_uid in (0, user) and (above.st_mode & stat.S_ISVTX or not above.st_mode & 0o022)
    is_private = stat.S_ISDIR(here.st_mode) and here.st_uid == user and not here.st_mode & 0o077
    return folder if is_guarded and is_private else None


def _is_trusted(file: os.stat_result) -> bool:
    if not stat.S_ISREG(file.st_mode):
        return False
    user = _user()
    if user is None:
        return True
    return file.st_uid in _trusted_owners(user) and not file.st_mode & 0o022


def _trusted_owners(user: int) -> set[int]:
    """Return who can make this process run code anyway: the user, root, and the owner of this file."""
    try:
        return {0, user, _HERE.stat().st_uid}
    except OSError:
        return {0, user}


def _is_written(write: Callable[[Path], None], folder: Path, mode: int) -> bool:
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        write(folder)
    except OSError:
        return False
    return True


@functools.cache
def _say_once(what: str) -> None:
    tried = ", ".join(map(str, _lasting()))
    text = (
        f"bdkn: {what}, since none of these folders can be written: {tried}; set the environment variable "
        "NUMBA_CACHE_DIR to a folder that you can write and others cannot"
    )
    print(text, file=sys.stderr, flush=True)


_compiler: Any = compiler
_serialize: Any = serialize

_PACKAGE = Path(__file__).parent.parent
_SOURCES = ("kernels", "networks")
"""The packages whose functions are compiled; a test checks that there are no others."""

_KIND = b"bdkn code 1\n"
_DIGEST_BYTES = 32
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_LONGEST_WRITE_S = 600
"""An unfinished file that is older than this was left behind by a process that was killed."""


class CodeCache:
    """The files with the code of one function, one file for each combination of argument types and CPU.

    It takes the place of Numba's cache in a compiled function, and has the same methods.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        line = function.__code__.co_firstlineno
        self._stem = f"{function.__module__}.{function.__qualname__}-{line}.{sys.implementation.cache_tag}"

    @property
    def cache_path(self) -> str | None:
        """The first folder in which code is looked for."""
        return next((str(folder) for folder in readable()), None)

    def is_on_disk(self) -> bool:
        """Return whether there is code of this function that can be loaded, for whatever types."""
        paths = (path for folder in readable() for path in folder.glob(f"{self._stem}.*.nbc"))
        return any(_payload(path) is not None for path in paths)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the code for these types of arguments, None if it must be compiled."""
        target.refresh()
        key = (signature, target.codegen().magic_tuple())
        for folder in readable():
            if (payload := _payload(folder / self._name(key))) is not None:
                try:
                    stored_key, reduced = pickle.loads(payload)
                    if stored_key == key:
                        return _compiler.CompileResult._rebuild(target, *reduced)
                except Exception:  # whatever cannot be loaded is compiled
                    continue
        return None

    def save_overload(self, signature: Any, code: Any) -> None:
        """Write the code for these types of arguments to the first folder that takes it; say so if none lasts."""
        if code.library.has_dynamic_globals or any(not part.can_cache for part in code.lifted):
            return
        key = (signature, code.codegen.magic_tuple())
        payload = _serialize.dumps((key, code._reduce()))
        content = _KIND + _stamp() + hashlib.sha256(payload).digest() + payload
        write_first(functools.partial(replace_file, self._name(key), content))

    def _name(self, key: object) -> str:
        return f"{self._stem}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"

    def enable(self) -> None:
        """Do nothing: the cache is always in use."""

    def disable(self) -> None:
        """Do nothing: the cache is always in use."""

    def flush(self) -> None:
        """Remove the code of this function from all folders that can be written."""
        for folder in readable():
            _remove(folder.glob(f"{self._stem}.*.nbc"))


def _payload(path: Path) -> bytes | None:
    """Return the code in a file, None if there is none, or none that can be trusted."""
    content = read_trusted(path)
    start = len(_KIND) + 2 * _DIGEST_BYTES
    if content is None or len(content) < start or not content.startswith(_KIND + _stamp()):
        return None
    payload, digest = content[start:], content[start - _DIGEST_BYTES : start]
    return payload if hashlib.sha256(payload).digest() == digest else None


@functools.cache
def _stamp() -> bytes:
    """Return a digest of everything that compiled code depends on, besides the CPU and the types of arguments."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {sys.implementation.cache_tag}".encode())
    for path in _source_files():
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def _source_files() -> Iterator[Path]:
    """Yield the files with functions that are compiled, or the archive or program that holds them."""
    files = sorted(path for name in _SOURCES for path in (_PACKAGE / name).rglob("*.py"))
    archives = (path for path in _PACKAGE.parents if path.is_file())
    yield from files or [next(archives, Path(sys.executable))]


def replace_file(name: str, content: bytes, folder: Path) -> None:
    """Write a file completely or not at all, and remove what killed writers of it left behind."""
    part = folder / f"{name}.{os.getpid()}.{os.urandom(4).hex()}.part"
    try:
        with open(os.open(part, _CREATE, 0o644), "wb") as file:
            file.write(content)
        os.replace(part, folder / name)
    except OSError:
        _remove([part])
        raise
    _remove(path for path in folder.glob(f"{name}.*.part") if _is_left_behind(path))


def _is_left_behind(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _LONGEST_WRITE_S
    except OSError:
        return False


def _remove(paths: Iterator[Path] | list[Path]) -> None:
    for path in paths:
        try:
            path.unlink()
        except OSError:
            continue


Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function for this CPU, cache the code on disk, and release the global interpreter lock while it runs.

    Fast-math is off: what a compiler reorders and fuses depends on what it inlines, and the same seed must give the
    same bits whether the code was just compiled or loaded from disk.
    """
    return _compiled(function)


def compiled_without_counts(function: Function) -> Function:
    """Compile a function like ``compiled`` that makes no arrays, nor do the functions it calls.

    References to arrays are then not counted: each count is an atomic operation, for which a processor finishes all it
    has begun to store, and there would be some for every view of an array and for every call.
    """
    return _compiled(function, _nrt=False)


def _compiled(function: Function, **options: Any) -> Function:
    jit: Any = nb.njit(nogil=True, boundscheck=False, error_model="numpy", **options)
    code: Any = jit(function)
    code._cache = CodeCache(function)
    found: Function = code
    return found


def inlined(function: Function) -> Function:
    """Compile a function inline into its caller, so that a loop over it can become vector code."""
    jit: Any = nb.njit(inline="always", error_model="numpy")
    code: Function = jit(function)
    return code


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function emit LLVM instructions; it can be called from compiled code only."""
    from numba import extending

    emit: Any = extending.intrinsic(prefer_literal=True)
    code: Callable[..., Any] = emit(function)
    return code


def announce(function: Any, what: str, seconds: int) -> None:
    """Print to standard error that a function will be compiled, unless its code is on disk."""
    if not function._cache.is_on_disk():
        text = f"bdkn: compiling {what} for this CPU (once, some {seconds} s; later runs load it from disk) ..."
        print(text, file=sys.stderr, flush=True)
