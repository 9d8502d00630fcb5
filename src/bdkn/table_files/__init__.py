"""Tables in files: CSV and TSV, also compressed, and Parquet.

Tables are read whole or in blocks, and written completely or not at all. Columns keep their types: numbers, booleans,
dates, text. Codes with leading zeros, such as "00123", remain text.
"""

from __future__ import annotations

from bdkn.table_files.formats import STREAM, check_output, format_of
from bdkn.table_files.reading import column_names, open_blocks, read_table
from bdkn.table_files.writing import writing

__all__ = [
    "STREAM",
    "check_output",
    "column_names",
    "format_of",
    "open_blocks",
    "read_table",
    "writing",
]
