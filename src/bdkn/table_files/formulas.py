"""Texts that a spreadsheet would compute: a CSV file that others made may contain formulas as names and values.

A text that begins with =, @, a tab or a carriage return, or with + or - and is more than digits and punctuation, gets a
quotation mark (') in front when it is written to CSV. Spreadsheets then show it. Numbers are never changed, nor are
texts such as "-", "-12,5" and "+41 44 123 45 67", in which there is nothing to compute.
"""

from __future__ import annotations

import re
from typing import Any

MARK = "'"
"""What is put in front of a text that a spreadsheet would compute."""

_PATTERN = r"^(?:[=@\t\r\n\x{FF1D}\x{FF20}]|[+\-\x{FF0B}\x{FF0D}].*[^0-9\s.,:;'()/+\-%])"
"""In the language of RE2, which Arrow uses; the characters named by numbers are =, @, + and - of full width."""

_NUMBER = r"^[+\-](?:[0-9.,]+[eE][+\-]?[0-9]+|[iI]nf|[iI]nfinity|nan|NaN)$"

_FORMULA = re.compile(re.sub(r"\\x\{(....)\}", r"\\u\1", _PATTERN), re.DOTALL | re.ASCII)


def no_formula(text: str) -> str:
    """Return a text that no spreadsheet computes."""
    return MARK + text if _FORMULA.match(text) and not re.match(_NUMBER, text) else text


def without_formulas(table: Any) -> tuple[Any, int]:
    """Return an Arrow table whose names and texts no spreadsheet computes, and how many texts were marked."""
    import pyarrow as pa

    columns, count = [], 0
    for column in table.columns:
        if pa.types.is_dictionary(column.type) or pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column, found = _marked(column)
            count += found
        columns.append(column)
    return pa.table(columns, names=[no_formula(name) for name in table.column_names]), count


def _marked(column: Any) -> tuple[Any, int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pc.match_substring_regex(column, _NUMBER)
    found = pc.and_not(pc.match_substring_regex(column, f"(?s){_PATTERN}"), numbers)
    count = pc.sum(found).as_py() or 0
    if not count:
        return column, 0
    mark = pa.scalar(MARK, column.type)
    return pc.if_else(found, pc.binary_join_element_wise(mark, column, pa.scalar("", column.type)), column), count
