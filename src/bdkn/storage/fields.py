"""Declaration of classes whose objects can be stored in a file: annotations of fields are the rules for their values.

::

    @stored
    @dataclass(frozen=True, eq=False)
    class Line:
        slopes: Annotated[FloatArray, floats("p")]
        intercept: float = 0.0

The annotation of an array gives its shape. A symbol in shapes stands for the same number, at least 1, in all fields of
an object: with ``floats("H")`` for a vector and ``floats("H", "H")`` for a matrix, both must have the same length.
``"H+1"`` is one more than H, ``"*"`` any number, and ``...`` any number of axes. With ``sizes`` a symbol also stands
for a size of another value, such as the length of a tuple. A method ``check(self)`` of the class may raise
``WrongContentError`` or another error of this library if fields are not consistent.

Fields of these types need no rule in their annotation: finite numbers, text, truth values, tuples, lists, stored
classes, base classes of stored classes, literals, and unions of classes.
"""
# ruff: noqa: D102 - the docstring of a class of rules describes the values that its only method accepts

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from types import EllipsisType, NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from bdkn.errors import BDKNError

Sizes = dict[str, int]
"""Type of a dict from symbols in array shapes to their values, such as {"H": 5} for arrays of shape (H, H)."""

Shape = tuple[str | int | EllipsisType, ...]
"""Type of the shape of an array: for each axis its length or a symbol for the length, such as (2, "H")."""

_MAX_INTEGER = 2**63 - 1
"""Maximum absolute value of an integer in a file."""

_MAX_ENTROPY = 2**1024
"""Limit of the integers of a random seed in a file; they must be smaller."""


class WrongContentError(Exception):
    """Error for a value in a file that is not allowed; functions that read files convert it to ``ModelFileError``."""


def must(condition: bool | np.bool_, text: str) -> None:
    """Raise ``WrongContentError`` with the message ``text`` unless the condition is true."""
    if not condition:
        raise WrongContentError(text)


class Content(Protocol):
    """Interface of rules that check the value of a field when an object is read from a file.

    A call with a value raises ``WrongContentError`` unless the value is allowed. ``sizes`` has the numbers that symbols
    in array shapes stand for; a symbol that occurs for the first time is added.
    """

    def __call__(self, value: Any, sizes: Sizes) -> None: ...


@dataclass(frozen=True)
class Array:
    """Rule for a field: an array with this shape, a dtype in ``types``, and entries >= ``low`` and > ``above``."""

    shape: Shape
    types: tuple[str, ...]
    finite: bool = True
    low: float = -math.inf
    above: float = -math.inf

    def __call__(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray):
            raise WrongContentError(f"must be an array; got {_type_name(value)}")
        if value.dtype.str[1:] not in self.types:
            raise WrongContentError(f"must be an array of {' or '.join(self.types)}; got {value.dtype}")
        if self.shape != (...,):
            same_length = value.ndim == len(self.shape)
            if not (same_length and all(bind(sizes, *axis) for axis in zip(self.shape, value.shape, strict=True))):
                raise WrongContentError(f"must have shape {_shape_text(self.shape, sizes)}; got {value.shape}")
        if self.finite and value.dtype.kind == "f":
            must(np.isfinite(value).all(), "must hold finite numbers; got NaN or infinity")
        if value.size and (self.low > -math.inf or self.above > -math.inf):
            least = value.min()
            if not (least >= self.low and least > self.above):
                raise WrongContentError(f"must not hold numbers below {max(self.low, self.above):g}; got {least}")


def floats(
    *shape: str | int | EllipsisType,
    types: tuple[str, ...] = ("f8",),
    finite: bool = True,
    low: float = -math.inf,
    above: float = -math.inf,
) -> Array:
    """Return the rule for a field that is an array of floating-point numbers, by default in double precision."""
    return Array(shape, types, finite=finite, low=low, above=above)


def singles(*shape: str | int, above: float = -math.inf) -> Array:
    """Return the rule for a field that is an array of numbers in single precision."""
    return Array(shape, ("f4",), above=above)


