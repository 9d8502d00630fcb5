"""Numbers and cells of tables as people read them."""

from __future__ import annotations

from typing import Any


def number(value: float, *, sign: bool = False) -> str:
    """Return a number with four significant digits; large ones with separators in place of an exponent."""
    plus = "+" if sign else ""
    if 1e4 <= abs(value) < 1e12:
        return f"{float(f'{value:.4g}'):{plus},.0f}"
    return f"{value:{plus}.4g}"


def cell(value: Any) -> str:
    """Return a cell of a table; nothing for a missing value, a date without a time of day that is midnight."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return number(value)
    if hasattr(value, "date"):
        return str(value.date()) if str(value).endswith("00:00:00") else str(value)
    return str(value)
