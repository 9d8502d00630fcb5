"""Reading of columns of data frames as numbers or text, and conversion of text that represents numbers or dates."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import ColumnsWarning, InvalidParameterError, warn_user
from bdkn.typing import FloatArray

DAY = 86_400.0
"""Seconds per day."""

_NO_SINGLE_VALUE = (complex, bytes, bytearray, list, tuple, dict, set, frozenset, np.ndarray)
"""Python types that are not allowed in a column, since they are not a single number, date or text."""

_MAX_CODES = 10
"""A text column of numbers with at most this number of distinct values remains text: it may be a category."""


@dataclass(frozen=True, eq=False)
class RawColumn:
    """Values of a column: numbers with nan for missing values, or text with None for missing values.

    ``kind`` is "number", "boolean", "date" (in days since 1970), "duration" (in seconds) or "text". ``levels`` are the
    values of an ordered category, in their order; ``categories`` is True if the data frame declares the column as
    categorical. ``form`` is the format of numbers or dates that were read from text (empty: the usual format), and
    ``note`` describes this conversion to the user.
    """

    name: Any
    kind: str
    values: NDArray[Any]
    levels: tuple[str, ...] = ()
    note: str = ""
    form: str = ""
    categories: bool = False

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Boolean array, True for each missing value."""
        if self.kind == "text":
            return np.fromiter((value is None for value in self.values), bool, len(self.values))
        return np.asarray(np.isnan(self.values))


def read_column(X: Any, name: Any) -> RawColumn:
    """Read a column of a data frame as a ``RawColumn``; raise unless it has numbers, dates, durations or text."""
    import narwhals.stable.v2 as nw

    series = nw.from_native(X, eager_only=True).get_column(name)
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        kind = "boolean" if dtype == nw.Boolean else "number"
        return RawColumn(name, kind, np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64))
    if dtype in (nw.Date, nw.Datetime, nw.Duration):
        kind = "duration" if dtype == nw.Duration else "date"
        return RawColumn(name, kind, _times(series.to_numpy(), kind))
    if isinstance(dtype, nw.List | nw.Array | nw.Struct):
        raise _several_values(name, dtype)
    if dtype not in (nw.Categorical, nw.Enum):
        return _column_of_objects(name, series.to_list())
    # Arrow converts a dictionary-encoded column slowly, value by value, unless it is cast to the type of its values.
    native = series.to_native()
    value_type = getattr(getattr(native, "type", None), "value_type", None)
    values = list(series.to_list() if value_type is None else native.cast(value_type).to_pylist())
    column = _column_of_objects(name, values)
    if column.kind in ("date", "duration"):
        return column
    return RawColumn(name, "text", _texts(values), _levels(X, name), categories=True)


def _column_of_objects(name: Any, values: list[Any]) -> RawColumn:
    """Convert a column of Python objects to numbers, dates or durations if all values have that type, else to text."""
    if set(map(type, values)) <= {str, type(None)}:  # the most frequent case, without a loop over the values
        return RawColumn(name, "text", _texts(values))
    known = [value for value in values if not _is_missing(value)]
    if not known:
        return RawColumn(name, "text", _texts(values))
    is_boolean = all(isinstance(value, bool | np.bool_) for value in known)
    if is_boolean or all(isinstance(value, Real | Decimal) for value in known):
        kind = "boolean" if is_boolean else "number"
        numbers = [np.nan if _is_missing(value) else float(value) for value in values]
        return RawColumn(name, kind, np.array(numbers, dtype=np.float64))
    if all(hasattr(value, "start_time") for value in known):  # periods of pandas
        values = [None if _is_missing(value) else value.start_time for value in values]
    if all(_is_missing(value) or isinstance(value, datetime.date) for value in values):
        return RawColumn(
            name, "date", _times(np.array([_moment(value) for value in values], dtype="datetime64[us]"), "date")
        )
    if all(isinstance(value, datetime.timedelta) for value in known):
        durations = [np.timedelta64("NaT", "us") if _is_missing(value) else np.timedelta64(value) for value in values]
        return RawColumn(name, "duration", _times(np.array(durations, dtype="timedelta64[us]"), "duration"))
    for value in known:
        cls: Any = type(value)
        without_text = cls.__str__ is object.__str__ and cls.__repr__ is object.__repr__
        if isinstance(value, _NO_SINGLE_VALUE) or without_text:
            raise _several_values(name, cls.__name__)
    return RawColumn(name, "text", _texts(values))


