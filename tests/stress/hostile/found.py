"""Faults that hostile files found, and how they were mended."""

from __future__ import annotations

from record import Found

FOUND = [
    Found(
        "`bdkn-paper pack` wrote outside of its folder if the name of a record said so",
        (
            "records are checked against a schema when they are read; names are letters, digits, '.', '_' "
            "and '-', at most 80 characters, and none that Windows reserves"
        ),
    ),
    Found(
        'a record that was nested deeply, or held {"float": []}, broke every command on its store',
        "one bad record is told with its file and left out; depth, size, types and its key are checked",
    ),
    Found(
        (
            "a record in which a text held U+2028 could be packed but not read again; one with half a "
            "surrogate pair could not be stored"
        ),
        "packed files are divided at line feeds only; such texts are escaped",
    ),
    Found(
        (
            "`--splits 0-999999999` listed every number; tables of an experiment could have any number of "
            "splits; `--jobs` any number of processes"
        ),
        "ranges are not listed; bounds that are told",
    ),
    Found(
        "a gzip file of a few kB could fill the memory, and so could a Parquet file",
        "reading stops, and says so, where a file expands to more than its size can explain",
    ),
    Found(
        "a quotation mark that was never closed made one cell of all rows below it, without a word",
        "the file is checked if its last row goes over several lines; the error names the line",
    ),
    Found(
        (
            "cells longer than 131 072 characters, Parquet columns of lists, unknown time zones and damaged "
            "Parquet pages ended in tracebacks of other libraries"
        ),
        "one error that names the file",
    ),
    Found(
        "a line of names longer than 1 MiB was cut; U+2028 and others in a name divided the first line",
        "the line of names is read whole, up to 16 MiB, and only CR and LF end it",
    ),
    Found(
        "0x10 was 16 in a fit and an error in a prediction; 1_000 was no wrong cell",
        "both are text, and the wrong cell is named",
    ),
    Found(
        "pipes and devices named as tables, records or experiments were read without end",
        "only ordinary files are read",
    ),
    Found(
        ("a name such as [/bold] broke tables of `bdkn-paper`; control characters of names reached the terminal"),
        "no text is read as markup; control characters are shown as escapes",
    ),
    Found(
        "texts that begin with =, +, - or @ were copied to CSV, where a spreadsheet computes them",
        "they get a ' in front, with a note; --formulas copies them as they stand",
    ),
    Found(
        "a column named $a_{ broke the picture of `bdkn compare`; \\ and ~ were not escaped in LaTeX",
        "dollar signs of names are literal; all special characters are escaped",
    ),
    Found(
        (
            "`bdkn compare --seed 10000000000`, `bdkn demo --rows 1000000000000000` ended in tracebacks; "
            "`--quantiles 0.5,0.5` wrote a table that could not be read again"
        ),
        "told before any work",
    ),
]