def integers(*shape: str | int, types: tuple[str, ...] = ("i8", "i4"), low: float = 0) -> Array:
    """Return the rule for a field that is an array of integers."""
    return Array(shape, types, low=low)


def flags(*shape: str | int) -> Array:
    """Return the rule for a field that is a boolean array."""
    return Array(shape, ("b1",))


@dataclass(frozen=True)
class Number:
    """Rule for a field: a number >= ``low``, <= ``high`` and > ``above``; infinity and nan only if allowed."""

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    whole: bool = False
    infinite: bool = False
    nan: bool = False

    def __call__(self, value: Any, sizes: Sizes) -> None:
        if type(value) is not int and (self.whole or type(value) is not float):
            raise WrongContentError(f"must be a {'whole ' * self.whole}number; got {_type_name(value)}")
        if type(value) is int:
            must(abs(value) <= _MAX_INTEGER, "must be below 2^63")
        elif math.isnan(value):
            must(self.nan, "must be a number; got NaN")
            return
        elif math.isinf(value):
            must(self.infinite, "must be finite; got infinity")
        if not (self.low <= value <= self.high and (value > self.above or self.above == -math.inf)):
            raise WrongContentError(f"must be from {max(self.low, self.above):g} to {self.high:g}; got {value}")


Positive = Annotated[float, Number(above=0.0)]
NonNegative = Annotated[float, Number(low=0.0)]
Extended = Annotated[float, Number(nan=True, infinite=True)]
"""Type annotation for a field of a stored class that may be any number, infinity or nan."""


@dataclass(frozen=True)
class Flag:
    """Rule for a field: True or False."""

    def __call__(self, value: Any, sizes: Sizes) -> None:
        must(type(value) is bool, f"must be true or false; got {_type_name(value)}")


@dataclass(frozen=True)
class Text:
    """Rule for a field: a text of any length."""

    def __call__(self, value: Any, sizes: Sizes) -> None:
        must(type(value) is str, f"must be a text; got {_type_name(value)}")


@dataclass(frozen=True)
class Choice:
    """Rule for a field: one of the given ``values`` (numbers or texts), with the same type."""

    values: Collection[Any]

    def __call__(self, value: Any, sizes: Sizes) -> None:
        if not any(type(value) is type(one) and value == one for one in self.values):
            raise WrongContentError(f"must be one of {', '.join(map(str, self.values))}; got {value!r:.80}")


@dataclass(frozen=True)
class Maybe:
    """Rule for a field: None, or a value that follows the rule ``content``."""

    content: Content

    def __call__(self, value: Any, sizes: Sizes) -> None:
        if value is not None:
            self.content(value, sizes)


@dataclass(frozen=True)
class Items:
    """Rule for a field: a tuple or list of any length, in which each value follows the rule ``content``."""

    content: Content
    container: type[list[Any]] | type[tuple[Any, ...]] = tuple

    def __call__(self, value: Any, sizes: Sizes) -> None:
        if type(value) is not self.container:
            raise WrongContentError(f"must be a {self.container.__name__}; got {_type_name(value)}")
        for number, part in enumerate(value):
            with_place(f"entry {number}", self.content, part, sizes)


class Fixed:
    """Rule for a field: a tuple of fixed length, with a rule in ``contents`` for each of its values."""

    def __init__(self, *contents: Content) -> None:
        self.contents = contents

    def __call__(self, value: Any, sizes: Sizes) -> None:
        n = len(self.contents)
        must(type(value) is tuple and len(value) == n, f"must be a tuple of {n}; got {_type_name(value)}")
        for content, part in zip(self.contents, value, strict=True):
            content(part, sizes)


@dataclass(frozen=True)
class Plain:
    """Rule for a field: a number, text, truth value or None; unless ``single``, also a list, tuple or dict of these."""

    single: bool = False

    def __call__(self, value: Any, sizes: Sizes) -> None:
        if isinstance(value, list | tuple | dict) and not self.single:
            for part in value.values() if isinstance(value, dict) else value:
                self(part, sizes)
        else:
            must(value is None or type(value) in (bool, int, float, str), f"must be plain; got {_type_name(value)}")


