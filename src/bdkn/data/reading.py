"""Numbers, dates and booleans that are written as text: how a column writes them, and what they are."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import ColumnsWarning, InvalidParameterError, warn_user
from bdkn.typing import FloatArray

DAY = 86_400.0
"""Seconds of a day."""

_ROW_NAMES = re.compile(r"__index_level_\d+__")

_NO_SINGLE_VALUE = (complex, bytes, bytearray, list, tuple, dict, set, frozenset, np.ndarray)
"""Types of objects that are neither a number nor a text."""

_LEAST_NUMBERS = 10
"""Text that reads as numbers is a column of numbers if it has more different values than this."""


@dataclass(frozen=True, eq=False)
class RawColumn:
    """The values of one column: numbers with nan where they are missing, or text with None.

    ``kind`` is "number", "boolean", "date" (in days since 1970), "duration" (in seconds) or "text". ``levels`` are the
    values of an ordered category, in their order. ``form`` is how numbers or dates are written, if as text and not in
    the usual way; ``categories`` says that the frame calls it a column of categories.
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
        """Which values are missing."""
        if self.kind == "text":
            return np.fromiter((value is None for value in self.values), bool, len(self.values))
        return np.asarray(np.isnan(self.values))


def is_frame(X: Any) -> bool:
    """Return whether ``X`` is a data frame or a table of pandas, polars, pyarrow or a library that narwhals knows."""
    if type(X).__name__ == "LazyFrame":
        raise InvalidParameterError("X must be a table in memory; got a LazyFrame: X.collect() makes one")
    if isinstance(X, np.ndarray | list | tuple) or not (hasattr(X, "columns") or hasattr(X, "column_names")):
        return False
    import narwhals.stable.v2 as nw

    try:
        return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)
    except nw.exceptions.DuplicateError:
        column_names(X)  # raises, and says what to do
        raise


