"""Exact limits of the values in a file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest

from bdkn.errors import InvalidParameterError, ModelFileError
from bdkn.storage.archive import pack, unpack
from bdkn.storage.fields import (
    Array,
    Choice,
    Fixed,
    Items,
    Maybe,
    Number,
    Part,
    Plain,
    Sized,
    Text,
    WrongContentError,
    bind,
    flags,
    floats,
    integers,
    schema_of,
    singles,
    stored,
)


class Anything:
    def __call__(self, value: Any, sizes: dict[str, int]) -> None:
        pass


@stored
@dataclass
class Thing:
    size: Annotated[Any, Anything()] = 0
    name: str = "a"


def nested(kind: str, depth: int) -> Any:
    """Return a tree of lists, tuples, dicts or objects, nested to a depth."""
    tree: Any = 1
    for _ in range(depth):
        inside = [tree] if kind in ("list", "tuple") else {"size": tree}
        tree = {"type": "Thing", "arguments": inside} if kind == "type" else {kind: inside}
    return tree


@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "type"])
def test_values_are_at_most_101_deep(kind: str) -> None:
    unpack(nested(kind, 101), {}, "it")
    with pytest.raises(ModelFileError, match="more than 100 values are inside one another"):
        unpack(nested(kind, 102), {}, "it")


@pytest.mark.parametrize("texts", ["ab", None, 3, ["a", 1], [1, "a"], {"a": "b"}])
def test_texts_are_a_list_of_texts(texts: Any) -> None:
    with pytest.raises(ModelFileError, match="texts must be a list of texts"):
        unpack({"texts": texts}, {}, "it")


def test_errors_name_the_place() -> None:
    arrays = {"it.a.0": np.ones(1)}
    tree = {"dict": {"a": {"tuple": [{"array": "it.a.0"}]}}}
    assert unpack(tree, arrays, "it")["a"][0] == 1.0
    with pytest.raises(ModelFileError, match=r"^it\.a\.0: there is no array"):
        unpack(tree, arrays, "it")


def test_numbers_of_numpy_become_those_of_python() -> None:
    packed = pack([np.float64(0.5), np.int64(3), np.bool_(True), np.str_("a")], {}, "it")
    assert packed == {"list": [0.5, 3, True, "a"]}
    assert [type(part) for part in packed["list"]] == [float, int, bool, str]


def test_packed_values_have_these_names() -> None:
    arrays: dict[str, Any] = {}
    value = {"a": [np.ones(1), (None,)], "b": Thing(np.zeros(2)), "c": np.array(["x", 1], dtype=object)}
    assert pack(value, arrays, "it") == {
        "dict": {
            "a": {"list": [{"array": "it.a.0"}, {"tuple": [None]}]},
            "b": {"type": "Thing", "arguments": {"size": {"array": "it.b.size"}, "name": "a"}},
            "c": {"texts": ["x", "1"]},
        }
    }
    assert list(arrays) == ["it.a.0", "it.b.size"]


def wrong(content: Any, value: Any) -> bool:
    try:
        content(value, {})
    except WrongContentError:
        return True
    return False


def cases() -> list[tuple[Any, Any, Any]]:
    """Return contents, each with a valid value and a value just outside."""
    return [
        (Array((1,), ("f8",), low=1.0), np.array([1.0]), np.array([0.999])),
        (Array((1,), ("f8",), above=1.0), np.array([1.001]), np.array([1.0])),
        (Array((1,), ("f8",), low=2.0, above=1.0), np.array([2.0]), np.array([1.5])),
        (Array((1,), ("f8",), finite=False, low=0.0), np.array([math.inf]), np.array([math.nan])),
        (Array((1,), ("f8",)), np.array([-1e308]), np.array([-math.inf])),
        (Array((1,), ("i8",)), np.array([-5]), np.array([5.0])),
        (floats(1), np.array([-1e308]), np.array([math.inf])),
        (floats(1, low=1.0), np.array([1.0]), np.array([0.999])),
        (floats(1, above=1.0), np.array([1.001]), np.array([1.0])),
        (floats(1, finite=False), np.array([-math.inf]), np.array([1.0], np.float32)),
        (singles(1, above=0.0), np.array([1e-30], np.float32), np.array([0.0], np.float32)),
        (singles(1), np.array([-1.0], np.float32), np.array([math.inf], np.float32)),
        (integers(1), np.array([0]), np.array([-1])),
        (integers(1), np.array([0], np.int32), np.array([0], np.int16)),
        (integers(1, low=-1), np.array([-1]), np.array([-2])),
        (flags(1), np.array([True]), np.array([1.0])),
        (floats("n", "n+2"), np.zeros((1, 3)), np.zeros((1, 2))),
        (floats("*", 2), np.zeros((5, 2)), np.zeros((2, 5))),
        (Number(), -(2**63) + 1, -(2**63)),
        (Number(), 2**63 - 1, 2**63),
        (Number(), -1e308, -math.inf),
        (Number(low=1), 1, 0),
        (Number(high=1), 1, 2),
        (Number(above=1), 2, 1),
        (Number(above=-1.0), -0.5, -1.0),
        (Number(infinite=True), -math.inf, math.nan),
        (Number(nan=True, low=0.0), math.nan, math.inf),
        (Number(whole=True), 3, 3.0),
        (Number(), 3.0, "3"),
        (Text(), "", 3),
        (Choice(("a", "b")), "b", ""),
        (Maybe(Number()), 1, "1"),
        (Items(Number()), (), []),
        (Items(Number(), list), [1], (1,)),
        (Fixed(Number(), Text()), (1, "a"), (1,)),
        (Fixed(Number(), Text()), (1, "a"), [1, "a"]),
        (Plain(), (1, [True, None]), {"a": object}),
        (Plain(), {"a": (1,), "b": "c"}, {1, 2}),
        (Plain(single=True), "a", ("a",)),
        (Plain(single=True), None, {"a": 1}),
        (Plain(single=True), 1.5, np.float64(1.5)),
        (Part(Thing), Thing(), "Thing"),
    ]


@pytest.mark.parametrize("number", range(len(cases())))
def test_values_just_outside_are_refused(number: int) -> None:
    content, right, outside = cases()[number]
    content(right, {})
    assert wrong(content, outside)


def test_numbers_have_no_lower_bound_by_default() -> None:
    singles(1)(np.array([-3e38], np.float32), {})
    floats(1)(np.array([-1e308]), {})
    floats(1, finite=False)(np.array([-math.inf]), {})


def test_symbols() -> None:
    sizes: dict[str, int] = {}
    assert bind(sizes, "*", 7)
    assert bind(sizes, 7, 7)
    assert not bind(sizes, 7, 8)
    assert sizes == {}
    assert bind(sizes, "n+3", 5)
    assert sizes == {"n": 2}
    assert bind(sizes, "n", 2)
    assert not bind(sizes, "n", 5)
    assert sizes == {"n": 2}


def test_a_part_has_the_sizes_of_other_parts() -> None:
    part, sizes = Sized({"n": lambda thing: thing.size}, Part(Thing)), {"m": 1}
    part(Thing(3), sizes)
    assert sizes == {"m": 1, "n": 3}
    with pytest.raises(WrongContentError, match=r"^has n = 4, where other parts have 3"):
        part(Thing(4), sizes)


@pytest.mark.parametrize(("value", "text"), [(None, "nothing"), (3, "a int")])
def test_errors_name_the_type_of_the_value(value: Any, text: str) -> None:
    with pytest.raises(WrongContentError, match=f"must be a text; got {text}$"):
        Text()(value, {})


def test_errors_show_the_numbers_of_known_symbols() -> None:
    with pytest.raises(WrongContentError, match=r"must have shape \(k, n, 2\) with k = 3; got \(4, 1, 2\)$"):
        floats("k", "n", 2)(np.zeros((4, 1, 2)), {"k": 3})


@stored
@dataclass
class Made:
    first: float
    second: float = 2

    def __post_init__(self) -> None:
        if self.first == 13:
            raise InvalidParameterError("not 13")


def test_fields_may_be_absent_if_they_have_a_default_and_no_others_may() -> None:
    schema = schema_of(Made)
    assert schema.make({"first": 1}) == Made(1)
    assert schema.make({"first": 1, "second": 3}) == Made(1, 3)
    for values, text in (
        ({"second": 1}, "needs the field 'first'"),
        ({"first": 1, "third": 1}, "has no field 'third'"),
        ({"third": 1}, "has no field 'third'"),
        ({"first": 13}, "not 13"),
        ({"first": "1"}, "first must be a number"),
    ):
        with pytest.raises(WrongContentError, match=f"^{text}"):
            schema.make(values)


@stored
@dataclass
class Checked:
    size: float

    def check(self) -> None:
        if self.size == 1:
            raise WrongContentError("not 1")


def test_the_method_check_is_called_if_all_fields_are_valid() -> None:
    assert schema_of(Checked).make({"size": 2}) == Checked(2)
    with pytest.raises(WrongContentError, match=r"^not 1"):
        schema_of(Checked).make({"size": 1})
    with pytest.raises(WrongContentError, match=r"^size must be a number"):
        schema_of(Checked).make({"size": "1"})
