"""Emulation of a GPU on the CPU, by a C++ compiler: slow, for tests of the CUDA programs."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bdkn.errors import InvalidParameterError
from bdkn.networks.gpu.cuda import SOURCE, Program

_RUNNING = threading.Lock()
"""Lock of the emulation, which runs one block at a time."""


class HostBuffer:
    """Memory of this machine."""

    def __init__(self, n_bytes: int) -> None:
        self.bytes = np.empty(max(n_bytes, 16), dtype=np.uint8)
        self.address = int(self.bytes.ctypes.data)


class Emulated:
    """An emulated device, which runs blocks one after the other, and the threads of a block in turn.

    Parameters
    ----------
    threads : int, default=64
        Threads of a block, a multiple of 64.
    shared_bytes : int, default=232448
        Shared memory of a block, by default that of an H100.
    memory : int, optional
        Bytes that can be allocated in one piece; without limit by default.
    """

    name = "an emulated GPU"
    torch_name = None
    multiprocessors = 4

    def __init__(self, threads: int = 64, shared_bytes: int = 227 * 1024, memory: int | None = None) -> None:
        self.threads, self.shared_bytes, self._memory = threads, shared_bytes, memory

    def allocate(self, n_bytes: int) -> HostBuffer:
        """Return memory; raise ``MemoryError`` if it exceeds the limit."""
        if self._memory is not None and n_bytes > self._memory:
            raise MemoryError("the emulated GPU has too little memory")
        return HostBuffer(n_bytes)

    def host_memory(self, n_bytes: int) -> NDArray[np.uint8]:
        """Return memory of this machine."""
        return np.empty(n_bytes, dtype=np.uint8)

    def fill(self, buffer: HostBuffer, values: NDArray[Any], start: int = 0) -> None:
        """Copy an array to a buffer from byte ``start`` on."""
        buffer.bytes[start : start + values.nbytes] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)

    def download(self, buffer: HostBuffer, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a copy of the array at the beginning of a buffer."""
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return buffer.bytes[:n_bytes].view(dtype).reshape(shape).copy()

    def queue(self) -> None:
        """Return a queue: None, since launches wait for their end."""

    def wait(self, queue: None) -> None:
        """Do nothing: programs have ended when ``launch`` returns."""

    def launch(self, queue: None, program: Program, arguments: bytes, blocks: int, shared_bytes: int) -> None:
        """Run the blocks of a program, one after the other."""
        with _RUNNING:
            _emulation(self.threads, program).emulate(arguments, blocks, shared_bytes)


@cache
def _emulation(threads: int, program: Program) -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        raise InvalidParameterError("the emulation of a GPU needs the compiler g++; it was not found")
    folder = Path(tempfile.mkdtemp(prefix="bdkn-emulated-"))
    source, library = folder / "emulated.cpp", folder / "emulated.so"
    texts = [Path(__file__).with_name("emulated.h").read_text("utf-8"), SOURCE.read_text("utf-8"), _ENTRY]
    source.write_text("\n".join(texts), encoding="utf-8")
    flags = ["-O1", "-std=c++20", "-shared", "-fPIC", "-Wno-unknown-pragmas"]
    flags += [f"-D{macro}" for macro in (f"THREADS={threads}", f"PROGRAM={program.name}", *program.macros)]
    subprocess.run([compiler, *flags, "-o", str(library), str(source)], check=True)
    loaded = ctypes.CDLL(str(library))
    shutil.rmtree(folder)
    return loaded


_ENTRY = """
template <class Arguments> struct Work {
    static void (*program)(Arguments);
    static Arguments arguments;
    static void run() {
        program(arguments);
        threadIdx.x++;
    }
};
template <class Arguments> void (*Work<Arguments>::program)(Arguments);
template <class Arguments> Arguments Work<Arguments>::arguments;

template <class Arguments>
void run_blocks(void (*program)(Arguments), const char *bytes, int blocks, int shared_bytes) {
    const int stack = 1 << 16;
    Work<Arguments>::program = program;
    Work<Arguments>::arguments = *reinterpret_cast<const Arguments *>(bytes);
    std::vector<float4> memory(shared_bytes / 16 + 1);
    std::vector<char> stacks(static_cast<size_t>(THREADS) * stack);
    emulated_memory = reinterpret_cast<float *>(memory.data());
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        std::fill(memory.begin(), memory.end(), float4{NAN, NAN, NAN, NAN});
        for (int i = 0; i < THREADS; i++) {
            ucontext_t &thread = emulated_threads[i];
            getcontext(&thread);
            thread.uc_stack.ss_sp = stacks.data() + static_cast<size_t>(i) * stack;
            thread.uc_stack.ss_size = stack;
            thread.uc_link = i + 1 < THREADS ? &emulated_threads[i + 1] : &emulated_host;
            makecontext(&thread, reinterpret_cast<void (*)()>(Work<Arguments>::run), 0);
        }
        threadIdx.x = 0;
        swapcontext(&emulated_host, &emulated_threads[0]);
    }
}
extern "C" void emulate(const char *arguments, int blocks, int shared_bytes) {
    run_blocks(PROGRAM, arguments, blocks, shared_bytes);
}
"""
