"""Check files before a commit: python .ci/check_files.py FILE ...

A file is smaller than 2 MB. A text has lines that end with "\\n" alone and, but for Markdown, without spaces, one such
end at its own end, and no marks of an unfinished merge. Other files are only measured.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

LARGEST = 2_000_000  # bytes; the records of one experiment are one file
TEXTS = {".py", ".md", ".toml", ".yml", ".yaml", ".cfg", ".in", ".js", ".css", ".html", ".cff", ".sh"}
MERGE = re.compile(rb"^(<{7} |>{7} |={7}$)", re.MULTILINE)


def complaints(path: Path) -> Iterator[str]:
    """Yield what is wrong with a file."""
    content = path.read_bytes()
    if len(content) > LARGEST:
        yield f"{len(content)} bytes, more than {LARGEST}"
    if path.suffix not in TEXTS and path.name != "Makefile":
        return
    if b"\r" in content:
        yield "lines end with CR LF or CR"
    if path.suffix != ".md" and re.search(rb"[ \t]$", content, re.MULTILINE):
        yield "spaces at the end of a line"
    if content and (not content.endswith(b"\n") or content.endswith(b"\n\n")):
        yield "does not end with one end of line"
    if MERGE.search(content):
        yield "has marks of an unfinished merge"


def main(names: list[str]) -> int:
    """Print all complaints, and return 1 if there are any."""
    told = [f"{name}: {text}" for name in names if Path(name).is_file() for text in complaints(Path(name))]
    print("\n".join(told)) if told else None
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
