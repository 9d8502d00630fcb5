"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Yield a file to write, which is renamed to ``target`` when the block ends without an error.

    Readers see either the old or the new content, never a part of it. A writer that is killed may leave a hidden
    ``.part`` file beside the target, which is never read.
    """
    part = target.with_name(f".{target.name[:80]}.{os.getpid()}.{os.urandom(4).hex()}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def replace_file(target: Path, content: bytes) -> None:
    """Write ``content`` to the file ``target``, completely or not at all."""
    with replacing(target) as file:
        file.write(content)
