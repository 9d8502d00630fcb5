"""Decorators that compile the inner loops of this library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba as nb

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function for this CPU, cache the code on disk, and release the global interpreter lock while it runs.

    Fast-math is off: what a compiler reorders and fuses depends on what it inlines, and the same seed must give the
    same bits whether the code was just compiled or loaded from disk.
    """
    jit: Any = nb.njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
    code: Function = jit(function)
    return code


def inlined(function: Function) -> Function:
    """Compile a function inline into its caller, so that a loop over it can become vector code."""
    jit: Any = nb.njit(inline="always", error_model="numpy")
    code: Function = jit(function)
    return code


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function emit LLVM instructions; it can be called from compiled code only."""
    from numba import extending

    emit: Any = extending.intrinsic
    code: Callable[..., Any] = emit(function)
    return code


def announce(function: Any, what: str, seconds: int) -> None:
    """Print to standard error that a function will be compiled, unless its code is on disk."""
    if not is_on_disk(function):
        text = f"bdkn: compiling {what} for this CPU (once, some {seconds} s; later runs load it from disk) ..."
        print(text, file=sys.stderr, flush=True)


def is_on_disk(function: Any) -> bool:
    """Return whether the code of a compiled function is in Numba's cache on disk."""
    python = function.py_func
    stem = f"{python.__module__.rpartition('.')[2]}.{python.__qualname__}-"
    return any(Path(function.stats.cache_path).glob(f"{stem}*.nbi"))
