"""A stream of which the beginning was read already."""

from __future__ import annotations

import io
from typing import BinaryIO


class Replayed(io.RawIOBase):
    """The bytes ``head``, and then those of ``rest``, for a stream that cannot be read again."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = io.BytesIO(head), rest

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read up to ``len(buffer)`` bytes into ``buffer``; return their number, 0 at the end."""
        data = self._head.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
