"""What a device is: memory, and programs that run on it beside the host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