def _several_values(name: Any, found: Any) -> InvalidParameterError:
    return InvalidParameterError(
        f"column {name!r} must hold one value per row, a number, a date or a text; got {found}: make columns of its "
        "parts, or drop it"
    )


def _texts(values: list[Any]) -> NDArray[Any]:
    """Convert values to text without surrounding spaces; missing and empty values become None."""
    text = np.empty(len(values), dtype=object)
    if set(map(type, values)) <= {str, type(None)}:
        stripped = {value: value.strip() or None for value in set(values) - {None}}
        text[:] = [stripped.get(value) for value in values]
    else:
        text[:] = [None if _is_missing(value) else as_text(value) or None for value in values]
    return text


def as_text(value: Any) -> str:
    """Return a value as text; 1 and 1.0 are both "1"."""
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_) and float(value).is_integer():
        return str(int(value))  # type: ignore[call-overload]
    return str(value).strip()


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, nan, NaT or pandas' NA."""
    if value is None:
        return True
    same = value == value
    return not same if isinstance(same, bool | np.bool_) else type(value).__name__ == "NAType"


def _moment(value: Any) -> np.datetime64:
    """Convert a date or date-time to NumPy's ``datetime64``, in UTC if it has a time zone."""
    if _is_missing(value):
        return np.datetime64("NaT")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value)


def _times(values: NDArray[Any], kind: str) -> FloatArray:
    """Convert dates to days since 1970, or durations to seconds; missing values become nan."""
    times, unit = ("datetime64[us]", DAY * 1e6) if kind == "date" else ("timedelta64[us]", 1e6)
    found = np.asarray(values).astype(times)
    return np.where(np.isnat(found), np.nan, found.astype(np.int64) / unit)


def _levels(X: Any, name: Any) -> tuple[str, ...]:
    """Return the categories of an ordered categorical column (also polars' Enum) in order, () for other columns."""
    column: Any = X[name] if hasattr(X, "columns") else None
    if getattr(getattr(column, "type", None), "ordered", False) and column.num_chunks:
        return tuple(map(as_text, column.unify_dictionaries().chunk(0).dictionary.to_pylist()))
    dtype: Any = getattr(column, "dtype", None)
    if getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum":
        return tuple(map(as_text, dtype.categories))
    return ()


# Text that represents numbers, dates or times of day

_MISSING_WORDS = frozenset(
    ["?", "-", "--", ".", "..", "n/a", "#n/a", "na", "<na>", "nan", "nat", "null", "none", "missing", "unknown"]
)
"""Words, in lower case, that stand for a missing value in a column whose other values are numbers or dates."""

_UNIT = re.compile(r"^(?:[$€£¥]|CHF|EUR|USD|GBP|JPY)\s*|\s*(?:[$€£¥%]|CHF|EUR|USD|GBP|JPY)$")
_THOUSANDS = "[,' ’\u00a0\u202f]"
_NUMBERS = {
    "plain": re.compile(r"[+-]?(?!0\d)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"),
    "thousands": re.compile(rf"[+-]?(?!0\d)(\d{{1,3}}({_THOUSANDS}\d{{3}})+|\d+)(\.\d+)?"),
    "decimal comma": re.compile(r"[+-]?(?!0\d)(\d{1,3}([. \u00a0\u202f’']\d{3})+|\d+)(,\d+)?"),
}
"""Regular expressions of number formats in text; leading zeros, as in the code "00123", are no number."""

_DATES = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y")
_DATES_WITH_NAMES = ("%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d %Y")
_TIMES = ("", " %H:%M", " %H:%M:%S", ", %H:%M")
_DIRECTIVES = {"%d": "DD", "%m": "MM", "%Y": "YYYY", "%y": "YY", "%b": "Jan", "%B": "January", "%H": "hh"}
_DIRECTIVES |= {"%M": "mm", "%S": "ss", "iso": "YYYY-MM-DD"}
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
_TRUE, _FALSE = frozenset(["true", "yes", "y", "t", "1", "1.0"]), frozenset(["false", "no", "n", "f", "0", "0.0"])


