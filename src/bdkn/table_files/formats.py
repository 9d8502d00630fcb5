"""Formats of table files, by the ending of their names."""

from __future__ import annotations

import os
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
    """Raise unless ``path`` is a file that exists."""
    place = Path(path)
    if place.is_dir():
        raise InvalidParameterError(f"a table must be a file; got {place}, which is a folder: name a file in it")
    if not place.exists():
        raise InvalidParameterError(f"there is no file {place}; check the name and the folder")


def _check_name(place: Path) -> None:
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
    _check_name(place)
    if place.is_dir():
        raise InvalidParameterError(f"the output must be a file; got {place}, which is a folder: name a file in it")
    if not place.parent.is_dir():
        raise InvalidParameterError(f"the folder {place.parent} does not exist; create it first, or choose another")
    if not os.access(place.parent, os.W_OK):
        raise InvalidParameterError(f"the folder {place.parent} cannot be written to; choose another")
    for other in inputs:
        if place.exists() and Path(other).exists() and place.samefile(other):
            raise InvalidParameterError(f"the output must not be the input; got {place} for both: choose another name")
