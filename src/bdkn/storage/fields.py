"""Declaration of stored classes: their annotations are the schema of the file.

@stored
    @dataclass(frozen=True, eq=False)
    class Line:
        slopes: Annotated[FloatArray, floats("p")]
        intercept: float = 0.0

Shapes of arrays have symbols. A symbol means the same number, at least 1 by default, in all fields of one object: with
``floats("H")`` for the mean and ``floats("H", "H")`` for the root, a root of another size than the mean is refused.
``"H+1"`` is one more than H, ``"*"`` is any number, and ``...`` any number of axes. ``sizes`` states the symbols of a
nested object or a tuple. A method ``check(self)`` of the class, if there is one, raises ``WrongContentError`` or an
error of this library if fields do not belong together.

Plain annotations need no content: numbers (finite), texts, truth values, tuples, lists, stored classes, base classes of
them, literals, and unions of classes.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import repeat
from operator import attrgetter
from types import EllipsisType, NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints, overload

import numpy as np

from bdkn.errors import BDKNError

Sizes = dict[str, int]
"""The number that each symbol stands for."""

Shape = tuple[str | int | EllipsisType, ...]

_MOST = 2**63 - 1
_MOST_ENTROPY = 2**1024


class WrongContentError(Exception):
    """A value in a file is not what its schema demands; readers of files turn it into a ``ModelFileError``."""


def must(holds: bool | np.bool_, text: str) -> None:
    """Raise ``WrongContentError`` with this text unless a condition holds."""
    if not holds:
        raise WrongContentError(text)


class Content(Protocol):
    """The values that a field may have."""

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise ``WrongContentError`` unless the value is of this kind; symbols that are new are added to ``sizes``."""


@dataclass(frozen=True)
class Array:
    """An array of a type and a shape, with no number below ``low``, and all greater than ``above``."""

    shape: Shape
    types: tuple[str, ...]
    finite: bool = True
    low: float = -math.inf
    above: float = -math.inf

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is such an array."""
        if not isinstance(value, np.ndarray):
            raise WrongContentError(f"must be an array; got {_kind(value)}")
        if value.dtype.str[1:] not in self.types:
            raise WrongContentError(f"must be an array of {' or '.join(self.types)}; got {value.dtype}")
        if self.shape != (...,) and not (
            value.ndim == len(self.shape) and all(map(bind, repeat(sizes), self.shape, value.shape))
        ):
            raise WrongContentError(f"must have shape {_shown(self.shape, sizes)}; got {value.shape}")
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
    """Return the content of an array of floating-point numbers, in double precision by default."""
    return Array(shape, types, finite=finite, low=low, above=above)


def singles(*shape: str | int, above: float = -math.inf) -> Array:
    """Return the content of an array in single precision."""
    return Array(shape, ("f4",), above=above)


def integers(*shape: str | int, types: tuple[str, ...] = ("i8", "i4"), low: float = 0) -> Array:
    """Return the content of an array of whole numbers."""
    return Array(shape, types, low=low)


def flags(*shape: str | int) -> Array:
    """Return the content of an array of truth values."""
    return Array(shape, ("b1",))


@dataclass(frozen=True)
class Number:
    """A number from ``low`` to ``high``, greater than ``above``; infinite or nan only if that is said."""

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    whole: bool = False
    infinite: bool = False
    nan: bool = False

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is such a number."""
        if type(value) is not int and (self.whole or type(value) is not float):
            raise WrongContentError(f"must be a {'whole ' * self.whole}number; got {_kind(value)}")
        if type(value) is int:
            must(abs(value) <= _MOST, "must be below 2^63")
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
"""A number, infinity or NaN."""


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is a truth value."""
        must(type(value) is bool, f"must be true or false; got {_kind(value)}")


@dataclass(frozen=True)
class Text:
    """A text of any length."""

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is a text."""
        must(type(value) is str, f"must be a text; got {_kind(value)}")


@dataclass(frozen=True)
class Choice:
    """One of some numbers or texts."""

    values: Collection[Any]

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is among them, and of the same type."""
        if not any(type(value) is type(one) and value == one for one in self.values):
            raise WrongContentError(f"must be one of {', '.join(map(str, self.values))}; got {value!r:.80}")


@dataclass(frozen=True)
class Maybe:
    """None, or a value of another content."""

    content: Content

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is None or of that content."""
        if value is not None:
            self.content.check(value, sizes)


