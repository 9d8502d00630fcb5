"""Formats of table files, by the ending of their names."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from bdkn.errors import InvalidParameterError

STREAM = "-"
"""The name that stands for standard input or standard output, as CSV."""

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")


@dataclass(frozen=True)
class TableFormat:
    """A format: "csv" or "parquet"; ``delimiter`` is None where it is to be detected, ``gzip`` if compressed."""

    kind: str
    delimiter: str | None = None
    gzip: bool = False


def format_of(path: str | os.PathLike[str]) -> TableFormat:
    """Return the format of a table file by the ending of its name; raise if there is none for it."""
    name = Path(path).name.lower()
    if name == STREAM:
        return TableFormat("csv")
    packed = name.endswith(".gz")
    inner = Path(name.removesuffix(".gz")).suffix
    if inner in (".parquet", ".pq") and not packed:
        return TableFormat("parquet")
    if inner in (".csv", ".txt"):
        return TableFormat("csv", None, packed)
    if inner in (".tsv", ".tab"):
        return TableFormat("csv", "\t", packed)
    raise InvalidParameterError(
        f"the name of a table file must end in one of {', '.join(ENDINGS)}; got {os.fspath(path)}: rename the file, or "
        "export the table as CSV"
    )


def check_input(path: str | os.PathLike[str]) -> None:
    """Raise unless ``path`` is an ordinary file that exists."""
    place = Path(path)
    try:
        mode = place.stat().st_mode
    except PermissionError:
        raise InvalidParameterError(f"{place} cannot be reached; check the permissions of its folder") from None
    except (OSError, ValueError):  # it does not exist, its links go round in a circle, or its name is none
        raise InvalidParameterError(f"there is no file {_cut(str(place))}; check the name and the folder") from None
    if stat.S_ISDIR(mode):
        raise InvalidParameterError(f"a table must be a file; got {place}, which is a folder: name a file in it")
    if not stat.S_ISREG(mode):
        raise InvalidParameterError(
            f"a table must be an ordinary file; got {place}, which is a pipe or a device: `bdkn predict` reads a pipe "
            "by the name -, as standard input; for all else write it to a file first"
        )
    if not os.access(place, os.R_OK):
        raise InvalidParameterError(f"{place} cannot be read; check its permissions")


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:297]}..."


def check_name(place: Path) -> None:
    """Raise unless a file can have that name."""
    try:
        os.lstat(place)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # too long, below a file, with a zero byte
        raise InvalidParameterError(
            f"the output must be a file that can be written; got {str(place)!r} ({error}): choose another name"
        ) from error


def check_output(path: str | os.PathLike[str], *inputs: str | os.PathLike[str]) -> None:
    """Raise unless a file can be written to ``path``, which must be none of the ``inputs``."""
    place = Path(path)
    check_name(place)
    if place.is_dir():
        raise InvalidParameterError(f"the output must be a file; got {place}, which is a folder: name a file in it")
    if not place.parent.is_dir():
        raise InvalidParameterError(f"the folder {place.parent} does not exist; create it first, or choose another")
    if not os.access(place.parent, os.W_OK):
        raise InvalidParameterError(f"the folder {place.parent} cannot be written to; choose another")
    for other in inputs:
        if place.exists() and Path(other).exists() and place.samefile(other):
            raise InvalidParameterError(f"the output must not be the input; got {place} for both: choose another name")
