"""Row sources: where rows that do not fit into memory come from, in blocks."""

from bdkn.row_sources.array_rows import ArrayRows

__all__ = ["ArrayRows"]