@dataclass(frozen=True)
class Items:
    """A tuple, or a list, of any number of values of one content."""

    content: Content
    container: type[list[Any]] | type[tuple[Any, ...]] = tuple

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is such a sequence."""
        if type(value) is not self.container:
            raise WrongContentError(f"must be a {self.container.__name__}; got {_kind(value)}")
        for number, part in enumerate(value):
            with_place(f"entry {number}", self.content, part, sizes)


class Fixed:
    """A tuple of a fixed number of values, each with its own content."""

    def __init__(self, *contents: Content) -> None:
        self.contents = contents

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is such a tuple."""
        n = len(self.contents)
        must(type(value) is tuple and len(value) == n, f"must be a tuple of {n}; got {_kind(value)}")
        for content, part in zip(self.contents, value, strict=True):
            content.check(part, sizes)


@dataclass(frozen=True)
class Plain:
    """Numbers, texts, truth values and None, and lists, tuples and dicts of them; one of them if ``single``."""

    single: bool = False

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is plain."""
        if isinstance(value, list | tuple) and not self.single:
            for part in value:
                self.check(part, sizes)
        elif isinstance(value, dict) and not self.single:
            for part in value.values():
                self.check(part, sizes)
        else:
            must(value is None or type(value) in (bool, int, float, str), f"must be plain; got {_kind(value)}")


@dataclass(frozen=True)
class Named:
    """Values by name, of one content if it is given."""

    content: Content | None = None

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is a dict of such values."""
        must(type(value) is dict, f"must have names and values; got a {type(value).__name__}")
        if self.content is not None:
            for part in value.values():
                self.content.check(part, sizes)


@dataclass(frozen=True)
class Entropy:
    """Entropy of a seed: None, a number >= 0 of any size, or several."""

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is such an entropy."""
        numbers = value if isinstance(value, list | tuple) else [] if value is None else [value]
        must(
            all(type(number) is int and 0 <= number < _MOST_ENTROPY for number in numbers),
            "must be None or numbers >= 0",
        )


class Part:
    """An object of one of some classes, each given by itself or by its name."""

    def __init__(self, *kinds: type | str) -> None:
        self.names = tuple(kind if isinstance(kind, str) else kind.__name__ for kind in kinds)

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is such an object."""
        if type(value).__name__ not in self.names:
            raise WrongContentError(f"must be a {' or '.join(self.names)}; got {_kind(value)}")


@dataclass(frozen=True)
class Either:
    """One of two contents, by whether the value is of the type of the first."""

    kind: type
    first: Content
    second: Content

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is of its kind."""
        (self.first if type(value) is self.kind else self.second).check(value, sizes)


@dataclass(frozen=True)
class Sized:
    """A value of another content, of which functions return the sizes that its symbols stand for."""

    symbols: dict[str, Callable[[Any], int]]
    content: Content | None = None

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is of that content, and its sizes are those of the other fields."""
        if self.content is not None:
            self.content.check(value, sizes)
        for symbol, measure in self.symbols.items():
            size = measure(value)
            if not bind(sizes, symbol, size):
                raise WrongContentError(f"has {symbol} = {size}, where other parts have {sizes[symbol]}")


def sizes(**symbols: str | Callable[[Any], int]) -> Sized:
    """Return a note with the attribute of a nested object, or the function, that each symbol is the size of."""
    return Sized({name: attrgetter(by) if isinstance(by, str) else by for name, by in symbols.items()})


_Class = TypeVar("_Class", bound=type)

STORED: dict[str, type] = {}
"""Stored classes by name: nothing else is made from a file."""

MAY_BE_EMPTY: dict[type, tuple[str, ...]] = {}
"""By stored class: symbols that may stand for 0."""


@overload
def stored(cls: _Class, /) -> _Class: ...


@overload
def stored(*, may_be_empty: tuple[str, ...] = ()) -> Callable[[_Class], _Class]: ...


def stored(cls: type | None = None, /, *, may_be_empty: tuple[str, ...] = ()) -> Any:
    """Register a class whose objects can be in a file; its annotations are the schema, see ``schema_of``."""
    if cls is None:
        return partial(_register, may_be_empty)
    return _register(may_be_empty, cls)


