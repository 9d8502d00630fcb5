"""Numbers, dates and booleans that are written as text: how a column writes them, and what they are."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.typing import FloatArray

ABSENT = frozenset(
    ["?", "-", "--", ".", "..", "n/a", "#n/a", "na", "<na>", "nan", "nat", "null", "none", "missing", "unknown"]
)
"""Words, in lower case, that stand for a missing value in a column whose other values are numbers or dates."""

_UNIT = re.compile(r"^(?:[$€£¥]|CHF|EUR|USD|GBP|JPY)\s*|\s*(?:[$€£¥%]|CHF|EUR|USD|GBP|JPY)$")
_SPACES = "[,' ’\u00a0\u202f]"
_NUMBERS = {
    "plain": re.compile(r"[+-]?(?!0\d)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"),
    "thousands": re.compile(rf"[+-]?(?!0\d)(\d{{1,3}}({_SPACES}\d{{3}})+|\d+)(\.\d+)?"),
    "decimal comma": re.compile(r"[+-]?(?!0\d)(\d{1,3}([. \u00a0\u202f’']\d{3})+|\d+)(,\d+)?"),
}
_DAYS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y")
_NAMED = ("%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d %Y")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", ", %H:%M")
_LETTERS = {"%d": "DD", "%m": "MM", "%Y": "YYYY", "%y": "YY", "%b": "Jan", "%B": "January", "%H": "hh"}
_LETTERS |= {"%M": "mm", "%S": "ss", "iso": "YYYY-MM-DD"}
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
_TRUE, _FALSE = frozenset(["true", "yes", "y", "t", "1", "1.0"]), frozenset(["false", "no", "n", "f", "0", "0.0"])


@dataclass(frozen=True)
class Writing:
    """How a column of text writes its values: ``form`` is the name of the way, ``other`` another one that fits, too."""

    form: str
    other: str = ""


def without_absent(values: Iterable[Any]) -> tuple[set[str], set[str]]:
    """Return the different texts of a column: those with a value, and the words that stand for none."""
    known = {value for value in values if value is not None}
    absent = {value for value in known if value.casefold() in ABSENT}
    return known - absent, absent


def writing_of_numbers(texts: set[str]) -> Writing | None:
    """Return how all texts write numbers; None if some are none. Codes such as "00123" are none."""
    for form, pattern in _NUMBERS.items():
        if texts and all(pattern.fullmatch(_bare(text)) for text in texts):
            units = any(text.strip() != _bare(text) for text in texts)
            return Writing("thousands" if units and form == "plain" else form)
    return None


def number_in(text: str, form: str) -> float:
    """Return the number that a text writes; raise ValueError if it is none."""
    bare = _bare(text)
    if form == "decimal comma" and _NUMBERS[form].fullmatch(bare):
        return float(re.sub(r"[^\d,+-]", "", bare).replace(",", "."))
    if form != "decimal comma" and _NUMBERS["thousands"].fullmatch(bare):
        return float(re.sub(_SPACES, "", bare))
    return float(bare)


def writing_of_dates(texts: set[str]) -> Writing | None:
    """Return how all texts write dates or moments; None if some are none."""
    if not texts:
        return None
    if _reads(texts, "iso"):
        return Writing("iso")
    forms = [day + clock for day in (*_DAYS, *_NAMED) for clock in _CLOCKS]
    one = next(iter(texts))
    fitting = [form for form in forms if _reads([one], form) and _reads(texts, form)]
    return Writing(fitting[0], (fitting[1:] or [""])[0]) if fitting else None


def moment_in(text: str, form: str) -> datetime.datetime:
    """Return the moment that a text writes; raise ValueError if it is none."""
    if form == "iso" or _ISO.match(text):
        if not _ISO.match(text):
            raise ValueError(text)
        return datetime.datetime.fromisoformat(text.strip())
    return datetime.datetime.strptime(text.strip(), form)


def shown(form: str) -> str:
    """Return the form of dates as people write it, such as DD.MM.YYYY."""
    for sign, letters in _LETTERS.items():
        form = form.replace(sign, letters)
    return form


def are_clocks(texts: set[str]) -> bool:
    """Return whether all texts are times of day, such as 7:30 or 19:30:05."""
    return bool(texts) and all(_CLOCK.fullmatch(text.strip()) for text in texts)


def seconds_in(text: str) -> float:
    """Return the seconds since midnight of a time of day; raise ValueError if it is none."""
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    hours, minutes, seconds = found.groups()
    return 3600.0 * int(hours) + 60.0 * int(minutes) + float(seconds or 0)


def boolean_in(text: str) -> float:
    """Return 1 or 0 for a text such as "yes" or "False"; raise ValueError if it is neither."""
    word = text.strip().casefold()
    if word not in _TRUE | _FALSE:
        raise ValueError(text)
    return float(word in _TRUE)


def numbers_of(values: NDArray[Any], read: Callable[[str], float]) -> FloatArray:
    """Return what ``read`` makes of each text, nan for None and for words that stand for a missing value."""
    absent = {value for value in set(values) if value is None or value.casefold() in ABSENT}
    known = {value: read(value) for value in set(values) - absent}
    return np.array([known.get(value, np.nan) for value in values], dtype=np.float64)


def first_wrong(values: NDArray[Any], read: Callable[[str], Any]) -> int:
    """Return the first row that ``read`` cannot read."""
    for row, value in enumerate(values):
        if value is not None and value.casefold() not in ABSENT and not _can(read, value):
            return row
    raise AssertionError("all rows can be read")


def _can(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _reads(texts: Iterable[str], form: str) -> bool:
    return all(_can(lambda text: moment_in(text, form), text) for text in texts)


def _bare(text: str) -> str:
    """Return a text without currency or percent sign."""
    sign = text.strip()[:1] if text.strip()[:1] in "+-" and text.strip()[1:2] in "$€£¥" else ""
    return sign + _UNIT.sub("", text.strip().removeprefix(sign)).strip()
