"""Data frames as tables of numbers: columns of any kind, found by name."""

from bdkn.tables.encoder import TableEncoder
from bdkn.tables.reading import is_frame
from bdkn.tables.report import ColumnReport

__all__ = ["ColumnReport", "TableEncoder", "is_frame"]
