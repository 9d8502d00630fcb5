"""Tables in files: CSV, TSV, both also compressed, and Parquet; read whole or in blocks, written whole or not at all.

Columns keep their types: numbers, booleans, dates, text. Codes with leading zeros, such as "00123", stay text.
"""

from __future__ import annotations

from bdkn.table_files.csv_files import Dialect, detect_dialect
from bdkn.table_files.formats import STREAM, TableFormat, check_output, format_of
from bdkn.table_files.reading import TableBlocks, column_names, open_blocks, read_table
from bdkn.table_files.writing import BlockWriter, writing

__all__ = [
    "STREAM",
    "BlockWriter",
    "Dialect",
    "TableBlocks",
    "TableFormat",
    "check_output",
    "column_names",
    "detect_dialect",
    "format_of",
    "open_blocks",
    "read_table",
    "writing",
]
