"""Small files in the formats in which the sources keep their tables."""

import io
import zipfile

import numpy as np
import openpyxl
import xlwt
from scipy.io import savemat

BOOK_NOTE = 'Lots of "prose"\n' * 22


def zipped(member, content, *others):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in others:
            archive.writestr(name, b"not this one")
        archive.writestr(member, content)
    return buffer.getvalue()


def text(table, delimiter=" ", header="", digits=".17g", end="\n"):
    lines = [delimiter.join(format(number, digits) for number in row) for row in table.tolist()]
    return (header + "\n".join(lines) + end).encode()


def wrapped(table, first):
    """Each row on two lines of fixed width, as StatLib writes them."""
    lines = []
    for row in table.tolist():
        lines += ["".join(f" {number:>24.17g}" for number in part) for part in (row[:first], row[first:])]
    return (BOOK_NOTE + "\n".join(lines) + "\n").encode()


def arff(table, names):
    head = ["% a comment", "@relation 'kin'", *(f"@attribute {name} NUMERIC" for name in names), "", "@data", ""]
    return "\n".join(head).encode() + text(table, ",")


def mat(**variables):
    buffer = io.BytesIO()
    savemat(buffer, variables)
    return buffer.getvalue()


def xlsx(sheets, empty_rows=0, empty_columns=0):
    book = openpyxl.Workbook(write_only=True)
    for title, table in sheets.items():
        sheet = book.create_sheet(title)
        blank = [None] * empty_columns
        sheet.append([f"heading {column}" for column in range(table.shape[1])] + blank)
        for row in table.tolist():
            sheet.append(row + blank)
        for _ in range(empty_rows):
            sheet.append([""] * table.shape[1] + blank)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def xls(table):
    book = xlwt.Workbook()
    sheet = book.add_sheet("Sheet1")
    for column in range(table.shape[1]):
        sheet.write(0, column, f"heading {column}")
    for (row, column), number in np.ndenumerate(table):
        sheet.write(row + 1, column, float(number))
    book.add_sheet("Sheet2")
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def move_target_first(table):
    return np.roll(table, 1, axis=1)


def beside(table, columns):
    """The table with ``columns`` more after it, of numbers that do not belong to it."""
    return np.hstack([table, np.full((len(table), columns), -77.0)])


def official(name, table):
    """Return the files that the first source of a data set would send if ``table`` were its content."""
    if name == "boston":
        return [wrapped(table, 11)]
    if name == "concrete":
        return [zipped("Concrete_Data.xls", xls(table), "Concrete_Readme.txt")]
    if name == "energy":
        book = xlsx({"Φύλλο1": beside(table, 1)}, empty_rows=3, empty_columns=2)
        return [zipped("ENB2012_data.xlsx", book)]
    if name == "kin8nm":
        return [arff(table, [f"theta{joint}" for joint in range(1, 9)] + ["y"])]
    if name == "naval":
        content = text(np.hstack([table, np.ones((len(table), 1))]), "   ", digits=".16e")
        return [zipped("UCI CBM Dataset/data.txt", content, "__MACOSX/UCI CBM Dataset/data.txt", "README.txt")]
    if name == "power":
        sheets = {f"Sheet{k}": np.roll(table, k, axis=0)[:50] for k in range(1, 5)} | {"Sheet5": table}
        return [zipped("CCPP/Folds5x2_pp.xlsx", xlsx(sheets), "CCPP/Readme.txt")]
    if name == "protein":
        return [zipped("CASP.csv", text(move_target_first(table), ",", "RMSD,F1,F2,F3,F4,F5,F6,F7,F8,F9\n"))]
    if name in ("sarcos", "sarcos-clean"):
        train, test = np.array_split(beside(table, 6), [len(table) * 10 // 11])
        return [mat(sarcos_inv=train), mat(sarcos_inv_test=test)]
    if name == "song":
        return [zipped("YearPredictionMSD.txt", text(move_target_first(table), ","))]
    if name == "wine":
        header = '"fixed acidity";"volatile acidity";"quality"\n'
        return [zipped("winequality-red.csv", text(table, ";", header), "winequality-white.csv")]
    if name == "yacht":
        return [zipped("yacht_hydrodynamics.data", text(table, "  ", end=" \n\n \n"))]
    raise AssertionError(name)
