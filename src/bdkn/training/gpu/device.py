"""Where programs run: a GPU, through NVIDIA's bindings of CUDA, or threads of this machine, for tests."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from bdkn.errors import InvalidParameterError, missing_extra
from bdkn.typing import Array

THREADS = 256
"""Threads of a program."""
_SOURCE = Path(__file__).with_name("kernel.cu")


class Device(Protocol):
    """Memory of a device and the program on it."""

    torch_name: str
    """What PyTorch calls the device."""

    @property
    def shared_bytes(self) -> int:
        """Shared memory that one program can have."""

    def upload(self, values: Array) -> Any:
        """Return a copy of an array on the device."""

    def download(self, buffer: Any, dtype: DTypeLike, shape: tuple[int, ...]) -> Array:
        """Return a copy of an array that is on the device."""

    def address(self, buffer: Any) -> int:
        """Return where a buffer lies."""

    def fill(self, buffer: Any, values: Array) -> None:
        """Copy an array into a buffer that is large enough, while programs run that do not use it."""

    def queue(self) -> Any:
        """Return a queue: what is launched in one runs in order, beside what is launched in others."""

    def launch(self, queue: Any, arguments: bytes, programs: int, shared_bytes: int) -> None:
        """Start so many programs; they may run on after the call."""

    def wait(self, queue: Any) -> None:
        """Wait until all that was launched in a queue has ended."""


class Buffer:
    """Memory on a GPU, freed with the object."""

    def __init__(self, address: int, free: Any) -> None:
        self.address, self._free = address, free

    def __del__(self) -> None:
        self._free(self.address)


class Cuda:
    """A GPU, with the program compiled for it."""

    def __init__(self, number: int = 0) -> None:
        if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
            raise missing_extra("cuda.bindings", "gpu")
        from cuda.bindings import driver

        self._driver, self.torch_name = driver, f"cuda:{number}"
        self._call(driver.cuInit(0))
        (count,) = self._call(driver.cuDeviceGetCount())
        if number >= count:
            raise InvalidParameterError(
                f"device must be the number of a CUDA device, from 0 to {count - 1}; got {number}; "
                "try engine='fused', which needs none"
            )
        (self._device,) = self._call(driver.cuDeviceGet(number))
        (self._context,) = self._call(driver.cuDevicePrimaryCtxRetain(self._device))
        self._call(driver.cuCtxSetCurrent(self._context))
        (self._module,) = self._call(driver.cuModuleLoadData(self._compiled()))
        (self._function,) = self._call(driver.cuModuleGetFunction(self._module, b"train"))
        wanted = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call(driver.cuFuncSetAttribute(self._function, wanted, self.shared_bytes))
        self._copies = self.queue()

    @property
    def shared_bytes(self) -> int:
        """Shared memory that one program can have; some is left to the program's own variables."""
        return int(self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")) - 1024

    @property
    def multiprocessors(self) -> int:
        """How many programs run at the same time at least."""
        return self._attribute("MULTIPROCESSOR_COUNT")

    def upload(self, values: Array) -> Buffer:
        """Return a copy of an array on the device."""
        self._call(self._driver.cuCtxSetCurrent(self._context))
        (address,) = self._call(self._driver.cuMemAlloc(max(values.nbytes, 16)))
        buffer = Buffer(int(address), self._driver.cuMemFree)
        self.fill(buffer, values)
        return buffer

    def fill(self, buffer: Buffer, values: Array) -> None:
        """Copy an array into a buffer that is large enough, while programs run that do not use it."""
        values = np.ascontiguousarray(values)
        self._call(self._driver.cuCtxSetCurrent(self._context))
        if values.nbytes:
            place = values.ctypes.data
            self._call(self._driver.cuMemcpyHtoDAsync(buffer.address, place, values.nbytes, self._copies))
            self.wait(self._copies)

    def download(self, buffer: Buffer, dtype: DTypeLike, shape: tuple[int, ...]) -> Array:
        """Return a copy of an array that is on the device."""
        values = np.empty(shape, dtype=dtype)
        self._call(self._driver.cuCtxSetCurrent(self._context))
        place = values.ctypes.data
        self._call(self._driver.cuMemcpyDtoHAsync(place, buffer.address, values.nbytes, self._copies))
        self.wait(self._copies)
        return values

    def queue(self) -> Any:
        """Return a queue: what is launched in one runs in order, beside what is launched in others."""
        self._call(self._driver.cuCtxSetCurrent(self._context))
        (stream,) = self._call(self._driver.cuStreamCreate(self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        return stream

    def wait(self, queue: Any) -> None:
        """Wait until all that was launched in a queue has ended."""
        self._call(self._driver.cuStreamSynchronize(queue))

    def address(self, buffer: Buffer) -> int:
        """Return where a buffer lies."""
        return buffer.address

    def launch(self, queue: Any, arguments: bytes, programs: int, shared_bytes: int) -> None:
        """Start so many programs; they may run on after the call."""
        room = ctypes.create_string_buffer(arguments, len(arguments))
        places = (ctypes.c_void_p * 1)(ctypes.addressof(room))
        self._call(self._driver.cuCtxSetCurrent(self._context))
        self._call(
            self._driver.cuLaunchKernel(
                self._function, programs, 1, 1, THREADS, 1, 1, shared_bytes, queue, ctypes.addressof(places), 0
            )
        )

    def _attribute(self, name: str) -> int:
        attribute = getattr(self._driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call(self._driver.cuDeviceGetAttribute(attribute, self._device))[0])

    def _call(self, answer: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what a function of CUDA returned, without its status; raise if that is an error."""
        status, *values = answer
        if int(status) == 0:
            return tuple(values)
        if "OUT_OF_MEMORY" in str(status):
            raise MemoryError(f"the GPU has too little memory ({status})")
        raise RuntimeError(f"CUDA: {status}")

    def _compiled(self) -> bytes:
        """Return the program for this device, compiled by NVRTC."""
        from cuda.bindings import nvrtc

        major, minor = self._attribute("COMPUTE_CAPABILITY_MAJOR"), self._attribute("COMPUTE_CAPABILITY_MINOR")
        source = _SOURCE.read_bytes()
        program = self._call(nvrtc.nvrtcCreateProgram(source, b"kernel.cu", 0, [], []))[0]
        options = [f"--gpu-architecture=sm_{major}{minor}".encode(), b"--std=c++17", f"-DTHREADS={THREADS}".encode()]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(status):
            (size,) = self._call(nvrtc.nvrtcGetProgramLogSize(program))
            log = b" " * size
            self._call(nvrtc.nvrtcGetProgramLog(program, log))
            raise RuntimeError(f"the program for the GPU does not compile: {log.decode()}")
        (size,) = self._call(nvrtc.nvrtcGetCUBINSize(program))
        code = b" " * size
        self._call(nvrtc.nvrtcGetCUBIN(program, code))
        return code


class Emulated:
    """Threads of this machine in place of a GPU, by a C++ compiler; slow, for tests."""

    shared_bytes = 227 * 1024
    torch_name = "cpu"

    def __init__(self) -> None:
        self._library = _emulation(THREADS)

    def upload(self, values: Array) -> Array:
        """Return a copy of an array."""
        return np.array(values, order="C").reshape(-1)

    def fill(self, buffer: Array, values: Array) -> None:
        """Copy an array into another that is large enough."""
        buffer[: values.size] = values.reshape(-1)

    def download(self, buffer: Array, dtype: DTypeLike, shape: tuple[int, ...]) -> Array:
        """Return a copy of an array."""
        return buffer.view(dtype)[: int(np.prod(shape))].reshape(shape).copy()

    def address(self, buffer: Array) -> int:
        """Return where an array lies."""
        return int(buffer.ctypes.data)

    def queue(self) -> None:
        """Return a queue; there is nothing to queue."""

    def wait(self, queue: None) -> None:
        """Return at once: programs have ended when ``launch`` returns."""

    def launch(self, queue: None, arguments: bytes, programs: int, shared_bytes: int) -> None:
        """Run so many programs, one after the other."""
        self._library.emulate(arguments, programs, shared_bytes)


@cache
def _emulation(threads: int) -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        raise InvalidParameterError("the emulation of a GPU needs the compiler g++; it was not found")
    folder = Path(tempfile.mkdtemp(prefix="bdkn-emulated-"))
    source, library = folder / "emulated.cpp", folder / "emulated.so"
    source.write_text(_EMULATION.replace("FOLDER", str(_SOURCE.parent)), encoding="utf-8")
    flags = ["-O1", "-std=c++20", "-shared", "-fPIC", "-pthread", f"-DTHREADS={threads}", "-Wno-unknown-pragmas"]
    subprocess.run([compiler, *flags, "-o", str(library), str(source)], check=True)
    loaded = ctypes.CDLL(str(library))
    shutil.rmtree(folder)
    return loaded


_EMULATION = """
#include "FOLDER/emulated.h"
#include "FOLDER/kernel.cu"
extern "C" void emulate(const char *arguments, int programs, int shared_bytes) {
    Tables all = *reinterpret_cast<const Tables *>(arguments);
    std::vector<float4> memory(shared_bytes / 16 + 1, float4{NAN, NAN, NAN, NAN});
    emulated_memory = reinterpret_cast<float *>(memory.data());
    for (blockIdx.x = 0; blockIdx.x < programs; blockIdx.x++) {
        std::barrier<> barrier(THREADS);
        emulated_barrier = &barrier;
        std::vector<std::thread> threads;
        for (int i = 0; i < THREADS; i++)
            threads.emplace_back([i, all] { threadIdx.x = i; train(all); });
        for (auto &thread : threads) thread.join();
    }
}
"""
