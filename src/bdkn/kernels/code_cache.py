"""Compilation of inner loops by Numba, and the files with compiled code.

Compiled code is loaded from the folder of the environment variable NUMBA_CACHE_DIR if that is set, else from the
package, the user's cache folder or a temporary folder. A file is loaded only if no other users than this one, root and
the owner of the package could have written it, since loading a file runs its code.
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
"""Subpackages with compiled functions (a test checks this); a change of their source invalidates cached code."""

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags of ``os.open`` for reading: symbolic links are not followed, and opening a pipe does not wait."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
"""Flags of ``os.open`` for writing a new file; opening fails if the file exists."""

_FILE_TYPE = b"bdkn code 1\n"
"""First bytes of a file of compiled code; then come the digests of the sources and of the code, and the code."""

_DIGEST_BYTES = 32

_MAX_WRITE_S = 600
"""Age, in seconds, above which an unfinished file is removed: the process that wrote it was probably killed."""


def readable() -> Iterator[Path]:
    """Yield the folders in which compiled code is searched, in the order of the search."""
    yield from _lasting()
    if (folder := _temporary(make=False)) is not None:
        yield folder


def _lasting() -> Iterator[Path]:
    """Yield the permanent folders for compiled code, without the temporary folder, in the order of the search."""
    if _config.CACHE_DIR:
        yield Path(_config.CACHE_DIR)
        return
    yield _HERE / "__pycache__"
    user = Path(_AppDirs("bdkn", appauthor=False).user_cache_dir)
    if user.is_absolute():  # without a home folder, "~" is not expanded
        yield user


def _user() -> int | None:
    """Return the numeric ID of the current user; None on systems without such IDs, such as Windows."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _temporary(*, make: bool) -> Path | None:
    """Return this user's temporary folder for code, created if ``make``; None if other users could change it."""
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
    """Return the content of a file; None unless only this user, root or this library's owner could write it."""
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
    """Return the IDs of users whose files are trusted: they can change the code of this process anyway."""
    try:
        return {0, user, _HERE.stat().st_uid}
    except OSError:
        return {0, user}


def write_first(write: Callable[[Path], None]) -> None:
    """Call ``write`` with each cache folder in turn until it succeeds; warn if the folder is only temporary."""
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
    """Write a file completely or not at all; remove unfinished files of processes that were killed."""
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
    """Remove files that are older than ``min_age_s`` seconds; skip files that cannot be removed."""
    for path in paths:
        try:
            if not min_age_s or time.time() - path.stat().st_mtime > min_age_s:
                path.unlink()
        except OSError:
            continue


class CodeCache:
    """Cache on disk of the compiled code of one function, with a file for each combination of argument types and CPU.

    It takes the place of Numba's own cache of the function, and has the methods that Numba calls.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        line = function.__code__.co_firstlineno
        self._stem = f"{function.__module__}.{function.__qualname__}-{line}.{sys.implementation.cache_tag}"

    @property
    def cache_path(self) -> str | None:
        """The first of the folders in which compiled code is searched."""
        return next((str(folder) for folder in readable()), None)

    def is_on_disk(self) -> bool:
        """Return whether the disk has compiled code of this function that can be loaded, for any argument types."""
        paths = (path for folder in readable() for path in folder.glob(f"{self._stem}.*.nbc"))
        return any(_payload(path) is not None for path in paths)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the compiled code for these argument types from disk; None if it must be compiled."""
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
        """Write the compiled code for these argument types to the first cache folder that can be written."""
        if code.library.has_dynamic_globals or any(not part.can_cache for part in code.lifted):
            return
        key = (signature, code.codegen.magic_tuple())
        payload = _serialize.dumps((key, code._reduce()))
        content = _FILE_TYPE + _stamp() + hashlib.sha256(payload).digest() + payload
        write_first(functools.partial(replace_file, self._name(key), content))

    def _name(self, key: object) -> str:
        return f"{self._stem}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"


def _payload(path: Path) -> bytes | None:
    """Return the compiled code in a file; None if it is not trusted, damaged or compiled from other sources."""
    content = read_trusted(path)
    start = len(_FILE_TYPE) + 2 * _DIGEST_BYTES
    if content is None or len(content) < start or not content.startswith(_FILE_TYPE + _stamp()):
        return None
    payload, digest = content[start:], content[start - _DIGEST_BYTES : start]
    return payload if hashlib.sha256(payload).digest() == digest else None


@functools.cache
def _stamp() -> bytes:
    """Return a digest of what compiled code depends on: versions of Numba, llvmlite and Python, and the sources."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {sys.implementation.cache_tag}".encode())
    files = sorted(path for name in _SOURCES for path in (_PACKAGE / name).rglob("*.py"))
    if not files:  # the package is in a zip archive or a frozen program
        files = [next((path for path in _PACKAGE.parents if path.is_file()), Path(sys.executable))]
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function for this CPU, cache the code on disk, and release the global interpreter lock while it runs.

    Fast-math is off: its results depend on what the compiler inlines, but the same seed must give bit-identical
    results, whether the code was just compiled or loaded from disk.
    """
    return _compiled(function)


def compiled_without_counts(function: Function) -> Function:
    """Compile a function like ``compiled``, but without counting the references to its arrays, which is faster.

    The function and the functions that it calls must not create arrays. Each count would be an atomic operation, which
    waits for all pending writes to memory, and every view of an array and every call would need some.
    """
    return _compiled(function, _nrt=False)


def _compiled(function: Function, **options: Any) -> Function:
    jit: Any = numba.njit(nogil=True, boundscheck=False, error_model="numpy", **options)
    code: Any = jit(function)
    code._cache = CodeCache(function)
    found: Function = code
    return found


def inlined(function: Function) -> Function:
    """Compile a function inline into its callers, so that a loop that calls it can use vector instructions."""
    jit: Any = numba.njit(inline="always", error_model="numpy")
    code: Function = jit(function)
    return code


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that generates LLVM instructions callable from code that Numba compiles."""
    from numba import extending

    emit: Any = extending.intrinsic(prefer_literal=True)
    code: Callable[..., Any] = emit(function)
    return code


def announce(function: Any, what: str, seconds: int) -> None:
    """Print that ``what`` will be compiled, in about ``seconds`` s, unless the code of ``function`` is on disk."""
    if not function._cache.is_on_disk():
        text = f"bdkn: compiling {what} for this CPU (once, some {seconds} s; later runs load it from disk) ..."
        print(text, file=sys.stderr, flush=True)
