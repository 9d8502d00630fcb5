"""Division of large tables into blocks of rows, so that temporary arrays stay small."""

from __future__ import annotations

THREAD_ROWS = 1 << 12
"""Maximum number of rows that one thread processes at a time."""

PREDICTED_ROWS = 1 << 15
"""Maximum number of rows that networks predict at a time."""

READ_ROWS = 1 << 16
"""Maximum number of rows that are read from a file or a row source, or copied to a device, at a time."""

CACHED_CELLS = 1 << 18
"""Maximum size, in cells, of a block that fits into the cache of a processor (2 MiB in double precision)."""

LARGE_CELLS = 1 << 22
"""Maximum size, in cells, of a block in memory (32 MiB in double precision)."""


def rows_within(cells: int, cells_per_row: int) -> int:
    """Return the number of rows of a block with at most ``cells`` cells; at least one."""
    return max(1, cells // max(1, cells_per_row))


def row_slices(n_rows: int, size: int) -> list[slice]:
    """Return consecutive slices of at most ``size`` rows; there is at least one, which may be empty."""
    return [slice(start, start + size) for start in range(0, max(1, n_rows), size)]