def read_text(column: RawColumn) -> RawColumn:
    """Convert a text column to numbers, dates or times of day if all values can be; else return it unchanged."""
    if column.categories:
        return column
    known = {value for value in column.values if value is not None}
    missing = {value for value in known if value.casefold() in _MISSING_WORDS}
    texts = known - missing
    note = f"; {', '.join(sorted(map(repr, missing)))} in it is a missing value" if missing else ""
    if len(texts) > _MAX_CODES and (form := _number_format(texts)):
        form = "" if form == "plain" and not missing else form
        how = {"thousands": ", with separators of thousands or units", "decimal comma": ", with a decimal comma"}
        words = "text that reads as numbers" + how.get(form, "") + note
        return as_numbers(replace(column, note=words, form=form), "number")
    if forms := _date_formats(texts):
        pattern = _date_pattern(forms[0])
        if len(forms) > 1:
            warn_user(
                f"column {column.name!r} holds dates that could be written as {pattern} or as "
                f"{_date_pattern(forms[1])}; they are read as {pattern}. If that is wrong, write them as 2026-01-31",
                ColumnsWarning,
            )
        form = "" if forms[0] == "iso" else forms[0]
        words = "text that reads as dates" + (f", written as {pattern}" if form else "") + note
        return as_numbers(replace(column, note=words, form=form), "date")
    if len(texts) > _MAX_CODES and all(_CLOCK.fullmatch(text.strip()) for text in texts):
        words = "times of day, in seconds since midnight" + note
        return as_numbers(replace(column, note=words, form="clock"), "duration")
    return column


def as_numbers(column: RawColumn, kind: str) -> RawColumn:
    """Convert a text column to the kind number, date, duration or boolean; raise an error at the first invalid row."""
    form = column.form

    def read(text: str) -> float:
        if kind == "date":
            return float(_times(np.array([_moment(_read_moment(text, form or "iso"))]), kind)[0])
        if kind == "boolean":
            word = text.strip().casefold()
            if word not in _TRUE | _FALSE:
                raise ValueError(text)
            return float(word in _TRUE)
        if form == "clock":  # seconds since midnight
            clock = _CLOCK.fullmatch(text.strip())
            if clock is None:
                raise ValueError(text)
            hours, minutes, seconds = clock.groups()
            return 3600.0 * int(hours) + 60.0 * int(minutes) + float(seconds or 0)
        bare = _without_unit(text)
        if form == "decimal comma" and _NUMBERS[form].fullmatch(bare):
            return float(re.sub(r"[^\d,+-]", "", bare).replace(",", "."))
        if form != "decimal comma" and _NUMBERS["thousands"].fullmatch(bare):
            return float(re.sub(_THOUSANDS, "", bare))
        return float(bare)

    found = dict[str | None, float]()
    for row, text in enumerate(column.values):
        if text in found:
            continue
        try:
            found[text] = np.nan if text is None or text.casefold() in _MISSING_WORDS else read(text)
        except ValueError:
            how = f", written as {_date_pattern(form)}" if kind == "date" and form else ""
            raise InvalidParameterError(
                f"column {column.name!r} held {kind}s in training{how}; row {row} is {text!r}: correct it, or leave it "
                "missing"
            ) from None
    values = np.array([found[text] for text in column.values], dtype=np.float64)
    return RawColumn(column.name, kind, values, note=column.note, form=form)


def _number_format(texts: set[str]) -> str:
    """Return the name of the number format that all texts follow; empty if there is none."""
    for form, pattern in _NUMBERS.items():
        if all(pattern.fullmatch(_without_unit(text)) for text in texts):
            with_units = any(text.strip() != _without_unit(text) for text in texts)
            return "thousands" if with_units and form == "plain" else form
    return ""


def _without_unit(text: str) -> str:
    """Return a text without currency or percent sign."""
    text = text.strip()
    sign = text[0] if text[:1] in ("+", "-") and text[1:2] in ("$", "€", "£", "¥") else ""
    return sign + _UNIT.sub("", text.removeprefix(sign)).strip()


def _date_formats(texts: set[str]) -> list[str]:
    """Return all formats, as for ``strptime``, by which every text can be read as a date."""

    def fit(some: Iterable[str], form: str) -> bool:
        try:
            for text in some:
                _read_moment(text, form)
        except ValueError:
            return False
        return True

    if not texts:
        return []
    if fit(texts, "iso"):
        return ["iso"]
    one = next(iter(texts))
    forms = [date + time for date in (*_DATES, *_DATES_WITH_NAMES) for time in _TIMES]
    return [form for form in forms if fit([one], form) and fit(texts, form)]


def _date_pattern(form: str) -> str:
    """Convert a ``strptime`` date format to a readable one for users, such as DD.MM.YYYY."""
    for directive, letters in _DIRECTIVES.items():
        form = form.replace(directive, letters)
    return form


def _read_moment(text: str, form: str) -> datetime.datetime:
    if form == "iso" or _ISO.match(text):
        if not _ISO.match(text):
            raise ValueError(text)
        return datetime.datetime.fromisoformat(text.strip())
    return datetime.datetime.strptime(text.strip(), form)
