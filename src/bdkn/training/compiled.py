"""How this library's inner loops are compiled."""

from __future__ import annotations

from collections.abc import Callable
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
    """Compile into whatever calls it, so that a loop over it can become vector code."""
    jit: Any = nb.njit(inline="always", error_model="numpy")
    code: Function = jit(function)
    return code


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function emit LLVM instructions itself; within compiled code only."""
    from numba import extending

    emit: Any = extending.intrinsic
    code: Callable[..., Any] = emit(function)
    return code
