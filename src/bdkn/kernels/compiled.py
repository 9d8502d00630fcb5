"""Decorators that compile the inner loops of this library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numba as nb

from bdkn.kernels.code_cache import CodeCache

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
