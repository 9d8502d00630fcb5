import json
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from bdkn.errors import InvalidParameterError, ModelFileError
from bdkn.storage.archive import pack, unpack
from bdkn.storage.fields import (
    STORED,
    Array,
    Choice,
    Either,
    Entropy,
    Fixed,
    Flag,
    Items,
    Maybe,
    Named,
    Number,
    Part,
    Plain,
    Positive,
    Sized,
    Text,
    WrongContentError,
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
class Inner:
    mean: Annotated[FloatArray, floats("H")]
    root: Annotated[FloatArray | None, floats("H", "H")] = None


@stored
@dataclass(frozen=True, eq=False)
class Outer:
    inner: Annotated[Inner, sizes(H="mean.size")]
    names: Annotated[tuple[str, ...], sizes(H=len)] = ()

    def check(self):
        must("" not in self.names, "no name must be empty")
        if "library" in self.names:
            raise InvalidParameterError("no name must be that of a library")


@pytest.mark.parametrize(
    ("content", "value", "text"),
    [
        (floats(2), [1.0, 2.0], "must be an array; got a list"),
        (floats(2), np.zeros(2, np.float32), "must be an array of f8; got float32"),
        (floats(2), np.zeros(3), r"must have shape \(2\); got \(3,\)"),
        (floats("H", "H"), np.zeros((2, 3)), r"must have shape \(H, H\) with H = 2; got \(2, 3\)"),
        (floats("H", "H+1"), np.zeros((2, 2)), r"must have shape \(H, H\+1\) with H = 2; got \(2, 2\)"),
        (floats(2), np.zeros((2, 1)), "must have shape"),
        (floats(2), np.array([1.0, NAN]), "must hold finite numbers; got NaN or infinity"),
        (floats(2), np.array([1.0, INF]), "must hold finite numbers"),
        (floats(2, low=0.0), np.array([1.0, -1.0]), "must not hold numbers below 0; got -1.0"),
        (floats(2, above=0.0), np.array([1.0, 0.0]), "must not hold numbers below 0; got 0.0"),
        (integers(2), np.array([0.0, 1.0]), "must be an array of i8 or i4"),
        (integers(2), np.array([0, -1]), "must not hold numbers below 0; got -1"),
        (flags(1), np.array([1]), "must be an array of b1"),
        (singles(1), np.array([1.0]), "must be an array of f4"),
        (Number(), "1", "must be a number; got a str"),
        (Number(), True, "must be a number; got a bool"),
        (Number(whole=True), 1.0, "must be a whole number; got a float"),
        (Number(), NAN, "must be a number; got NaN"),
        (Number(), INF, "must be finite; got infinity"),
        (Number(), 2**63, "must be below"),
        (Number(), -(10**400), "must be below"),
        (Number(low=1, high=2), 3, "must be from 1 to 2; got 3"),
        (Number(low=1, high=2), 0.5, "must be from 1 to 2; got 0.5"),
        (Number(above=0.0), 0.0, "must be from 0 to inf; got 0.0"),
        (Number(low=0.0, infinite=True), -INF, "must be from 0 to inf; got -inf"),
        (Flag(), 1, "must be true or false; got a int"),
        (Text(), None, "must be a text; got nothing"),
        (Choice(("a", "b")), "c", "must be one of a, b; got 'c'"),
        (Choice((0,)), False, "must be one of 0; got False"),
        (Choice((0,)), 0.0, "must be one of 0; got 0.0"),
        (Maybe(Flag()), 1, "must be true or false"),
        (Items(Text()), ["a"], "must be a tuple; got a list"),
        (Items(Text(), list), ("a",), "must be a list; got a tuple"),
        (Sized({"n": len}, Items(Text())), ["a"], "must be a tuple"),
        (Items(Text()), ("a", 1), "entry 1 must be a text"),
        (Fixed(Text(), Flag()), ("a", True, 1), "must be a tuple of 2; got a tuple"),
        (Fixed(), ("a",), "must be a tuple of 0; got a tuple"),
        (Fixed(Text(), Flag()), ("a", 1), "must be true or false"),
        (Fixed(Text(), Flag()), (1, True), "must be a text"),
        (Plain(), {"a": [1, ({"b": np.zeros(1)},)]}, "must be plain; got a ndarray"),
        (Plain(single=True), [1], "must be plain; got a list"),
        (Named(), [1], "must have names and values; got a list"),
        (Named(Plain()), {"a": np.zeros(1)}, "must be plain; got a ndarray"),
        (Entropy(), -1, "must be None or numbers >= 0"),
        (Entropy(), [1, 2.0], "must be None or numbers >= 0"),
        (Entropy(), 2**1024, "must be None or numbers >= 0"),
        (floats(..., types=("f4", "f8")), np.zeros(2, np.int64), "must be an array of f4 or f8; got int64"),
        (floats(...), np.array([[NAN]]), "must hold finite numbers"),
        (Part(Inner), Outer(None), "must be a Inner; got a Outer"),
        (Part(Inner, "Outer"), 3, "must be a Inner or Outer; got a int"),
        (Either(str, Choice(("a",)), Flag()), "b", "must be one of a"),
        (Either(str, Choice(("a",)), Flag()), 1, "must be true or false"),
    ],
)
def test_invalid_values_are_refused(content, value, text):
    with pytest.raises(WrongContentError, match=f"^{text}"):
        content(value, {})


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (floats("H", "H+1"), np.zeros((2, 3))),
        (floats("*", low=0.0), np.zeros(0)),
        (floats(2, finite=False), np.array([NAN, INF])),
        (floats(2, finite=False, low=0.0), np.array([0.0, INF])),
        (Array((), ("f8",)), np.array(3.0)),
        (Number(nan=True), NAN),
        (Number(low=0.0, infinite=True), INF),
        (Number(low=0.0), 0),
        (Number(high=2.0), 2.0),
        (Number(), 2**63 - 1),
        (Maybe(Flag()), None),
        (Items(Text()), ()),
        (Plain(), {"a": [1, (None, True, 2.0, "b")]}),
        (Named(), {"a": object()}),
        (Entropy(), None),
        (Entropy(), (0, 2**1024 - 1)),
        (floats(...), np.zeros((1, 2, 3))),
        (floats(...), np.array(1.0)),
        (Fixed(), ()),
        (Choice(("a", 0)), 0),
        (Either(str, Choice(("a",)), Flag()), "a"),
        (Either(str, Choice(("a",)), Flag()), False),
    ],
)
def test_valid_values_are_accepted(content, value):
    content(value, {})


