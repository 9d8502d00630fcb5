"""Row sources: where rows that do not fit into memory come from, in blocks."""

from bdkn.row_sources.array_rows import ArrayRows
from bdkn.row_sources.dask_rows import DaskRows
from bdkn.row_sources.given import as_row_source, is_row_source
from bdkn.row_sources.iterator_rows import IteratorRows
from bdkn.row_sources.parquet_rows import ParquetRows

__all__ = ["ArrayRows", "DaskRows", "IteratorRows", "ParquetRows", "as_row_source", "is_row_source"]
