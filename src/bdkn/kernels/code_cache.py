"""Compilation of inner loops by Numba, and the files with compiled code.

Code is loaded from the folder of the environment variable NUMBA_CACHE_DIR if that is set, else from the package, the
user's cache or a temporary folder. A file is loaded only if nobody but this user, root or the owner of the package can
have written it, since loading it runs its code.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import numba
from numba.core import compiler, serialize
from numba.misc.appdirs import AppDirs

_config: Any = numba.config
_compiler: Any = compiler
_serialize: Any = serialize
_AppDirs: Any = AppDirs

_HERE = Path(__file__).parent
_PACKAGE = _HERE.parent
_SOURCES = ("kernels", "networks")
"""The packages with compiled functions; a test checks that there are no others."""

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags for reading: links are not followed, and pipes are not waited for."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
"""Flags for writing a new file."""

_FILE_TYPE = b"bdkn code 1\n"
"""The first bytes of a file with code; a digest of the sources and one of the code follow."""

_DIGEST_BYTES = 32

_MAX_WRITE_S = 600
"""Age, in seconds, above which an unfinished file is taken for that of a process that was killed."""


def readable() -> Iterator[Path]:
    """Yield the folders that may have code, in the order in which they are searched."""
    yield from _lasting()
    if (folder := _temporary(make=False)) is not None:
        yield folder


def _lasting() -> Iterator[Path]:
    """Yield the folders in which files stay."""
    if _config.CACHE_DIR:
        yield Path(_config.CACHE_DIR)
        return
    yield _HERE / "__pycache__"
    user = Path(_AppDirs("bdkn", appauthor=False).user_cache_dir)
    if user.is_absolute():  # without a home, "~" is not expanded
        yield user


def _user() -> int | None:
    """Return the number of the user, None on systems without such numbers."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _temporary(*, make: bool) -> Path | None:
    """Return a temporary folder of this user, None if other users could replace it or write to it."""
    user = _user()
    if user is None:  # on Windows the user's cache can always be written
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


def read_trusted(path: Path) -> bytes | None:
    """Return the content of a file that only this user, root or the owner of this library can have written."""
    try:
        with open(os.open(path, _READ), "rb") as file:
            found, user = os.fstat(file.fileno()), _user()
            is_trusted = stat.S_ISREG(found.st_mode) and (
                user is None or (found.st_uid in _trusted_owners(user) and not found.st_mode & 0o022)
            )
            return file.read() if is_trusted else None
    except OSError:
        return None


def _trusted_owners(user: int) -> set[int]:
    """Return the users who can change the code of this process anyway."""
    try:
        return {0, user, _HERE.stat().st_uid}
    except OSError:
        return {0, user}


def write_first(write: Callable[[Path], None]) -> None:
    """Call ``write`` with the folders in turn until one can be written; print a message if the file may not last."""
    for folder in _lasting():
        if _is_written(write, folder, mode=0o755):
            return
    temporary = _temporary(make=True)
    if temporary is not None and _is_written(write, temporary, mode=0o700):
        _print_once(f"compiled code is kept in {temporary}, which may not last")
    else:
        _print_once("compiled code cannot be kept, and every process will compile it again")


def _is_written(write: Callable[[Path], None], folder: Path, mode: int) -> bool:
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        write(folder)
    except OSError:
        return False
    return True


@functools.cache
def _print_once(problem: str) -> None:
    tried = ", ".join(map(str, _lasting()))
    text = (
        f"bdkn: {problem}, since none of these folders can be written: {tried}; set the environment variable "
        "NUMBA_CACHE_DIR to a folder that you can write and others cannot"
    )
    print(text, file=sys.stderr, flush=True)


def replace_file(name: str, content: bytes, folder: Path) -> None:
    """Write a file completely or not at all, and remove unfinished files of processes that were killed."""
    part = folder / f"{name}.{os.getpid()}.{os.urandom(4).hex()}.part"
    try:
        with open(os.open(part, _CREATE, 0o644), "wb") as file:
            file.write(content)
        os.replace(part, folder / name)
    except OSError:
        _remove([part])
        raise
    _remove(folder.glob(f"{name}.*.part"), min_age_s=_MAX_WRITE_S)