@dataclass(frozen=True)
class Named:
    """Rule for a field: a dict, in which each value follows the rule ``content`` (None: any values)."""

    content: Content | None = None

    def __call__(self, value: Any, sizes: Sizes) -> None:
        must(type(value) is dict, f"must have names and values; got a {type(value).__name__}")
        if self.content is not None:
            for part in value.values():
                self.content(part, sizes)


@dataclass(frozen=True)
class Entropy:
    """Rule for a field with a random seed: None, or one or several integers >= 0 of up to 1024 bits."""

    def __call__(self, value: Any, sizes: Sizes) -> None:
        numbers = value if isinstance(value, list | tuple) else [] if value is None else [value]
        valid = all(type(number) is int and 0 <= number < _MAX_ENTROPY for number in numbers)
        must(valid, "must be None or numbers >= 0")


class Instance:
    """Rule for a field: an object of one of the given classes; a class may be given by its name."""

    def __init__(self, *classes: type | str) -> None:
        self.names = tuple(cls if isinstance(cls, str) else cls.__name__ for cls in classes)

    def __call__(self, value: Any, sizes: Sizes) -> None:
        if type(value).__name__ not in self.names:
            raise WrongContentError(f"must be a {' or '.join(self.names)}; got {_type_name(value)}")


@dataclass(frozen=True)
class Either:
    """Rule for a field: a value of the type ``cls`` follows the rule ``first``, any other value the rule ``second``."""

    cls: type
    first: Content
    second: Content

    def __call__(self, value: Any, sizes: Sizes) -> None:
        (self.first if type(value) is self.cls else self.second)(value, sizes)


@dataclass(frozen=True)
class Sized:
    """Rule for a field: as ``content``; in addition, the value fixes sizes such as H in the shapes of other fields."""

    symbols: dict[str, Callable[[Any], int]]
    content: Content | None = None

    def __call__(self, value: Any, sizes: Sizes) -> None:
        if self.content is not None:
            self.content(value, sizes)
        for symbol, measure in self.symbols.items():
            size = measure(value)
            if not bind(sizes, symbol, size):
                raise WrongContentError(f"has {symbol} = {size}, where other parts have {sizes[symbol]}")


def sizes(**symbols: str | Callable[[Any], int]) -> Sized:
    """Return the rule that sizes in array shapes, such as H, equal an attribute or a function of a field's value."""
    return Sized({name: attrgetter(by) if isinstance(by, str) else by for name, by in symbols.items()})


def with_place(place: str, content: Content, value: Any, sizes: Sizes) -> None:
    """Check a value by the rule ``content``; error messages begin with ``place``, its position in the file."""
    try:
        content(value, sizes)
    except WrongContentError as error:
        raise WrongContentError(f"{place} {error}") from None


def bind(sizes: Sizes, symbol: str | int | EllipsisType, size: int) -> bool:
    """Return whether an array axis has the size that its symbol, such as "H", has in ``sizes``; add new symbols."""
    if isinstance(symbol, int):
        return size == symbol
    if symbol == "*" or isinstance(symbol, EllipsisType):
        return True
    name, _, more = symbol.partition("+")
    single = size - int(more or 0)
    return sizes.setdefault(name, single) == single


