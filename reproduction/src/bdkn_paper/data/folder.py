"""The data folder: one gzipped CSV file per data set, with the columns x0, x1, ... and y."""

from __future__ import annotations

import gzip
import os
import warnings
from pathlib import Path

import numpy as np

from bdkn.storage.atomic import replacing
from bdkn.table_files.formats import DAMAGED, open_binary
from bdkn_paper.data.dataset import DatasetInfo
from bdkn_paper.data.errors import DataError
from bdkn_paper.data.fingerprint import Table

VARIABLE = "BDKN_DATA"
"""Environment variable with the path of the data folder."""


def named_folder(folder: str | os.PathLike[str] | None) -> Path | None:
    """Return the given folder, otherwise the one in BDKN_DATA, otherwise None."""
    given = folder if folder is not None else os.environ.get(VARIABLE)
    return Path(given).expanduser() if given else None


def data_folder(folder: str | os.PathLike[str] | None) -> Path:
    """Return the given folder, otherwise the one in BDKN_DATA, otherwise the user's cache."""
    import pooch

    return named_folder(folder) or Path(pooch.os_cache("bdkn")) / "data"


def find(info: DatasetInfo, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the file of a data set, or None if it does not exist."""
    path = data_folder(folder) / info.filename
    return path if path.is_file() else None


def read(path: Path) -> Table:
    """Return the numbers of a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about an empty file, which is reported by its shape
            with open_binary(path, packed=path.suffix == ".gz", buffer_bytes=1 << 20) as file:
                return np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2, encoding="utf-8")
    except (OSError, ValueError, *DAMAGED) as error:
        raise DataError(f"{path} cannot be read as a CSV of numbers ({error})") from error


def write(path: Path, table: Table) -> None:
    """Write features and target with all their digits, to a temporary file that is then renamed."""
    header = ",".join([*(f"x{column}" for column in range(table.shape[1] - 1)), "y"])
    # Without name and time in the header, the same numbers give the same file.
    with replacing(path) as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        file.write(f"{header}\n".encode())
        for row in table:
            file.write((",".join(map(repr, row.tolist())) + "\n").encode())
