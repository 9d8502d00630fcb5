"""Access to GPUs by CUDA: compilation of programs, memory, copies, and launches of programs."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bdkn.errors import InvalidParameterError
from bdkn.kernels import code_cache

THREADS = 512
"""Maximum number of GPU threads in a block; a block trains one network."""

SOURCE = Path(__file__).with_name("kernel.cu")
"""Path of the CUDA C++ source file of all GPU programs."""


@dataclass(frozen=True, order=True)
class Program:
    """A GPU program of the source file: its name, the macros for its compilation, and the threads per block."""

    name: str
    macros: tuple[str, ...] = ()
    threads: int = THREADS


PREDICT = Program("predict", ("PREDICT",))
"""The GPU program that predicts with trained networks."""


class NoDeviceError(Exception):
    """Raised if there is no GPU that can be used; the message states the reason."""


_DIGEST_BYTES = 32
"""Size, in bytes, of the SHA-256 digest at the beginning of a file with compiled code."""


def machine_code(architecture: str, program: Program) -> bytes:
    """Return the machine code of a program for an architecture such as "sm_90"; compile it unless it is on disk."""
    nvrtc = _nvrtc()
    options = [f"--gpu-architecture={architecture}", "--std=c++17", "--ftz=true", f"-DTHREADS={program.threads}"]
    options += [f"-D{macro}" for macro in program.macros]
    source, version = SOURCE.read_bytes(), nvrtc.nvrtcVersion()[1:]
    key = hashlib.sha256(repr((options, version)).encode() + source).hexdigest()[:32]
    name = f"{program.name}-{architecture}-{key}.cubin"
    for folder in code_cache.readable():
        content = code_cache.read_trusted(folder / name)
        if content is not None and hashlib.sha256(content[_DIGEST_BYTES:]).digest() == content[:_DIGEST_BYTES]:
            return content[_DIGEST_BYTES:]
    text = "bdkn: compiling a program for this GPU (once, some 3 s; later runs load it from disk) ..."
    print(text, file=sys.stderr, flush=True)
    code = _compiled(nvrtc, source, options)
    content = hashlib.sha256(code).digest() + code
    code_cache.write_first(functools.partial(code_cache.replace_file, name, content))
    return code


def _nvrtc() -> Any:
    """Return NVIDIA's compiler NVRTC, a Python module; raise ``NoDeviceError`` if it cannot be loaded."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as error:
        raise NoDeviceError(
            f'NVIDIA\'s compiler NVRTC cannot be loaded ({_one_line(error)}); run: pip install "bdkn[gpu]"'
        ) from error
    return nvrtc


