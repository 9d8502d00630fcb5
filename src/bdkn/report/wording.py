"""Formatting of numbers, shares and counts as text."""

from __future__ import annotations

import math

_MAX_SHARE = 1e6
"""Share from which a dash is written in place of a percentage."""


def number(value: float, digits: int = 3) -> str:
    """Format a number with ``digits`` significant digits; a whole number below 10⁹ keeps all of its digits."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–∞" if value < 0 else "–"
    size = math.floor(math.log10(abs(value))) if value else 0
    if size >= 9 or size < -4:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    if value == round(value):
        return _plain(value, 0)
    return _plain(_rounded(value, size - digits + 1), digits - 1 - size)


def with_error(value: float, error: float) -> str:
    """Format a number and its standard error, both rounded to the second significant digit of the error."""
    if not (math.isfinite(value) and math.isfinite(error)) or error <= 0:
        return number(value)
    if abs(value) >= 1e9:
        return f"{number(value)} ± {number(error, 2)}"
    place = math.floor(math.log10(error)) - 1
    return " ± ".join(_plain(_rounded(part, place), -place) for part in (value, error))


def percent(share: float, digits: int = 0) -> str:
    """Format a share in percent; a dash if it is huge or not a number, as after a division by zero."""
    return f"{100 * share:.{digits}f}\u202f%".replace("-", "−") if abs(share) < _MAX_SHARE else "–"


def count(n: int, noun: str) -> str:
    """Return a number with its noun, such as "1 row" or "2 rows"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}".replace(",", "\u202f")


def _rounded(value: float, place: int) -> float:
    """Round a value to a multiple of 10^place."""
    return round(value, -place) if place < 0 else float(round(value / 10**place) * 10**place)


def _plain(value: float, places: int) -> str:
    """Format a number with ``places`` decimals; numbers of at least 10 000 get thousands separators."""
    text = f"{value:,.{max(0, places)}f}".replace("-", "−")
    return text.replace(",", "\u202f" if abs(value) >= 10_000 else "")
