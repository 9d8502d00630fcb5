"""Numbers and counts in words."""

from __future__ import annotations

import math

_MAX_SHARE = 1e6
"""Maximum share that is written in percent."""


def number(value: float, digits: int = 3) -> str:
    """Return a number with some significant digits; a whole number below 10⁹ with all of its digits."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–∞" if value < 0 else "–"
    size = math.floor(math.log10(abs(value))) if value else 0
    if size >= 9 or size < -4:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    if value == round(value):
        return _plain(value, 0)
    return _plain(_rounded(value, size - digits + 1), digits - 1 - size)


def with_error(value: float, error: float) -> str:
    """Return a number and its standard error, both to the second digit of the error."""
    if not (math.isfinite(value) and math.isfinite(error)) or error <= 0:
        return number(value)
    if abs(value) >= 1e9:
        return f"{number(value)} ± {number(error, 2)}"
    place = math.floor(math.log10(error)) - 1
    return " ± ".join(_plain(_rounded(part, place), -place) for part in (value, error))


def percent(share: float, digits: int = 0) -> str:
    """Return a share in percent; a dash if it is huge or not a number, as a share of zero is."""
    return f"{100 * share:.{digits}f}\u202f%".replace("-", "−") if abs(share) < _MAX_SHARE else "–"


def count(n: int, noun: str) -> str:
    """Return "1 row", "2 rows"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}".replace(",", "\u202f")


def _rounded(value: float, place: int) -> float:
    """Return the value to the digit of 10^place."""
    return round(value, -place) if place < 0 else float(round(value / 10**place) * 10**place)


def _plain(value: float, places: int) -> str:
    """Return a number with decimal places; digits are grouped by thousands if there are five before the point."""
    text = f"{value:,.{max(0, places)}f}".replace("-", "−")
    return text.replace(",", "\u202f" if abs(value) >= 10_000 else "")