def _remove(paths: Iterable[Path], min_age_s: float = 0.0) -> None:
    """Remove files that are old enough, if possible."""
    for path in paths:
        try:
            if not min_age_s or time.time() - path.stat().st_mtime > min_age_s:
                path.unlink()
        except OSError:
            continue


class CodeCache:
    """The files with the code of one function, one file for each combination of argument types and CPU.

    It replaces the cache of a function that Numba compiles, and has the methods of it that Numba calls.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        line = function.__code__.co_firstlineno
        self._stem = f"{function.__module__}.{function.__qualname__}-{line}.{sys.implementation.cache_tag}"

    @property
    def cache_path(self) -> str | None:
        """The first folder that is searched."""
        return next((str(folder) for folder in readable()), None)

    def is_on_disk(self) -> bool:
        """Return whether there is code of this function that can be loaded, for any argument types."""
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
                except Exception:  # code that cannot be loaded is compiled
                    continue
        return None

    def save_overload(self, signature: Any, code: Any) -> None:
        """Write the code for these types of arguments to the first folder that can be written."""
        if code.library.has_dynamic_globals or any(not part.can_cache for part in code.lifted):
            return
        key = (signature, code.codegen.magic_tuple())
        payload = _serialize.dumps((key, code._reduce()))
        content = _FILE_TYPE + _stamp() + hashlib.sha256(payload).digest() + payload
        write_first(functools.partial(replace_file, self._name(key), content))

    def _name(self, key: object) -> str:
        return f"{self._stem}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"


def _payload(path: Path) -> bytes | None:
    """Return the code in a file, None if there is no trusted code of the current sources."""
    content = read_trusted(path)
    start = len(_FILE_TYPE) + 2 * _DIGEST_BYTES
    if content is None or len(content) < start or not content.startswith(_FILE_TYPE + _stamp()):
        return None
    payload, digest = content[start:], content[start - _DIGEST_BYTES : start]
    return payload if hashlib.sha256(payload).digest() == digest else None


@functools.cache
def _stamp() -> bytes:
    """Return a digest of the versions and sources that compiled code depends on."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {sys.implementation.cache_tag}".encode())
    files = sorted(path for name in _SOURCES for path in (_PACKAGE / name).rglob("*.py"))
    if not files:  # the package is in an archive or a program
        files = [next((path for path in _PACKAGE.parents if path.is_file()), Path(sys.executable))]
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function for this CPU, cache the code on disk, and release the global interpreter lock while it runs.

    Fast-math is off: its results depend on what the compiler inlines, and the same seed must give the same bits
    whether the code was just compiled or loaded from disk.
    """
    return _compiled(function)


def compiled_without_counts(function: Function) -> Function:
    """Compile a function that makes no arrays, like the functions it calls, as ``compiled`` does.

    References to arrays are then not counted. Each count is an atomic operation, which waits for all pending stores,
    and every view of an array and every call would need some.
    """
    return _compiled(function, _nrt=False)


def _compiled(function: Function, **options: Any) -> Function:
    jit: Any = numba.njit(nogil=True, boundscheck=False, error_model="numpy", **options)
    code: Any = jit(function)
    code._cache = CodeCache(function)
    found: Function = code
    return found


def inlined(function: Function) -> Function:
    """Compile a function inline into its caller, so that a loop over it can become vector code."""
    jit: Any = numba.njit(inline="always", error_model="numpy")
    code: Function = jit(function)
    return code


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that emits LLVM instructions callable from compiled code."""
    from numba import extending

    emit: Any = extending.intrinsic(prefer_literal=True)
    code: Callable[..., Any] = emit(function)
    return code


def announce(function: Any, what: str, seconds: int) -> None:
    """Print to standard error that a function will be compiled, unless its code is on disk."""
    if not function._cache.is_on_disk():
        text = f"bdkn: compiling {what} for this CPU (once, some {seconds} s; later runs load it from disk) ..."
        print(text, file=sys.stderr, flush=True)
