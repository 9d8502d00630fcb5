"""A stand-in for NVIDIA's bindings of CUDA: its calls, on the memory of this machine and the emulated programs."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

from emulated_gpu import Emulated

from bdkn.networks.gpu.cuda import Program


class Status(int):
    """A result of a call."""

    @property
    def name(self) -> str:
        return {0: "CUDA_SUCCESS", 2: "CUDA_ERROR_OUT_OF_MEMORY", 600: "CUDA_ERROR_NOT_READY"}.get(self, "CUDA_ERROR")


class FakeDriver:
    """A driver with one device whose blocks have the threads of an emulated one."""

    CUdevice_attribute = CUstream_flags = CUfunction_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=100 * 1024,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=4,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=9,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=0,
        CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED=1,
        CU_STREAM_NON_BLOCKING=1,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
    )

    def __init__(self, emulated: Emulated, devices: int = 1, memory: int = 2**30) -> None:
        self.emulated, self.devices, self.free = emulated, devices, memory
        self.buffers: dict[int, Any] = {}
        self.waits = 0

    def __getattr__(self, name: str) -> Any:
        """Return a call that succeeds and has nothing to return."""
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *_: (Status(0),)

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return Status(0), self.devices

    def cuDeviceGet(self, number: int) -> tuple[Any, ...]:
        return Status(0), number

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:
        return Status(0), "context"

    def cuDeviceGetName(self, length: int, device: int) -> tuple[Any, ...]:
        return Status(0), b"a fake GPU\0\0"

    def cuDeviceGetAttribute(self, attribute: int, device: int) -> tuple[Any, ...]:
        return Status(0), attribute

    def cuModuleLoadData(self, code: Program) -> tuple[Any, ...]:
        return Status(0), code

    def cuModuleGetFunction(self, module: Program, name: bytes) -> tuple[Any, ...]:
        assert module.name == name.decode()
        return Status(0), module

    def cuStreamCreate(self, flags: int) -> tuple[Any, ...]:
        return Status(0), "stream"

    def cuStreamQuery(self, stream: str) -> tuple[Any, ...]:
        self.waits += 1
        return (Status(600 if self.waits % 3 else 0),)

    def cuMemAllocAsync(self, size: int, stream: str) -> tuple[Any, ...]:
        if size > self.free:
            return Status(2), None
        room = ctypes.create_string_buffer(size)
        self.buffers[ctypes.addressof(room)] = room
        self.free -= size
        return Status(0), ctypes.addressof(room)

    def cuMemFreeAsync(self, address: int, stream: str) -> tuple[Any, ...]:
        self.free += len(self.buffers.pop(address))
        return (Status(0),)

    def cuMemHostAlloc(self, size: int, flags: int) -> tuple[Any, ...]:
        return self.cuMemAllocAsync(size, "")

    def cuMemFreeHost(self, address: int) -> tuple[Any, ...]:
        return self.cuMemFreeAsync(address, "")

    def cuMemcpyHtoDAsync(self, to: int, source: int, size: int, stream: str) -> tuple[Any, ...]:
        ctypes.memmove(to, source, size)
        return (Status(0),)

    cuMemcpyDtoHAsync = cuMemcpyHtoDAsync

    def cuLaunchKernel(self, program: Program, *arguments: Any) -> tuple[Any, ...]:
        blocks, shared_bytes, places = arguments[0], arguments[6], arguments[8]
        address = ctypes.cast(places, ctypes.POINTER(ctypes.c_void_p))[0]
        assert address is not None
        self.emulated.launch(None, program, ctypes.string_at(address, 1024), blocks, shared_bytes)
        return (Status(0),)
