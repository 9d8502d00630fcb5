"""The programs for GPUs in machine code: compiled by NVRTC, and kept on disk like other compiled code."""

from __future__ import annotations

import functools
import hashlib
import sys
from typing import Any

from bdkn.kernels import code_folders
from bdkn.kernels.code_cache import replace_file
from bdkn.kernels.gpu.device import SOURCE, NoDeviceError, Program, one_line

_DIGEST_BYTES = 32


def machine_code(architecture: str, program: Program) -> bytes:
    """Return a program for an architecture, such as "sm_90", from disk if it was compiled before."""
    nvrtc = _nvrtc()
    options = [f"--gpu-architecture={architecture}", "--std=c++17", "--ftz=true", f"-DTHREADS={program.threads}"]
    options += [f"-D{macro}" for macro in program.macros]
    source, version = SOURCE.read_bytes(), nvrtc.nvrtcVersion()[1:]
    key = hashlib.sha256(repr((options, version)).encode() + source).hexdigest()[:32]
    name = f"{program.name}-{architecture}-{key}.cubin"
    found = _on_disk(name)
    if found is not None:
        return found
    text = "bdkn: compiling a program for this GPU (once, some 3 s; later runs load it from disk) ..."
    print(text, file=sys.stderr, flush=True)
    code = _compiled(nvrtc, source, options)
    content = hashlib.sha256(code).digest() + code
    code_folders.write_first(functools.partial(replace_file, name, content))
    return code


def _on_disk(name: str) -> bytes | None:
    """Return the code in a file that nobody else can have written, None if there is none or it is damaged."""
    for folder in code_folders.readable():
        content = code_folders.read_trusted(folder / name)
        if content is not None and hashlib.sha256(content[_DIGEST_BYTES:]).digest() == content[:_DIGEST_BYTES]:
            return content[_DIGEST_BYTES:]
    return None


def _nvrtc() -> Any:
    """Return NVIDIA's compiler; raise ``NoDeviceError`` if its library is missing."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as error:
        raise NoDeviceError(
            f'NVIDIA\'s compiler NVRTC cannot be loaded ({one_line(error)}); run: pip install "bdkn[gpu]"'
        ) from error
    return nvrtc


def _compiled(nvrtc: Any, source: bytes, options: list[str]) -> bytes:
    _, program = nvrtc.nvrtcCreateProgram(source, SOURCE.name.encode(), 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if int(status):
        log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
        nvrtc.nvrtcGetProgramLog(program, log)
        raise NoDeviceError(f"NVRTC cannot compile for this GPU: {one_line(log.decode(errors='replace'))}")
    code: bytes = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    nvrtc.nvrtcGetCUBIN(program, code)
    return code
