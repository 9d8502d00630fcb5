"""Readers for the file formats of the sources: from the bytes of a file to numbers."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from bdkn.errors import missing_extra
from bdkn_paper.data.errors import DataError
from bdkn_paper.data.fingerprint import Table


def unzip(content: bytes, member: str) -> bytes:
    """Return the file ``member`` from any folder of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        # macOS adds a folder with metadata of every file.
        files = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
        for name in files:
            if PurePosixPath(name).name == member:
                return archive.read(name)
    raise DataError(f"the archive holds no {member}, only {', '.join(files) or 'nothing'}")


def read_text(content: bytes, delimiter: str | None = None, skip: int = 0) -> Table:
    """Read one row per line, with numbers separated by white space or ``delimiter``, after ``skip`` header lines."""
    return np.loadtxt(io.StringIO(_text(content)), delimiter=delimiter, skiprows=skip, ndmin=2)


def read_wrapped(content: bytes, width: int, skip: int) -> Table:
    """Read rows of ``width`` numbers that extend over several lines, after ``skip`` header lines."""
    lines = _text(content).splitlines()[skip:]
    return np.array(" ".join(lines).split(), dtype=np.float64).reshape(-1, width)


def read_arff(content: bytes) -> Table:
    """Read Weka's attribute-relation format; attributes are columns, in their order."""
    from scipy.io import arff

    records, meta = arff.loadarff(io.StringIO(_text(content)))
    return np.column_stack([records[name].astype(np.float64) for name in meta.names()])


def read_mat(content: bytes, variable: str) -> Table:
    """Read one matrix of a MATLAB file."""
    from scipy.io import loadmat

    variables = loadmat(io.BytesIO(content))
    if variable not in variables:
        names = [name for name in variables if not name.startswith("__")]
        raise DataError(f"the file holds no matrix {variable}, only {', '.join(names) or 'none'}")
    return np.asarray(variables[variable], dtype=np.float64)


def read_xlsx(content: bytes, sheet: str | None = None) -> Table:
    """Read a sheet (the first if not named) of an Excel workbook, below its line of headings."""
    try:
        import openpyxl
    except ImportError as error:
        raise missing_extra("openpyxl", "excel", "bdkn-paper") from error
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    try:
        return _numbers(book[_choose(sheet, book.sheetnames)].iter_rows(values_only=True))
    finally:
        book.close()


def read_xls(content: bytes, sheet: str | None = None) -> Table:
    """Read a sheet (the first if not named) of a workbook of Excel 97, below its line of headings."""
    try:
        import xlrd
    except ImportError as error:
        raise missing_extra("xlrd", "excel", "bdkn-paper") from error
    book = xlrd.open_workbook(file_contents=content)
    return _numbers(book.sheet_by_name(_choose(sheet, book.sheet_names())).get_rows())


def _text(content: bytes) -> str:
    return content.decode("utf-8-sig", errors="replace")


def _choose(sheet: str | None, names: Sequence[str]) -> str:
    if sheet is not None and sheet not in names:
        raise DataError(f"the workbook holds no sheet {sheet}, only {', '.join(names)}")
    return sheet or names[0]


def _numbers(rows: Iterable[Sequence[Any]]) -> Table:
    """Return the cells below the headings, without empty rows and columns."""
    body = [[_value(cell) for cell in row] for row in rows][1:]
    width = max(map(len, body), default=0)
    table = np.array([row + [np.nan] * (width - len(row)) for row in body], dtype=np.float64).reshape(-1, width)
    filled = np.isfinite(table)
    return table[filled.any(axis=1)][:, filled.any(axis=0)]


def _value(cell: Any) -> float:
    value = getattr(cell, "value", cell)  # xlrd's cells hold their value, openpyxl's rows are of values
    return np.nan if value in (None, "") else _number(value)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan  # A heading