def test_a_symbol_means_the_same_in_all_fields():
    sizes = {}
    floats("n", "H")(np.zeros((4, 2)), sizes)
    assert sizes == {"n": 4, "H": 2}
    floats("H")(np.zeros(2), sizes)
    with pytest.raises(WrongContentError, match=r"\(n\) with n = 4; got \(5,\)"):
        floats("n")(np.zeros(5), sizes)


def there_and_back(value, change=lambda tree, arrays: None):
    arrays = {}
    tree = json.loads(json.dumps(pack(value, arrays, "value")))
    change(tree, arrays)
    return unpack(tree, arrays, "value")


GOOD = Outer(Inner(np.zeros(2), np.eye(2)), ("a", "b"))


def test_valid_objects_are_created():
    back = there_and_back(GOOD)
    assert type(back) is Outer
    assert back.names == ("a", "b")
    np.testing.assert_array_equal(back.inner.root, np.eye(2))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Outer(Inner(np.zeros(2), np.eye(3)), ("a", "b")), r"value\.inner: Inner: root must have shape"),
        (Outer(Inner(np.zeros(0)), ()), r"value\.inner: Inner: must have H >= 1; got 0"),
        (Outer(Inner(np.zeros(2)), ("a",)), r"value: Outer: names has H = 1, where other parts have 2"),
        (Outer(GOOD, ()), r"value: Outer: inner must be a Inner; got a Outer"),
        (Outer(Inner(np.zeros(2)), ("a", "")), r"value: Outer: no name must be empty"),
        (Outer(Inner(np.zeros(2)), ("a", "library")), r"value: Outer: no name must be that of a library"),
    ],
)
def test_invalid_objects_are_refused(value, text):
    with pytest.raises(ModelFileError, match=f"^{text}"):
        there_and_back(value)


def set_in(*path, to):
    def change(tree, arrays):
        at = tree
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = to

    return change


