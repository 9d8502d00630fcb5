"""Numbers in words that people read: few digits, and no more precision than there is."""

from __future__ import annotations

import math


def number(value: float, digits: int = 3) -> str:
    """Return a number with some significant digits; whole ones, and large ones, without decimals or an exponent."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–∞" if value < 0 else "–"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < 7 and value == round(value):
        return f"{value:,.0f}".replace("-", "−").replace(",", "\u2009")
    if size >= 7 or size < -4:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    text = f"{value:,.{max(0, digits - 1 - size)}f}" if size >= digits - 1 or size >= 0 else f"{value:.{digits}g}"
    return text.replace("-", "−").replace(",", "\u2009")


def with_error(value: float, error: float) -> str:
    """Return a number and its standard error, both to the second digit of the error."""
    if not (math.isfinite(value) and math.isfinite(error)) or error <= 0:
        return number(value)
    places = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:,.{places}f} ± {error:,.{places}f}".replace("-", "−").replace(",", "\u2009")


def percent(share: float, digits: int = 0) -> str:
    """Return a share in percent."""
    return f"{100 * share:.{digits}f}\u202f%".replace("-", "−") if math.isfinite(share) else "–"


def count(n: int, noun: str) -> str:
    """Return "1 row", "2 rows"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}".replace(",", "\u2009")