def _register(may_be_empty: tuple[str, ...], cls: type) -> type:
    other = STORED.get(cls.__name__, cls)
    if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(f"a class named {cls.__name__} is stored already, that of {other.__module__}")
    STORED[cls.__name__], MAY_BE_EMPTY[cls] = cls, may_be_empty
    return cls


def with_place(place: str, content: Content, value: Any, sizes: Sizes) -> None:
    """Check a value, and name its place in the error."""
    try:
        content.check(value, sizes)
    except WrongContentError as error:
        raise WrongContentError(f"{place} {error}") from None


def bind(sizes: Sizes, symbol: str | int | EllipsisType, size: int) -> bool:
    """Return whether a symbol stands for this size; a symbol that is new does from now on."""
    if isinstance(symbol, int):
        return size == symbol
    if symbol == "*" or isinstance(symbol, EllipsisType):
        return True
    name, _, more = symbol.partition("+")
    single = size - int(more or 0)
    return sizes.setdefault(name, single) == single


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _shown(shape: Shape, sizes: Sizes) -> str:
    """Return a shape as text, with what its symbols stand for."""
    known = [f"{symbol} = {sizes[symbol]}" for symbol in dict.fromkeys(shape) if symbol in sizes]
    return f"({', '.join(map(str, shape))})" + (f" with {', '.join(map(str, known))}" if known else "")


@dataclass(frozen=True, eq=False)
class Schema:
    """The fields of a stored class, and those of them that have no default."""

    cls: type
    fields: Mapping[str, Content]
    required: frozenset[str]

    def make(self, values: Mapping[str, Any]) -> Any:
        """Return the object with these fields; raise ``WrongContentError`` if they are wrong."""
        if not self.required <= values.keys() <= self.fields.keys():
            unknown, absent = sorted(values.keys() - self.fields.keys()), sorted(self.required - values.keys())
            raise WrongContentError(f"has no field {unknown[0]!r:.80}" if unknown else f"needs the field {absent[0]!r}")
        found: Sizes = {}
        for name, content in self.fields.items():
            if name in values:
                with_place(name, content, values[name], found)
        for symbol, size in found.items():
            if size < 1 and symbol not in MAY_BE_EMPTY[self.cls]:
                raise WrongContentError(f"must have {symbol} >= 1; got {size}")
        try:
            made = self.cls(**values)
            if hasattr(made, "check"):
                made.check()
        except BDKNError as error:  # what the class itself demands
            raise WrongContentError(str(error)) from error
        return made


@cache
def schema_of(cls: type) -> Schema:
    """Return the schema of a stored class, derived from its annotations when it is first used."""
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
    """Return the content that an annotation stands for."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(*parts)
    if origin in (Union, UnionType):
        return _union(parts)
    if origin is Literal:
        return Choice(parts)
    if origin is list:
        return Items(content_of(parts[0]), list)
    if origin is tuple:
        return Items(content_of(parts[0])) if parts[1:] == (...,) else Fixed(*map(content_of, parts))
    if hint in _PLAIN:
        return _PLAIN[hint]
    kinds = [name for name, cls in STORED.items() if hint in cls.__mro__]
    if not kinds:
        raise TypeError(f"{hint} must be annotated with its content, as in Annotated[FloatArray, floats('n')]")
    return Part(*kinds)


def _annotated(hint: Any, *notes: Any) -> Content:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    some = tuple(kind for kind in kinds if kind is not NoneType)
    contents: list[Content] = [note for note in notes if not isinstance(note, Sized)]
    content = contents[0] if contents else _union(some)
    if some == (int,) and isinstance(content, Number):
        content = replace(content, whole=True)
    for note in notes:
        if isinstance(note, Sized):
            content = replace(note, content=content)
    return Maybe(content) if NoneType in kinds else content


def _union(hints: tuple[Any, ...]) -> Content:
    if NoneType in hints:
        return Maybe(_union(tuple(hint for hint in hints if hint is not NoneType)))
    contents = list(map(content_of, hints))
    parts = [content for content in contents if isinstance(content, Part)]
    if len(contents) > 1 and len(parts) < len(contents):
        raise TypeError(f"{' | '.join(map(str, hints))} must be annotated with its content")
    return Part(*(name for part in parts for name in part.names)) if parts else contents[0]


_PLAIN: dict[Any, Content] = {
    bool: Flag(),
    int: Number(whole=True),
    float: Number(),
    str: Text(),
}