def nested(depth):
    tree = None
    for _ in range(depth):
        tree = {"list": [tree]}
    return tree


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (set_in("arguments", "more", to=1), r"value: Outer: has no field 'more'"),
        (lambda tree, _: tree["arguments"].pop("inner"), r"value: Outer: needs the field 'inner'"),
        (set_in("type", to="Other"), r"value: there is no class 'Other'"),
        (set_in("type", to=[1]), r"value: the name of a class must be a text"),
        (set_in("more", to=1), r"value: a value of an unknown kind, 'type', 'arguments', 'more'"),
        (set_in("arguments", to=[]), r"value: a list stands where fields should be"),
        (set_in("arguments", "inner", to=[1]), r"value\.inner: a list stands where a value should be"),
        (set_in("arguments", "inner", to={}), r"value\.inner: a value of an unknown kind"),
        (set_in("arguments", "inner", to={"set": []}), r"value\.inner: a value of an unknown kind, 'set'"),
        (set_in("arguments", "names", to={"tuple": 3}), r"value\.names: a int stands where a list should be"),
        (set_in("arguments", "names", to={"texts": [1]}), r"value\.names: texts must be a list of texts"),
        (set_in("arguments", "names", to={"dict": []}), r"value\.names: a list stands where fields should be"),
        (set_in("arguments", "names", to={"array": "a"}), r"value\.names: there is no array 'a'"),
        (set_in("arguments", "names", to={"array": ["a"]}), r"value\.names: there is no array"),
        (
            set_in("arguments", "inner", "arguments", "mean", to={"array": "value.inner.root"}),
            r"value\.inner\.mean: the array 'value\.inner\.root' belongs elsewhere",
        ),
        (set_in("arguments", "names", to=nested(200)), r"value\.names.*more than 100 values are inside one another"),
    ],
)
def test_invalid_trees_are_refused(change, text):
    with pytest.raises(ModelFileError, match=f"^{text}"):
        there_and_back(GOOD, change)


def test_arrays_are_taken_out():
    arrays = {"value": np.zeros(1), "more": np.zeros(1)}
    unpack({"array": "value"}, arrays, "value")
    assert list(arrays) == ["more"]


class Base:
    pass


@stored
@dataclass
class First(Base):
    size: Positive = 1.0


@stored(may_be_empty=("n",))
@dataclass
class Second(Base):
    numbers: Annotated[FloatArray, floats("n", "k")]


@pytest.mark.parametrize(
    ("hint", "right", "wrong", "text"),
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
        (Inner | Outer, Inner(np.ones(1)), First(), "must be a Inner or Outer; got a First"),
        (Base, First(), Inner(np.ones(1)), "must be a First or Second; got a Inner"),
        (Base | None, None, 1, "must be a First or Second; got a int"),
        (First, First(), Second(np.ones((1, 1))), "must be a First; got a Second"),
        (Annotated[int, Number(low=2)], 2, 2.5, "must be a whole number"),
        (Annotated[int, Number(low=2)], 2, 1, "must be from 2 to inf"),
        (Annotated[int | None, Number(low=2)], None, 3.0, "must be a whole number"),
        (Annotated[Any, Part("Inner")], Inner(np.ones(1)), 1, "must be a Inner"),
        (Annotated[Inner | None, sizes(H="mean.size")], None, 1, "must be a Inner; got a int"),
        (
            tuple[Annotated[Inner, sizes(H="mean.size")], ...],
            (),
            (Inner(np.ones(1)), Inner(np.ones(2))),
            "entry 1 has H = 2",
        ),
    ],
)
def test_annotations_declare_contents(hint, right, wrong, text):
    content = content_of(hint)
    content(right, {})
    with pytest.raises(WrongContentError, match=f"^{text}"):
        content(wrong, {})


@pytest.mark.parametrize("hint", [FloatArray, Any, dict[str, int], object(), int | str, str | Inner])
def test_incomplete_annotations_are_refused(hint):
    with pytest.raises(TypeError, match="must be"):
        content_of(hint)


@stored
@dataclass
class Vague:
    numbers: FloatArray


def test_the_field_that_cannot_be_stored_is_named():
    with pytest.raises(TypeError, match=r"^Vague\.numbers cannot be stored: .*must be annotated with its content"):
        schema_of(Vague)


def test_symbols_stand_for_at_least_one_unless_they_may_be_empty():
    assert schema_of(Second).make({"numbers": np.zeros((0, 1))}).numbers.shape == (0, 1)
    with pytest.raises(WrongContentError, match=r"^must have k >= 1; got 0"):
        schema_of(Second).make({"numbers": np.zeros((1, 0))})


def test_names_of_stored_classes_are_unique_and_a_class_may_be_defined_again():
    class Other:
        pass

    Other.__name__ = "Inner"
    with pytest.raises(TypeError, match="a class named Inner is stored already, that of"):
        stored(Other)
    assert stored(Inner) is Inner is STORED["Inner"]
    assert "Other" not in STORED