def column_names(X: Any) -> list[Any]:
    """Return the names of a frame's columns; raise if some are equal."""
    if hasattr(X, "column_names"):  # row names of pandas are no column
        names = [name for name in X.column_names if not _ROW_NAMES.fullmatch(name)]
    else:
        names = list(X.columns)
    twice = sorted({str(name) for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InvalidParameterError(
            f"columns must have different names; got {', '.join(map(repr, twice))} more than once: rename or drop them"
        )
    return names


def read_column(X: Any, name: Any) -> RawColumn:
    """Return a column of a frame; raise if it holds neither numbers, nor dates, nor text."""
    import narwhals.stable.v2 as nw

    series = nw.from_native(X, eager_only=True).get_column(name)
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        kind = "boolean" if dtype == nw.Boolean else "number"
        return RawColumn(name, kind, np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64))
    if dtype in (nw.Date, nw.Datetime):
        return RawColumn(name, "date", _days(series.to_numpy()))
    if dtype == nw.Duration:
        return RawColumn(name, "duration", _seconds(series.to_numpy()))
    if isinstance(dtype, nw.List | nw.Array | nw.Struct):
        raise _several_values(name, dtype)
    if dtype in (nw.Categorical, nw.Enum):
        return _from_categories(name, _category_values(series), _levels(X, name))
    return _from_values(name, series.to_list())


def _category_values(series: Any) -> list[Any]:
    """Return the values of a column of categories; Arrow lists those of its codes one by one unless they are cast."""
    native = series.to_native()
    values = getattr(getattr(native, "type", None), "value_type", None)
    return list(series.to_list() if values is None else native.cast(values).to_pylist())


def _from_categories(name: Any, values: list[Any], levels: tuple[str, ...]) -> RawColumn:
    """Return a column that its frame calls one of categories as text, also if these are numbers; dates stay dates."""
    column = _from_values(name, values)
    if column.kind in ("date", "duration"):
        return column
    return RawColumn(name, "text", _texts(values), levels, categories=True)


def _from_values(name: Any, values: list[Any]) -> RawColumn:
    """Return a column of Python objects as numbers, dates or durations if all are, else as text."""
    if set(map(type, values)) <= {str, type(None)}:  # most columns, which need no look at each value
        return RawColumn(name, "text", _texts(values))
    known = [value for value in values if not _is_missing(value)]
    if not known:
        return RawColumn(name, "text", _texts(values))
    if all(isinstance(value, bool | np.bool_) for value in known):
        return RawColumn(name, "boolean", _floats(values))
    if all(isinstance(value, Real | Decimal) for value in known):
        return RawColumn(name, "number", _floats(values))
    if all(hasattr(value, "start_time") for value in known):  # periods of pandas
        values = [None if _is_missing(value) else value.start_time for value in values]
    if all(_is_missing(value) or isinstance(value, datetime.date) for value in values):
        return RawColumn(name, "date", _days(np.array([_stamp(value) for value in values], dtype="datetime64[us]")))
    if all(isinstance(value, datetime.timedelta) for value in known):
        given = [np.timedelta64("NaT", "us") if _is_missing(value) else np.timedelta64(value) for value in values]
        return RawColumn(name, "duration", _seconds(np.array(given, dtype="timedelta64[us]")))
    odd = next((value for value in known if isinstance(value, _NO_SINGLE_VALUE) or _has_no_text(value)), None)
    if odd is not None:
        raise _several_values(name, type(odd).__name__)
    return RawColumn(name, "text", _texts(values))


def _several_values(name: Any, kind: Any) -> InvalidParameterError:
    return InvalidParameterError(
        f"column {name!r} must hold one value per row, a number, a date or a text; got {kind}: make columns of its "
        "parts, or drop it"
    )


def _has_no_text(value: Any) -> bool:
    """Return whether an object says nothing about itself but where it is in memory."""
    kind: Any = type(value)
    return kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__


def _texts(values: list[Any]) -> NDArray[Any]:
    """Return values as text without space around it; None where they are missing or empty."""
    text = np.empty(len(values), dtype=object)
    if set(map(type, values)) <= {str, type(None)}:
        short = {value: value.strip() or None for value in set(values) - {None}}
        text[:] = [short.get(value) for value in values]
    else:
        text[:] = [None if _is_missing(value) else as_text(value) or None for value in values]
    return text


def as_text(value: Any) -> str:
    """Return a value as text; 1 and 1.0 are both "1"."""
    number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    whole: Any = value if number and float(value).is_integer() else None
    return str(value).strip() if whole is None else str(int(whole))


def read_text(column: RawColumn) -> RawColumn:
    """Return a column of text that reads as numbers, dates or times of day as one of these; else itself."""
    if column.categories:
        return column
    texts, absent = without_absent(column.values)
    note = f"; {', '.join(sorted(map(repr, absent)))} in it is a missing value" if absent else ""
    numbers = writing_of_numbers(texts) if len(texts) > _LEAST_NUMBERS else None
    if numbers is not None:
        form = numbers.form if absent or numbers.form != "plain" else ""
        how = {"thousands": ", with separators of thousands or units", "decimal comma": ", with a decimal comma"}
        words = "text that reads as numbers" + how.get(form, "") + note
        return as_numbers(RawColumn(column.name, "text", column.values, note=words, form=form), "number")
    dates = writing_of_dates(texts)
    if dates is not None:
        _tell_other_order(column.name, dates)
        form = "" if dates.form == "iso" else dates.form
        words = "text that reads as dates" + (f", written as {shown(form)}" if form else "") + note
        return as_numbers(RawColumn(column.name, "text", column.values, note=words, form=form), "date")
    if len(texts) > _LEAST_NUMBERS and are_clocks(texts):
        words = "times of day, in seconds since midnight" + note
        return as_numbers(RawColumn(column.name, "text", column.values, note=words, form="clock"), "duration")
    return column


def as_numbers(column: RawColumn, kind: str) -> RawColumn:
    """Return a column of text, written in its ``form``, as one of numbers of a kind; ValueError if a text is none."""
    return RawColumn(
        column.name, kind, numbers_of(column.values, reader_of(kind, column.form)), (), column.note, column.form
    )


def reader_of(kind: str, form: str) -> Callable[[str], float]:
    """Return the function that reads a value of a kind from a text."""
    if kind == "date":
        return lambda text: float(_days(np.array([_stamp(moment_in(text, form or "iso"))]))[0])
    if kind == "boolean":
        return boolean_in
    if form == "clock":
        return seconds_in
    return lambda text: number_in(text, form)


def _tell_other_order(name: Any, dates: Writing) -> None:
    """Warn of dates in which day and month could be either."""
    if dates.other:
        form, other = shown(dates.form), shown(dates.other)
        warn_user(
            f"column {name!r} holds dates that could be written as {form} or as {other}; they are read as {form}. If "
            "that is wrong, write them as 2026-01-31",
            ColumnsWarning,
        )


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, nan, NaT or pandas' NA."""
    if value is None:
        return True
    same = value == value
    return not same if isinstance(same, bool | np.bool_) else type(value).__name__ == "NAType"


def _floats(values: list[Any]) -> FloatArray:
    return np.array([np.nan if _is_missing(value) else float(value) for value in values], dtype=np.float64)


def _stamp(value: Any) -> np.datetime64:
    if _is_missing(value):
        return np.datetime64("NaT")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value)


def _days(values: NDArray[Any]) -> FloatArray:
    """Return the days since 1970 of moments, nan where they are missing."""
    stamps = np.asarray(values).astype("datetime64[us]")
    return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / (DAY * 1e6))


def _seconds(values: NDArray[Any]) -> FloatArray:
    """Return durations in seconds, nan where they are missing."""
    lengths = np.asarray(values).astype("timedelta64[us]")
    return np.where(np.isnat(lengths), np.nan, lengths.astype(np.int64) / 1e6)


def _levels(X: Any, name: Any) -> tuple[str, ...]:
    """Return the values of an ordered category of pandas or Arrow, or of an Enum of polars, in order; else none."""
    column = X[name] if hasattr(X, "columns") else None
    if getattr(getattr(column, "type", None), "ordered", False) and column.num_chunks:  # type: ignore[union-attr]
        return tuple(map(as_text, column.unify_dictionaries().chunk(0).dictionary.to_pylist()))  # type: ignore[union-attr]
    dtype = getattr(column, "dtype", None)
    if getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum":
        return tuple(map(as_text, dtype.categories))  # type: ignore[union-attr]
    return ()


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