def _type_name(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _shape_text(shape: Shape, sizes: Sizes) -> str:
    """Return a shape as text for an error message, with known sizes, such as "(n, H) with H = 5"."""
    known = [f"{symbol} = {sizes[symbol]}" for symbol in dict.fromkeys(shape) if symbol in sizes]
    return f"({', '.join(map(str, shape))})" + (f" with {', '.join(known)}" if known else "")


_Class = TypeVar("_Class", bound=type)

STORED: dict[str, type] = {}
"""Registry of the classes whose objects can be read from a file, by name; objects of no other class are created."""


def stored(cls: _Class) -> _Class:
    """Register a class whose objects can be stored in a file; array sizes listed in its ``may_be_empty`` may be 0."""
    other = STORED.get(cls.__name__, cls)
    if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(f"a class named {cls.__name__} is stored already, that of {other.__module__}")
    STORED[cls.__name__] = cls
    return cls


@dataclass(frozen=True, eq=False)
class Schema:
    """Fields of a class that can be stored in a file: the rule for each value, and the ``required`` fields."""

    cls: type
    fields: Mapping[str, Content]
    required: frozenset[str]

    def make(self, values: Mapping[str, Any]) -> Any:
        """Create an object from the values of its fields; raise ``WrongContentError`` if a value violates its rule."""
        if not self.required <= values.keys() <= self.fields.keys():
            unknown, absent = sorted(values.keys() - self.fields.keys()), sorted(self.required - values.keys())
            raise WrongContentError(f"has no field {unknown[0]!r:.80}" if unknown else f"needs the field {absent[0]!r}")
        found: Sizes = {}
        for name, content in self.fields.items():
            if name in values:
                with_place(name, content, values[name], found)
        for symbol, size in found.items():
            if size < 1 and symbol not in getattr(self.cls, "may_be_empty", ()):
                raise WrongContentError(f"must have {symbol} >= 1; got {size}")
        try:
            made = self.cls(**values)
            if hasattr(made, "check"):
                made.check()
        except BDKNError as error:  # raised by the constructor or ``check``
            raise WrongContentError(str(error)) from error
        return made


@cache
def schema_of(cls: type) -> Schema:
    """Return the schema of a stored class: a rule for each field, derived from the field's type annotation."""
    hints, parameters = get_type_hints(cls, include_extras=True), inspect.signature(cls).parameters
    fields = {}
    for name in parameters:
        try:
            fields[name] = content_of(hints[name])
        except TypeError as error:
            raise TypeError(f"{cls.__name__}.{name} cannot be stored: {error}") from error
    required = frozenset(name for name, each in parameters.items() if each.default is inspect.Parameter.empty)
    return Schema(cls, fields, required)


def content_of(hint: Any) -> Content:
    """Return the rule for the values of a field with this type annotation, such as ``Number()`` for ``float``."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _content_of_annotated(*parts)
    if origin in (Union, UnionType):
        return _content_of_union(parts)
    if origin is Literal:
        return Choice(parts)
    if origin is list:
        return Items(content_of(parts[0]), list)
    if origin is tuple:
        return Items(content_of(parts[0])) if parts[1:] == (...,) else Fixed(*map(content_of, parts))
    if hint in _PLAIN:
        return _PLAIN[hint]
    names = [name for name, cls in STORED.items() if hint in cls.__mro__]
    if not names:
        raise TypeError(f"{hint} must be annotated with its content, as in Annotated[FloatArray, floats('n')]")
    return Instance(*names)


_PLAIN: dict[Any, Content] = {bool: Flag(), int: Number(whole=True), float: Number(), str: Text()}
"""Rules for checking fields with the annotation ``bool``, ``int``, ``float`` or ``str``."""


def _content_of_annotated(hint: Any, *notes: Any) -> Content:
    """Return the rule for a field of type ``Annotated[hint, *notes]``: the first rule in ``notes``, or by ``hint``."""
    types = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    others = tuple(one for one in types if one is not NoneType)
    contents: list[Content] = [note for note in notes if not isinstance(note, Sized)]
    content = contents[0] if contents else _content_of_union(others)
    if others == (int,) and isinstance(content, Number):
        content = replace(content, whole=True)
    for note in notes:  # sizes in array shapes are checked in addition
        if isinstance(note, Sized):
            content = replace(note, content=content)
    return Maybe(content) if NoneType in types else content


def _content_of_union(hints: tuple[Any, ...]) -> Content:
    if NoneType in hints:
        return Maybe(_content_of_union(tuple(hint for hint in hints if hint is not NoneType)))
    contents = list(map(content_of, hints))
    parts = [content for content in contents if isinstance(content, Instance)]
    if len(contents) > 1 and len(parts) < len(contents):
        raise TypeError(f"{' | '.join(map(str, hints))} must be annotated with its content")
    return Instance(*(name for part in parts for name in part.names)) if parts else contents[0]
