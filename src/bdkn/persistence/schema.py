"""Schemas: which fields an object of a class has in a file, and what must hold for them before the object is made.

Shapes of arrays have symbols. A symbol means the same number in all fields of one object: with ``mean=floats("H")`` and
``root=floats("H", "H")``, a root of another size than the mean is refused. ``"H+1"`` is one more than H.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import Any, Protocol

import numpy as np

from bdkn.errors import BDKNError

Sizes = dict[str, int]
"""The number that each symbol stands for."""

_MOST = 2**63 - 1


class WrongContentError(Exception):
    """Something in a file is not what its schema says; whoever reads the file turns it into a ``ModelFileError``."""


def must(holds: bool | np.bool_, text: str) -> None:
    """Raise ``WrongContentError`` with this text unless something holds."""
    if not holds:
        raise WrongContentError(text)


class Content(Protocol):
    """What a field may hold."""

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise ``WrongContentError`` unless the value is of this kind; symbols that are new are added to ``sizes``."""


@dataclass(frozen=True)
class Array:
    """An array of a type and a shape, with no number below ``low``, and all greater than ``above``."""

    shape: tuple[str | int, ...]
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
        if value.ndim != len(self.shape) or not all(map(bind, repeat(sizes), self.shape, value.shape)):
            raise WrongContentError(f"must have shape {_shown(self.shape, sizes)}; got {value.shape}")
        if self.finite and value.dtype.kind == "f":
            must(np.isfinite(value).all(), "must hold finite numbers; got NaN or infinity")
        if value.size and (self.low > -math.inf or self.above > -math.inf):
            least = value.min()
            if not (least >= self.low and least > self.above):
                raise WrongContentError(f"must not hold numbers below {max(self.low, self.above):g}; got {least}")


def floats(*shape: str | int, finite: bool = True, low: float = -math.inf, above: float = -math.inf) -> Array:
    """Return the content of an array in double precision."""
    return Array(shape, ("f8",), finite=finite, low=low, above=above)


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


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is a truth value."""
        must(type(value) is bool, f"must be true or false; got {_kind(value)}")


@dataclass(frozen=True)
class Text:
    """A text: one of ``choices``, if there are any, that matches ``pattern``."""

    choices: Collection[str] = ()
    pattern: str = ""

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is such a text."""
        if type(value) is not str:
            raise WrongContentError(f"must be a text; got {_kind(value)}")
        if self.choices and value not in self.choices:
            raise WrongContentError(f"must be one of {', '.join(self.choices)}; got {value!r:.80}")
        if self.pattern and re.fullmatch(self.pattern, value) is None:
            raise WrongContentError(f"is not valid; got {value!r:.80}")


@dataclass(frozen=True)
class Maybe:
    """None, or something."""

    content: Content

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is None or of that kind."""
        if value is not None:
            self.content.check(value, sizes)


@dataclass(frozen=True)
class Items:
    """A tuple, or a list, of equal kinds of things; ``size`` is a symbol or a number."""

    content: Content
    size: str | int = "*"
    least: int = 0
    container: type[list[Any]] | type[tuple[Any, ...]] = tuple

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is such a sequence."""
        if type(value) is not self.container:
            raise WrongContentError(f"must be a {self.container.__name__}; got {_kind(value)}")
        if len(value) < self.least or not bind(sizes, self.size, len(value)):
            wanted = f"at least {self.least}" if self.size == "*" else _shown((self.size,), sizes)
            raise WrongContentError(f"must have {wanted} entries; got {len(value)}")
        for number, part in enumerate(value):
            with_place(f"entry {number}", self.content, part, sizes)


@dataclass(frozen=True)
class Pair:
    """A tuple of two things."""

    first: Content
    second: Content

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is such a pair."""
        must(type(value) is tuple and len(value) == 2, f"must be a pair; got {_kind(value)}")
        self.first.check(value[0], sizes)
        self.second.check(value[1], sizes)


@dataclass(frozen=True)
class Plain:
    """Numbers, texts, truth values and None, and lists, tuples and dicts of them; a number or text if ``single``."""

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


class Part:
    """An object of one of some classes; ``sizes`` say how many of a symbol the object has."""

    def __init__(self, *kinds: type, **sizes: Callable[[Any], int]) -> None:
        self.kinds, self.sizes = kinds, sizes

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is such an object, of these sizes."""
        if type(value) not in self.kinds:
            names = " or ".join(kind.__name__ for kind in self.kinds)
            raise WrongContentError(f"must be a {names}; got {_kind(value)}")
        for symbol, size in self.sizes.items():
            if not bind(sizes, symbol, size(value)):
                raise WrongContentError(f"has {symbol} = {size(value)}, where other parts have {sizes[symbol]}")


@dataclass(frozen=True)
class Either:
    """One of two kinds of content, by whether the value is of the type of the first."""

    kind: type
    first: Content
    second: Content

    def check(self, value: Any, sizes: Sizes) -> None:
        """Raise unless the value is of its kind."""
        (self.first if type(value) is self.kind else self.second).check(value, sizes)


@dataclass(frozen=True, eq=False)
class Schema:
    """The fields of a class by name, and what must hold ``also`` for an object of which all fields are right."""

    kind: type
    fields: Mapping[str, Content]
    also: Callable[[Any], None] | None = None
    least: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def _required(self) -> frozenset[str]:
        parameters = inspect.signature(self.kind).parameters.values()
        return frozenset(each.name for each in parameters if each.default is inspect.Parameter.empty)

    def make(self, values: Mapping[str, Any]) -> Any:
        """Return the object with these fields, if they are right."""
        if not self._required <= values.keys() <= self.fields.keys():
            unknown, absent = sorted(values.keys() - self.fields.keys()), sorted(self._required - values.keys())
            raise WrongContentError(f"has no field {unknown[0]!r:.80}" if unknown else f"needs the field {absent[0]!r}")
        self._check_fields(values)
        try:
            made = self.kind(**values)
        except BDKNError as error:  # what the class itself demands
            raise WrongContentError(str(error)) from error
        if self.also is not None:
            self.also(made)
        return made

    def check(self, value: Any) -> None:
        """Raise unless the fields of an object are right."""
        self._check_fields({name: getattr(value, name) for name in self.fields})
        if self.also is not None:
            self.also(value)

    def _check_fields(self, values: Mapping[str, Any]) -> None:
        sizes: Sizes = {}
        for name, content in self.fields.items():
            if name in values:
                with_place(name, content, values[name], sizes)
        for symbol, least in self.least.items():
            if sizes.get(symbol, least) < least:
                raise WrongContentError(f"must have {symbol} >= {least}; got {sizes[symbol]}")


def with_place(place: str, content: Content, value: Any, sizes: Sizes) -> None:
    """Check a value, and name its place in the error."""
    try:
        content.check(value, sizes)
    except WrongContentError as error:
        raise WrongContentError(f"{place} {error}") from None


def bind(sizes: Sizes, symbol: str | int, size: int) -> bool:
    """Return whether a symbol stands for this size; a symbol that is new does from now on."""
    if isinstance(symbol, int):
        return size == symbol
    if symbol == "*":
        return True
    name, _, more = symbol.partition("+")
    single = size - int(more or 0)
    return sizes.setdefault(name, single) == single


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _shown(shape: tuple[str | int, ...], sizes: Sizes) -> str:
    """Return a shape as text, with what its symbols stand for."""
    known = [f"{symbol} = {sizes[symbol]}" for symbol in dict.fromkeys(shape) if symbol in sizes]
    return f"({', '.join(map(str, shape))})" + (f" with {', '.join(map(str, known))}" if known else "")
