"""Cells of tables: numbers in words of a few digits, the lowest of a row in bold."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite, isnan, log10

NONE = "–"

Printed = tuple[float, float]
"""A number as printed, and the unit of its last digit."""


def bold(texts: Sequence[str], values: Sequence[Printed | None]) -> list[str]:
    """Return the texts with the lowest values in bold: several if they are equal at the precision printed."""
    found = [value for value in values if value]
    best = [value and all(other[0] >= value[0] - max(value[1], other[1]) / 2 for other in found) for value in values]
    return [f"**{text}**" if first else text for text, first in zip(texts, best, strict=True)]


def printed(value: float, digits: int) -> Printed | None:
    """Return a number rounded to the given decimals, None if it is not finite."""
    return (round(value, digits), 10.0**-digits) if isfinite(value) else None


def decimals(metric: str, means: Sequence[float]) -> int:
    """Return the decimals of a row: three digits of the lowest error; two decimals for NLL, which is a logarithm."""
    least = min((mean for mean in means if isfinite(mean) and mean > 0), default=1.0)
    return 2 if metric == "nll" else min(6, max(2, 2 - floor(log10(least))))


def fixed(value: float, digits: int) -> str:
    """Return a number with the given decimals, without decimals from 100 on."""
    if isnan(value):
        return NONE
    return f"{value:.{digits if abs(value) < 100 else 0}f}" if isfinite(value) else "∞" if value > 0 else "−∞"


def brief(value: float) -> str:
    """Return three digits, or all digits before the decimal point."""
    return NONE if not isfinite(value) else f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"
