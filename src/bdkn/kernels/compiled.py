"""How this library's inner loops are compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba as nb

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile for this CPU, keep the code on disk, release the interpreter's lock while it runs.

    No fast-math: where a compiler reorders and fuses depends on what it inlines, and the same seed must give the same
    bits whether the code was just compiled or comes from disk.
    """
    jit: Any = nb.njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
    code: Function = jit(function)
    return code


def inlined(function: Function) -> Function:
    """Compile into the function that calls it, so that a loop over it can become vector code."""
    jit: Any = nb.njit(inline="always", error_model="numpy")
    code: Function = jit(function)
    return code


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that emits LLVM instructions; for use in compiled code only."""
    from numba import extending

    emit: Any = extending.intrinsic
    code: Callable[..., Any] = emit(function)
    return code


def announce(function: Any, what: str, seconds: int) -> None:
    """Print to standard error that a function is about to be compiled, if it is not on disk."""
    if not is_on_disk(function):
        text = f"bdkn: compiling {what} for this CPU (once, some {seconds} s; later runs load it from disk) ..."
        print(text, file=sys.stderr, flush=True)


def is_on_disk(function: Any) -> bool:
    """Return whether Numba has kept the code of a compiled function in an earlier run."""
    python = function.py_func
    stem = f"{python.__module__.rpartition('.')[2]}.{python.__qualname__}-"
    return any(Path(function.stats.cache_path).glob(f"{stem}*.nbi"))
