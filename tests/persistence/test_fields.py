"""Contents of stored fields: for each one, valid values and values just outside; and the schemas of classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest

from bdkn.errors import InvalidParameterError
from bdkn.storage.fields import (
    STORED,
    Array,
    Choice,
    Either,
    Entropy,
    Fixed,
    Flag,
    Instance,
    Items,
    Maybe,
    Named,
    Number,
    Plain,
    Positive,
    Sized,
    Text,
    WrongContentError,
    bind,
    content_of,
    flags,
    floats,
    integers,
    must,
    schema_of,
    singles,
    sizes,
    stored,
)
from bdkn.typing import FloatArray

NAN, INF = math.nan, math.inf


@stored
@dataclass(frozen=True, eq=False)
class Mean:
    mean: Annotated[FloatArray, floats("H")]


class Base:
    pass


@stored
@dataclass
class First(Base):
    size: Positive = 1.0


@stored
@dataclass
class Second(Base):
    numbers: Annotated[FloatArray, floats("n", "k")]
    may_be_empty: ClassVar = ("n",)


@stored
@dataclass
class Vague:
    numbers: FloatArray


@stored
@dataclass
class Checked:
    first: float
    second: float = 2

    def __post_init__(self) -> None:
        if self.first == 13:
            raise InvalidParameterError("not 13")

    def check(self) -> None:
        must(self.first != 1, "not 1")


def array(*values: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


TEXT_OR_FLAG = Either(str, Choice(("a",)), Flag())


@pytest.mark.parametrize(
    ("content", "valid", "invalid", "message"),
    [
        (floats(2), array(-1e308, 0.0), [1.0, 2.0], "must be an array; got a list"),
        (floats(2), array(1.0, 2.0), array(1, 2, dtype="f4"), "must be an array of f8; got float32"),
        (floats(2), np.zeros(2), np.zeros(3), r"must have shape \(2\); got \(3,\)"),
        (floats(2), np.zeros(2), np.zeros((2, 1)), "must have shape"),
        (floats("H", "H"), np.eye(2), np.zeros((2, 3)), r"must have shape \(H, H\) with H = 2; got \(2, 3\)"),
        (floats("H", "H+1"), np.zeros((2, 3)), np.zeros((2, 2)), r"must have shape \(H, H\+1\) with H = 2; got"),
        (floats("n", "n+2"), np.zeros((1, 3)), np.zeros((1, 2)), "must have shape"),
        (floats("*", 2), np.zeros((5, 2)), np.zeros((2, 5)), "must have shape"),
        (floats(2), array(1.0, -1e308), array(1.0, NAN), "must hold finite numbers; got NaN or infinity"),
        (Array((1,), ("f8",)), array(-1e308), array(-INF), "must hold finite numbers"),
        (floats("*", low=0.0), np.zeros(0), array(1.0, -1.0), "must not hold numbers below 0; got -1.0"),
        (floats(1, low=1.0), array(1.0), array(0.999), "must not hold numbers below 1"),
        (floats(1, above=1.0), array(1.001), array(1.0), "must not hold numbers below 1; got 1.0"),
        (Array((1,), ("f8",), low=2.0, above=1.0), array(2.0), array(1.5), "must not hold numbers below 2"),
        (floats(2, finite=False), array(NAN, -INF), array(1.0, dtype="f4"), "must be an array of f8"),
        (floats(2, finite=False, low=0.0), array(0.0, INF), array(0.0, NAN), "must not hold numbers below 0; got nan"),
        (Array((), ("f8",)), array(3.0).reshape(()), array(3.0), "must have shape"),
        (floats(..., types=("f4", "f8")), np.array(1.0), array(1), "must be an array of f4 or f8; got int64"),
        (floats(...), np.zeros((1, 2, 3)), np.array([[NAN]]), "must hold finite numbers"),
        (singles(1), array(-3e38, dtype="f4"), array(INF, dtype="f4"), "must hold finite numbers"),
        (singles(1), array(1.0, dtype="f4"), array(1.0), "must be an array of f4"),
        (singles(1, above=0.0), array(1e-30, dtype="f4"), array(0, dtype="f4"), "must not hold numbers below 0"),
        (integers(2), array(0, 1), array(0.0, 1.0), "must be an array of i8 or i4"),
        (integers(1), array(0, dtype="i4"), array(0, dtype="i2"), "must be an array of i8 or i4"),
        (integers(2), array(0, 1), array(0, -1), "must not hold numbers below 0; got -1"),
        (integers(1, low=-1), array(-1), array(-2), "must not hold numbers below -1"),
        (Array((1,), ("i8",)), array(-5), array(5.0), "must be an array of i8"),
        (flags(1), array(True), array(1), "must be an array of b1"),
        (Number(), 3.0, "1", "must be a number; got a str"),
        (Number(), 3, True, "must be a number; got a bool"),
        (Number(whole=True), 3, 3.0, "must be a whole number; got a float"),
        (Number(), 1e308, NAN, "must be a number; got NaN"),
        (Number(), -1e308, -INF, "must be finite; got infinity"),
        (Number(), 2**63 - 1, 2**63, "must be below"),
        (Number(), -(2**63) + 1, -(2**63), "must be below"),
        (Number(), 0, -(10**400), "must be below"),
        (Number(low=1, high=2), 1, 0.5, "must be from 1 to 2; got 0.5"),
        (Number(low=1, high=2), 2.0, 3, "must be from 1 to 2; got 3"),
        (Number(above=0.0), 1, 0.0, "must be from 0 to inf; got 0.0"),
        (Number(above=-1.0), -0.5, -1.0, "must be from -1 to inf"),
        (Number(infinite=True), -INF, NAN, "must be a number; got NaN"),
        (Number(low=0.0, infinite=True), INF, -INF, "must be from 0 to inf; got -inf"),
        (Number(nan=True, low=0.0), NAN, INF, "must be finite"),
        (Flag(), False, 1, "must be true or false; got a int"),
        (Text(), "", None, "must be a text; got nothing$"),
        (Text(), "a", 3, "must be a text; got a int$"),
        (Choice(("a", "b")), "b", "c", "must be one of a, b; got 'c'"),
        (Choice(("a", 0)), 0, False, "must be one of a, 0; got False"),
        (Choice((0,)), 0, 0.0, "must be one of 0; got 0.0"),
        (Maybe(Flag()), None, 1, "must be true or false"),
        (Maybe(Number()), 1, "1", "must be a number"),
        (Items(Text()), (), ["a"], "must be a tuple; got a list"),
        (Items(Text(), list), ["a"], ("a",), "must be a list; got a tuple"),
        (Items(Text()), ("a", "b"), ("a", 1), "entry 1 must be a text"),
        (Sized({"n": len}, Items(Text())), ("a",), ["a"], "must be a tuple"),
        (Fixed(), (), ("a",), "must be a tuple of 0; got a tuple"),
        (Fixed(Text(), Flag()), ("a", True), ("a", True, 1), "must be a tuple of 2; got a tuple"),
        (Fixed(Text(), Flag()), ("a", False), ["a", False], "must be a tuple of 2; got a list"),
        (Fixed(Text(), Flag()), ("", True), ("a", 1), "must be true or false"),
        (Fixed(Text(), Flag()), ("b", True), (1, True), "must be a text"),
        (Plain(), {"a": [1, (None, True, 2.0, "b")]}, {"a": [1, ({"b": np.zeros(1)},)]}, "must be plain; got a nd"),
        (Plain(), (1, [True, None]), {1, 2}, "must be plain; got a set"),
        (Plain(single=True), None, [1], "must be plain; got a list"),
        (Plain(single=True), "a", ("a",), "must be plain; got a tuple"),
        (Plain(single=True), 1.5, {"a": 1}, "must be plain; got a dict"),
        (Plain(single=True), True, np.float64(1.5), "must be plain; got a float64"),
        (Named(), {"a": object()}, [1], "must have names and values; got a list"),
        (Named(Plain()), {"a": 1}, {"a": np.zeros(1)}, "must be plain; got a ndarray"),
        (Entropy(), None, -1, "must be None or numbers >= 0"),
        (Entropy(), (0, 2**1024 - 1), [1, 2.0], "must be None or numbers >= 0"),
        (Entropy(), 0, 2**1024, "must be None or numbers >= 0"),
        (Instance(First), First(), Mean(np.ones(1)), "must be a First; got a Mean"),
        (Instance(First, "Mean"), Mean(np.ones(1)), 3, "must be a First or Mean; got a int"),
        (Instance(First), First(), "First", "must be a First; got a str"),
        (TEXT_OR_FLAG, "a", "b", "must be one of a"),
        (TEXT_OR_FLAG, False, 1, "must be true or false"),
    ],
)
def test_contents_accept_valid_values_and_refuse_others(content: Any, valid: Any, invalid: Any, message: str) -> None:
    content(valid, {})
    with pytest.raises(WrongContentError, match=f"^{message}"):
        content(invalid, {})


@pytest.mark.parametrize(
    ("hint", "valid", "invalid", "message"),
    [
        (int, 1, 1.0, "must be a whole number"),
        (float, 1.5, INF, "must be finite"),
        (str, "a", 1, "must be a text"),
        (bool, True, 1, "must be true or false"),
        (Literal["a", 0], 0, "b", "must be one of a, 0"),
        (tuple[int, ...], (1, 2), (1, "a"), "entry 1 must be a whole number"),
        (tuple[int, str], (1, "a"), (1,), "must be a tuple of 2"),
        (tuple[()], (), (1,), "must be a tuple of 0"),
        (list[str], ["a"], ("a",), "must be a list"),
        (int | None, None, "a", "must be a whole number"),
        (tuple[str, ...] | None, None, [], "must be a tuple"),
        (Mean | Second, Mean(np.ones(1)), First(), "must be a Mean or Second; got a First"),
        (Base, First(), Mean(np.ones(1)), "must be a First or Second; got a Mean"),
        (Base | None, None, 1, "must be a First or Second; got a int"),
        (First, First(), Second(np.ones((1, 1))), "must be a First; got a Second"),
        (Annotated[int, Number(low=2)], 2, 2.5, "must be a whole number"),
        (Annotated[int, Number(low=2)], 2, 1, "must be from 2 to inf"),
        (Annotated[int | None, Number(low=2)], None, 3.0, "must be a whole number"),
        (Annotated[Any, Instance("Mean")], Mean(np.ones(1)), 1, "must be a Mean"),
        (Annotated[Mean | None, sizes(H="mean.size")], None, 1, "must be a Mean; got a int"),
        (
            tuple[Annotated[Mean, sizes(H="mean.size")], ...],
            (),
            (Mean(np.ones(1)), Mean(np.ones(2))),
            "entry 1 has H = 2, where other parts have 1",
        ),
    ],
)
def test_annotations_declare_contents(hint: Any, valid: Any, invalid: Any, message: str) -> None:
    content = content_of(hint)
    content(valid, {})
    with pytest.raises(WrongContentError, match=f"^{message}"):
        content(invalid, {})


@pytest.mark.parametrize("hint", [FloatArray, Any, dict[str, int], object(), int | str, str | Mean])
def test_incomplete_annotations_are_refused(hint: Any) -> None:
    with pytest.raises(TypeError, match="must be"):
        content_of(hint)


def test_a_field_that_cannot_be_stored_is_named() -> None:
    with pytest.raises(TypeError, match=r"^Vague\.numbers cannot be stored: .*must be annotated with its content"):
        schema_of(Vague)


def test_symbols_stand_for_sizes() -> None:
    known: dict[str, int] = {}
    assert bind(known, "*", 7)
    assert bind(known, 7, 7)
    assert not bind(known, 7, 8)
    assert known == {}
    assert bind(known, "n+3", 5)
    assert known == {"n": 2}
    assert bind(known, "n", 2)
    assert not bind(known, "n", 5)
    assert known == {"n": 2}


def test_a_symbol_stands_for_the_same_size_in_all_fields() -> None:
    known: dict[str, int] = {}
    floats("n", "H")(np.zeros((4, 2)), known)
    assert known == {"n": 4, "H": 2}
    floats("H")(np.zeros(2), known)
    with pytest.raises(WrongContentError, match=r"must have shape \(n, k, 2\) with n = 4; got \(5, 1, 2\)$"):
        floats("n", "k", 2)(np.zeros((5, 1, 2)), known)
    part: Sized = Sized({"n": lambda value: value.size}, Instance(First))
    part(First(4), known)
    with pytest.raises(WrongContentError, match=r"^has n = 3, where other parts have 4"):
        part(First(3), known)


def test_symbols_stand_for_at_least_one_unless_they_may_be_empty() -> None:
    assert schema_of(Second).make({"numbers": np.zeros((0, 1))}).numbers.shape == (0, 1)
    with pytest.raises(WrongContentError, match=r"^must have k >= 1; got 0"):
        schema_of(Second).make({"numbers": np.zeros((1, 0))})


def test_names_of_stored_classes_are_unique_and_a_class_may_be_defined_again() -> None:
    class Other:
        pass

    Other.__name__ = "Mean"
    with pytest.raises(TypeError, match="a class named Mean is stored already, that of"):
        stored(Other)
    assert stored(Mean) is Mean is STORED["Mean"]
    assert "Other" not in STORED


def test_objects_are_created_from_valid_fields_only() -> None:
    schema = schema_of(Checked)
    assert schema.make({"first": 2}) == Checked(2)
    assert schema.make({"first": 2, "second": 3}) == Checked(2, 3)
    for values, message in (
        ({"second": 1}, "needs the field 'first'"),
        ({"first": 2, "third": 1}, "has no field 'third'"),
        ({"third": 1}, "has no field 'third'"),
        ({"first": 13}, "not 13"),
        ({"first": 1}, "not 1"),
        ({"first": "1"}, "first must be a number"),
    ):
        with pytest.raises(WrongContentError, match=f"^{message}"):
            schema.make(values)
