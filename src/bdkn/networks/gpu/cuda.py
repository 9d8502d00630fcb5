"""Access to CUDA devices: compiled programs, memory and launches."""

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
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bdkn.errors import InvalidParameterError
from bdkn.kernels import code_cache as code_folders
from bdkn.kernels.code_cache import replace_file

THREADS = 512
"""Threads of a block, at most."""

SOURCE = Path(__file__).with_name("kernel.cu")
"""The file of the programs."""


@dataclass(frozen=True, order=True)
class Program:
    """A program in the file: its name, the macros with which it is compiled, and the threads of a block."""

    name: str
    macros: tuple[str, ...] = ()
    threads: int = THREADS


PREDICT = Program("predict", ("PREDICT",))
"""The program of predictions."""


class NoDeviceError(Exception):
    """There is no device that can be used; the message says why."""


class Buffer(Protocol):
    """Memory on a device, freed with the object."""

    @property
    def address(self) -> int:
        """Where the memory begins."""


class Device(Protocol):
    """A device: its memory and its programs."""

    @property
    def name(self) -> str:
        """What the device is called in messages."""

    @property
    def torch_name(self) -> str | None:
        """What PyTorch calls the device; None where it does not know it."""

    @property
    def threads(self) -> int:
        """Threads of a block, at most."""

    @property
    def shared_bytes(self) -> int:
        """Shared memory that one block can have."""

    @property
    def multiprocessors(self) -> int:
        """How many blocks run at the same time at least."""

    def allocate(self, n_bytes: int) -> Buffer:
        """Return memory; raise ``MemoryError`` if there is none left."""

    def host_memory(self, n_bytes: int) -> NDArray[np.uint8]:
        """Return memory of this machine from which ``fill`` copies fast."""

    def fill(self, buffer: Any, values: NDArray[Any], start: int = 0) -> None:
        """Copy an array to byte ``start`` of a buffer, while programs run that do not use it."""

    def download(self, buffer: Any, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a copy of an array that is at the beginning of a buffer."""

    def queue(self) -> Any:
        """Return a queue: what is launched in one runs in order, beside what is launched in others."""

    def launch(self, queue: Any, program: Program, arguments: bytes, blocks: int, shared_bytes: int) -> None:
        """Start so many blocks of a program; they may run on after the call."""

    def wait(self, queue: Any) -> None:
        """Wait until all that was launched in a queue has ended."""


def upload(device: Device, values: NDArray[Any]) -> Buffer:
    """Return a copy of an array on a device."""
    buffer = device.allocate(values.nbytes)
    device.fill(buffer, values)
    return buffer


def one_line(message: object) -> str:
    """Return the text of a message of CUDA in one line, shortened."""
    text = " ".join(str(message).split())
    return text if len(text) <= 300 else f"{text[:297]}..."


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


_OWN_SHARED_BYTES = 1024
"""Shared memory that is left to the programs' own variables."""

_CONNECTIONS = 32
"""Queues of the device that can be worked on at the same time, as many as CUDA allows."""

_NOT_READY = 600
_FIRST_NAP_S, _LONGEST_NAP_S = 2e-5, 2e-3
"""How long the host sleeps between two looks at a queue: not long, and interruptible."""

_found: dict[tuple[int, int], Cuda | NoDeviceError] = {}
_finding = threading.Lock()


def find_cuda(number: int = 0) -> Cuda:
    """Return a GPU with the programs compiled for it, made once per process; raise ``NoDeviceError`` if there is none.

    A process made by fork cannot use what its parent found.
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


def known_cuda(number: int = 0) -> Cuda | None:
    """Return a GPU that this process has used before, None if it has not."""
    found = _found.get((number, os.getpid()))
    return found if isinstance(found, Cuda) else None


class CudaBuffer:
    """Memory on a GPU, freed with the object."""

    def __init__(self, address: int, free: Any) -> None:
        self.address, self._free = address, free

    def __del__(self) -> None:
        self._free(self.address)


class PinnedMemory:
    """Memory of this machine that stays where it is, so that a GPU reads it without the help of the CPU."""

    def __init__(self, address: int, n_bytes: int, free: Any) -> None:
        self._address, self._free = address, free
        self.__array_interface__ = {"shape": (n_bytes,), "typestr": "|u1", "data": (address, False), "version": 3}

    def __del__(self) -> None:
        self._free(self._address)


class Cuda:
    """A GPU, with the programs compiled for it."""

    threads = THREADS

    def __init__(self, number: int = 0) -> None:
        self._driver, self.torch_name = _driver(), f"cuda:{number}"
        self._device = self._find(number)
        try:
            (self._context,) = self._call(self._driver.cuDevicePrimaryCtxRetain(self._device))
            self._make_current()
            self.name = self._call(self._driver.cuDeviceGetName(128, self._device))[0].split(b"\0")[0].decode().strip()
            self.shared_bytes = self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") - _OWN_SHARED_BYTES
            self.multiprocessors = self.attribute("MULTIPROCESSOR_COUNT")
            self._functions: dict[Program, Any] = {}
            self._loading = threading.Lock()
            self._function(PREDICT)
            self._copies = self.queue()
        except (RuntimeError, MemoryError) as error:
            raise NoDeviceError(f"the GPU cannot be used: {error}") from error
        self._has_pools = bool(self.attribute("MEMORY_POOLS_SUPPORTED"))

    def _find(self, number: int) -> Any:
        # With the usual eight, programs of other fits would wait for one another, and copies for programs.
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", str(_CONNECTIONS))
        try:
            self._call(self._driver.cuInit(0))
            (count,) = self._call(self._driver.cuDeviceGetCount())
        except Exception as error:  # also whatever the bindings raise where there is no driver
            raise NoDeviceError(f"there is no CUDA device ({one_line(error)})") from error
        if not count:
            raise NoDeviceError("there is no CUDA device")
        if not 0 <= number < count:
            raise InvalidParameterError(
                f"device must be the number of a CUDA device, from 0 to {count - 1}; got {number}; "
                "try engine='fused', which needs none"
            )
        return self._call(self._driver.cuDeviceGet(number))[0]

    def _function(self, program: Program) -> Any:
        """Return a program in the memory of the device, compiled and loaded when it is first used."""
        with self._loading:
            if program not in self._functions:
                self._functions[program] = self._load(program)
            return self._functions[program]

    def _load(self, program: Program) -> Any:
        driver = self._driver
        version = f"sm_{self.attribute('COMPUTE_CAPABILITY_MAJOR')}{self.attribute('COMPUTE_CAPABILITY_MINOR')}"
        (module,) = self._call(driver.cuModuleLoadData(machine_code(version, program)))
        (function,) = self._call(driver.cuModuleGetFunction(module, program.name.encode()))
        wanted = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call(driver.cuFuncSetAttribute(function, wanted, self.shared_bytes))
        return function

    def allocate(self, n_bytes: int) -> CudaBuffer:
        """Return memory; raise ``MemoryError`` if there is none left.

        Where the driver has a pool of memory, it is used: memory that goes back to it keeps no other program waiting.
        """
        self._make_current()
        if not self._has_pools:
            (address,) = self._call(self._driver.cuMemAlloc(max(n_bytes, 16)))
            return CudaBuffer(int(address), self._driver.cuMemFree)
        (address,) = self._call(self._driver.cuMemAllocAsync(max(n_bytes, 16), self._copies))
        self._call(self._driver.cuStreamSynchronize(self._copies))
        return CudaBuffer(int(address), self._give_back)

    def _give_back(self, address: int) -> None:
        self._driver.cuCtxSetCurrent(self._context)
        self._driver.cuMemFreeAsync(address, self._copies)

    def host_memory(self, n_bytes: int) -> NDArray[np.uint8]:
        """Return memory of this machine from which ``fill`` copies fast: it is pinned, if there is enough."""
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
        """Copy an array to byte ``start`` of a buffer, while programs run that do not use it."""
        values = np.ascontiguousarray(values)
        if values.nbytes:
            self._make_current()
            place, into = values.ctypes.data, buffer.address + start
            self._call(self._driver.cuMemcpyHtoDAsync(into, place, values.nbytes, self._copies))
            self._call(self._driver.cuStreamSynchronize(self._copies))

    def download(self, buffer: CudaBuffer, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a copy of an array that is at the beginning of a buffer."""
        values = np.empty(shape, dtype=dtype)
        if values.nbytes:
            self._make_current()
            place = values.ctypes.data
            self._call(self._driver.cuMemcpyDtoHAsync(place, buffer.address, values.nbytes, self._copies))
            self._call(self._driver.cuStreamSynchronize(self._copies))
        return values

    def queue(self) -> Any:
        """Return a queue: what is launched in one runs in order, beside what is launched in others."""
        self._make_current()
        (stream,) = self._call(self._driver.cuStreamCreate(self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        return stream

    def wait(self, queue: Any) -> None:
        """Wait until all that was launched in a queue has ended; other threads run, and Ctrl-C is seen."""
        self._make_current()
        nap = _FIRST_NAP_S
        while int(status := self._driver.cuStreamQuery(queue)[0]) == _NOT_READY:
            time.sleep(nap)
            nap = min(1.1 * nap, _LONGEST_NAP_S)
        self._call((status,))

    def launch(self, queue: Any, program: Program, arguments: bytes, blocks: int, shared_bytes: int) -> None:
        """Start so many blocks of a program; they may run on after the call."""
        room = ctypes.create_string_buffer(arguments, len(arguments))
        places = (ctypes.c_void_p * 1)(ctypes.addressof(room))
        self._make_current()
        grid, block = (blocks, 1, 1), (program.threads, 1, 1)
        function, address = self._function(program), ctypes.addressof(places)
        self._call(self._driver.cuLaunchKernel(function, *grid, *block, shared_bytes, queue, address, 0))

    def attribute(self, name: str) -> int:
        """Return a number that the driver knows about the device, such as "MULTIPROCESSOR_COUNT"."""
        attribute = getattr(self._driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call(self._driver.cuDeviceGetAttribute(attribute, self._device))[0])

    def _make_current(self) -> None:
        """Tell CUDA which device the calls of this thread are about."""
        self._call(self._driver.cuCtxSetCurrent(self._context))

    @staticmethod
    def _call(answer: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what a function of CUDA returned, without its status; raise if that is an error."""
        status, *values = answer
        if int(status) == 0:
            return tuple(values)
        name = getattr(status, "name", str(status))
        if "OUT_OF_MEMORY" in name:
            raise MemoryError(f"the GPU has too little memory ({name})")
        raise RuntimeError(name)


def _driver() -> Any:
    """Return the bindings of CUDA's driver."""
    try:
        is_there = importlib.util.find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:  # there is not even a package cuda
        is_there = False
    if not is_there:
        raise NoDeviceError('the Python bindings of CUDA are not installed; run: pip install "bdkn[gpu]"')
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise NoDeviceError(f"the Python bindings of CUDA cannot be imported ({error})") from error
    return driver
