"""Compiled code kept on disk, so that a process loads in a moment what an earlier one compiled in seconds.

Numba's own cache raises where no folder can be written and where a file is damaged, does not see a change in a function
that another one calls, and reads code that another user may have put there. Here a file is loaded only if its digest is
right, if it was compiled from the sources of this installation by this version of Numba, and if nobody else could have
written it. Any other file counts as missing: the function is compiled, and the file replaced.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import compiler, serialize

from bdkn.kernels import code_folders

_compiler: Any = compiler
_serialize: Any = serialize

_PACKAGE = Path(__file__).parent.parent
_SOURCES = ("kernels", "networks", "training")
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
        return next((str(folder) for folder in code_folders.readable()), None)

    def is_on_disk(self) -> bool:
        """Return whether there is code of this function that can be loaded, for whatever types."""
        paths = (path for folder in code_folders.readable() for path in folder.glob(f"{self._stem}.*.nbc"))
        return any(_payload(path) is not None for path in paths)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the code for these types of arguments, None if it must be compiled."""
        target.refresh()
        key = (signature, target.codegen().magic_tuple())
        for folder in code_folders.readable():
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
        code_folders.write_first(functools.partial(replace_file, self._name(key), content))

    def _name(self, key: object) -> str:
        return f"{self._stem}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"

    def enable(self) -> None:
        """Do nothing: the cache is always in use."""

    def disable(self) -> None:
        """Do nothing: the cache is always in use."""

    def flush(self) -> None:
        """Remove the code of this function from all folders that can be written."""
        for folder in code_folders.readable():
            _remove(folder.glob(f"{self._stem}.*.nbc"))


def _payload(path: Path) -> bytes | None:
    """Return the code in a file, None if there is none, or none that can be trusted."""
    content = code_folders.read_trusted(path)
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