def _compiled(nvrtc: Any, source: bytes, options: list[str]) -> bytes:
    _, program = nvrtc.nvrtcCreateProgram(source, SOURCE.name.encode(), 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if int(status):
        log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
        nvrtc.nvrtcGetProgramLog(program, log)
        raise NoDeviceError(f"NVRTC cannot compile for this GPU: {_one_line(log.decode(errors='replace'))}")
    code: bytes = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    nvrtc.nvrtcGetCUBIN(program, code)
    return code


def _one_line(message: object) -> str:
    """Return an error message of CUDA as one line of at most 300 characters."""
    text = " ".join(str(message).split())
    return text if len(text) <= 300 else f"{text[:297]}..."


_RESERVED_SHARED_BYTES = 1024
"""Size, in bytes, of the shared memory per block that is reserved for variables of the programs."""

_MAX_CONNECTIONS = 32
"""Number of queues (CUDA streams) that a GPU processes at the same time; the maximum of CUDA."""

_NOT_READY = 600
"""Status that CUDA returns for a queue whose programs have not ended."""

_MIN_SLEEP_S, _MAX_SLEEP_S = 2e-5, 2e-3
"""Minimum and maximum time, in seconds, between two checks whether the programs in a queue have ended."""

_found: dict[tuple[int, int], Cuda | NoDeviceError] = {}
_finding = threading.Lock()


def find_cuda(number: int = 0) -> Cuda:
    """Return the GPU with this number, initialized once per process; raise ``NoDeviceError`` if there is none.

    A process that was made by fork gets a new object, since it cannot use the object of its parent process.
    """
    key = number, os.getpid()
    with _finding:
        if key not in _found:
            try:
                _found[key] = Cuda(number)
            except NoDeviceError as error:
                _found[key] = error
        found = _found[key]
    if isinstance(found, NoDeviceError):
        raise NoDeviceError(str(found))
    return found


def known_cuda() -> Cuda | None:
    """Return the first GPU if this process has used it before, else None."""
    found = _found.get((0, os.getpid()))
    return found if isinstance(found, Cuda) else None


class CudaBuffer:
    """Memory on a GPU, freed when the object is deleted."""

    def __init__(self, address: int, free: Any) -> None:
        self.address, self._free = address, free

    def __del__(self) -> None:
        self._free(self.address)


class PinnedMemory(CudaBuffer):
    """Main memory with a fixed physical address (pinned memory), from which a GPU copies without the CPU."""

    def __init__(self, address: int, n_bytes: int, free: Any) -> None:
        super().__init__(address, free)
        self.__array_interface__ = {"shape": (n_bytes,), "typestr": "|u1", "data": (address, False), "version": 3}


class Cuda:
    """A GPU: its memory and its programs.

    A block has at most ``threads`` threads and ``shared_bytes`` of shared memory; each of the ``multiprocessors`` runs
    at least one block at a time. ``name`` is for messages; ``torch_name`` is PyTorch's name of the GPU, None if PyTorch
    cannot use it. Programs in one queue (CUDA stream) run in order, programs in different queues in parallel.
    """

    threads = THREADS
    torch_name: str | None

    def __init__(self, number: int = 0) -> None:
        self._driver, self.torch_name = _driver(), f"cuda:{number}"
        self._device = self._find(number)
        try:
            (self._context,) = self._call(self._driver.cuDevicePrimaryCtxRetain(self._device))
            self._make_current()
            self.name = self._call(self._driver.cuDeviceGetName(128, self._device))[0].split(b"\0")[0].decode().strip()
            self.shared_bytes = self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") - _RESERVED_SHARED_BYTES
            self.multiprocessors = self.attribute("MULTIPROCESSOR_COUNT")
            self._functions: dict[Program, Any] = {}
            self._loading = threading.Lock()
            self._function(PREDICT)
            self._copies = self.queue()
        except (RuntimeError, MemoryError) as error:
            raise NoDeviceError(f"the GPU cannot be used: {error}") from error
        self._has_pools = bool(self.attribute("MEMORY_POOLS_SUPPORTED"))

    def _find(self, number: int) -> Any:
        # With the default of eight queues, programs of several fits would wait for each other, and copies for programs.
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", str(_MAX_CONNECTIONS))
        try:
            self._call(self._driver.cuInit(0))
            (count,) = self._call(self._driver.cuDeviceGetCount())
        except Exception as error:  # without a driver the bindings raise errors of various types
            raise NoDeviceError(f"there is no CUDA device ({_one_line(error)})") from error
        if not count:
            raise NoDeviceError("there is no CUDA device")
        if not 0 <= number < count:
            raise InvalidParameterError(
                f"device must be the number of a CUDA device, from 0 to {count - 1}; got {number}; "
                "try engine='fused', which needs none"
            )
        return self._call(self._driver.cuDeviceGet(number))[0]

    def _function(self, program: Program) -> Any:
        """Return the handle of a program, which is compiled and loaded to the GPU on first use."""
        with self._loading:
            if program not in self._functions:
                driver = self._driver
                major, minor = (self.attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
                (module,) = self._call(driver.cuModuleLoadData(machine_code(f"sm_{major}{minor}", program)))
                (function,) = self._call(driver.cuModuleGetFunction(module, program.name.encode()))
                limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._call(driver.cuFuncSetAttribute(function, limit, self.shared_bytes))
                self._functions[program] = function
            return self._functions[program]

    def allocate(self, n_bytes: int) -> CudaBuffer:
        """Return ``n_bytes`` of GPU memory; raise ``MemoryError`` if the GPU does not have enough.

        Memory is taken from a pool if the driver has one: returning it to the pool does not wait for running programs.
        """
        self._make_current()
        if not self._has_pools:
            (address,) = self._call(self._driver.cuMemAlloc(max(n_bytes, 16)))
            return CudaBuffer(int(address), self._driver.cuMemFree)
        (address,) = self._call(self._driver.cuMemAllocAsync(max(n_bytes, 16), self._copies))
        self._call(self._driver.cuStreamSynchronize(self._copies))
        return CudaBuffer(int(address), self._free)

    def _free(self, address: int) -> None:
        self._driver.cuCtxSetCurrent(self._context)
        self._driver.cuMemFreeAsync(address, self._copies)

    def host_memory(self, n_bytes: int) -> NDArray[np.uint8]:
        """Return an array in main memory that ``fill`` copies fast to the GPU: in pinned memory, if there is enough."""
        self._make_current()
        try:
            (address,) = self._call(self._driver.cuMemHostAlloc(max(n_bytes, 16), 0))
        except (MemoryError, RuntimeError):
            return np.empty(n_bytes, dtype=np.uint8)
        return np.asarray(PinnedMemory(int(address), n_bytes, self._free_host))

    def _free_host(self, address: int) -> None:
        self._driver.cuCtxSetCurrent(self._context)
        self._driver.cuMemFreeHost(address)

    def fill(self, buffer: CudaBuffer, values: NDArray[Any], start: int = 0) -> None:
        """Copy an array to GPU memory, from byte ``start`` of the buffer on; programs continue to run meanwhile."""
        values = np.ascontiguousarray(values)
        if values.nbytes:
            self._make_current()
            target, source = buffer.address + start, values.ctypes.data
            self._call(self._driver.cuMemcpyHtoDAsync(target, source, values.nbytes, self._copies))
            self._call(self._driver.cuStreamSynchronize(self._copies))

    def download(self, buffer: CudaBuffer, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
        """Copy an array from the beginning of a buffer in GPU memory to main memory, and return it."""
        values = np.empty(shape, dtype=dtype)
        if values.nbytes:
            self._make_current()
            target, source = values.ctypes.data, buffer.address
            self._call(self._driver.cuMemcpyDtoHAsync(target, source, values.nbytes, self._copies))
            self._call(self._driver.cuStreamSynchronize(self._copies))
        return values

    def queue(self) -> Any:
        """Return a new queue (CUDA stream) in which programs are launched."""
        self._make_current()
        (stream,) = self._call(self._driver.cuStreamCreate(self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        return stream

    def wait(self, queue: Any) -> None:
        """Wait until all programs in a queue have ended; meanwhile other threads run, and Ctrl-C has an effect."""
        self._make_current()
        seconds = _MIN_SLEEP_S
        while int(status := self._driver.cuStreamQuery(queue)[0]) == _NOT_READY:
            time.sleep(seconds)
            seconds = min(1.1 * seconds, _MAX_SLEEP_S)
        self._call((status,))

    def launch(self, queue: Any, program: Program, arguments: bytes, blocks: int, shared_bytes: int) -> None:
        """Start a GPU program with this number of blocks of threads; the call does not wait for its end."""
        struct = ctypes.create_string_buffer(arguments, len(arguments))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(struct))
        self._make_current()
        grid, block = (blocks, 1, 1), (program.threads, 1, 1)
        function, address = self._function(program), ctypes.addressof(pointers)
        self._call(self._driver.cuLaunchKernel(function, *grid, *block, shared_bytes, queue, address, 0))

    def attribute(self, name: str) -> int:
        """Return an attribute of the GPU, such as "MULTIPROCESSOR_COUNT"."""
        attribute = getattr(self._driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call(self._driver.cuDeviceGetAttribute(attribute, self._device))[0])

    def _make_current(self) -> None:
        """Select this GPU for the CUDA calls of the current thread."""
        self._call(self._driver.cuCtxSetCurrent(self._context))

    @staticmethod
    def _call(answer: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the values of a CUDA call without its status code; raise if the status is an error."""
        status, *values = answer
        if int(status) == 0:
            return tuple(values)
        name = getattr(status, "name", str(status))
        if "OUT_OF_MEMORY" in name:
            raise MemoryError(f"the GPU has too little memory ({name})")
        raise RuntimeError(name)


def upload(device: Cuda, values: NDArray[Any]) -> CudaBuffer:
    """Copy an array to the memory of a GPU, and return the buffer."""
    buffer = device.allocate(values.nbytes)
    device.fill(buffer, values)
    return buffer


def _driver() -> Any:
    """Return the Python bindings of the CUDA driver; raise ``NoDeviceError`` if they are not installed."""
    try:
        is_installed = importlib.util.find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:  # not even a package named cuda is installed
        is_installed = False
    if not is_installed:
        raise NoDeviceError('the Python bindings of CUDA are not installed; run: pip install "bdkn[gpu]"')
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise NoDeviceError(f"the Python bindings of CUDA cannot be imported ({error})") from error
    return driver
