"""The exact limits of values in a file, and of what their schemas allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from bdkn.errors import InvalidParameterError, ModelFileError
from bdkn.persistence import pack, unpack
from bdkn.persistence.schema import (
    Array,
    Items,
    Maybe,
    Number,
    Pair,
    Part,
    Plain,
    Schema,
    Text,
    WrongContentError,
    bind,
    flags,
    floats,
    integers,
    singles,
)


@dataclass
class Thing:
    size: Any = 0
    name: Any = "a"


def nested(kind: str, depth: int) -> Any:
    """Return a tree of so many lists, tuples, dicts or objects inside one another."""
    tree: Any = 1
    for _ in range(depth):
        inside = [tree] if kind in ("list", "tuple") else {"size": tree}
        tree = {"type": "Thing", "arguments": inside} if kind == "type" else {kind: inside}
    return tree


@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "type"])
def test_values_are_at_most_101_deep(kind: str) -> None:
    unpack(nested(kind, 101), (Thing,), {})
    with pytest.raises(ModelFileError, match="more than 100 values are inside one another"):
        unpack(nested(kind, 102), (Thing,), {})


@pytest.mark.parametrize("texts", ["ab", None, 3, ["a", 1], [1, "a"], {"a": "b"}])
def test_texts_are_a_list_of_texts(texts: Any) -> None:
    with pytest.raises(ModelFileError, match="texts must be a list of texts"):
        unpack({"texts": texts}, (), {})


def test_names_of_earlier_versions_are_read() -> None:
    former = {"Object": ("Thing", {"length": "size"})}
    tree = {"type": "Object", "arguments": {"length": 3, "name": "b"}}
    assert unpack(tree, (Thing,), {}, former) == Thing(3, "b")
    assert unpack({"type": "Thing", "arguments": {"size": 4}}, (Thing,), {}, former) == Thing(4)
    with pytest.raises(ModelFileError, match=r"^there is no class 'Object'"):
        unpack(tree, (Thing,), {})


def test_without_a_name_arrays_stay_where_they_are_and_errors_name_no_place() -> None:
    arrays = {"a": np.ones(1)}
    assert unpack({"list": [{"array": "a"}, {"array": "a"}]}, (), arrays) == [arrays["a"], arrays["a"]]
    assert list(arrays) == ["a"]
    with pytest.raises(ModelFileError, match=r"^there is no array 'b'"):
        unpack({"list": [{"array": "b"}]}, (), arrays)


def test_places_are_told() -> None:
    arrays = {"it.a.0": np.ones(1)}
    tree = {"dict": {"a": {"tuple": [{"array": "it.a.0"}]}}}
    assert unpack(tree, (), arrays, name="it")["a"][0] == 1.0
    with pytest.raises(ModelFileError, match=r"^it\.a\.0: there is no array"):
        unpack(tree, (), arrays, name="it")


def test_objects_with_a_schema_are_checked_without_one_made() -> None:
    schemas = {Thing: Schema(Thing, {"size": Number(whole=True), "name": Text()})}
    tree = {"type": "Thing", "arguments": {"size": 1.5}}
    assert unpack(tree, (Thing,), {}) == Thing(1.5)
    with pytest.raises(ModelFileError, match=r"^Thing: size must be a whole number; got a float"):
        unpack(tree, (Thing,), {}, schemas=schemas)


def test_numbers_of_numpy_become_those_of_python() -> None:
    packed = pack([np.float64(0.5), np.int64(3), np.bool_(True), np.str_("a")], (), {}, "it")
    assert packed == {"list": [0.5, 3, True, "a"]}
    assert [type(part) for part in packed["list"]] == [float, int, bool, str]


def test_packed_values_have_these_names() -> None:
    arrays: dict[str, Any] = {}
    value = {"a": [np.ones(1), (None,)], "b": Thing(np.zeros(2)), "c": np.array(["x", 1], dtype=object)}
    assert pack(value, (Thing,), arrays, "it") == {
        "dict": {
            "a": {"list": [{"array": "it.a.0"}, {"tuple": [None]}]},
            "b": {"type": "Thing", "arguments": {"size": {"array": "it.b.size"}, "name": "a"}},
            "c": {"texts": ["x", "1"]},
        }
    }
    assert list(arrays) == ["it.a.0", "it.b.size"]


def wrong(content: Any, value: Any) -> bool:
    try:
        content.check(value, {})
    except WrongContentError:
        return True
    return False


def cases() -> list[tuple[Any, Any, Any]]:
    """Return kinds of content, each with a value that is right and one that is one step further."""
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
        (Text(("a", "b")), "b", ""),
        (Text(pattern="a|b"), "b", ""),
        (Text(("a", "b"), "a"), "a", "b"),
        (Maybe(Number()), 1, "1"),
        (Items(Number()), (), []),
        (Items(Number(), least=1), (1,), ()),
        (Items(Number(), 2), (1, 2), (1, 2, 3)),
        (Items(Number(), "n+1", container=list), [1], (1,)),
        (Pair(Number(), Text()), (1, "a"), (1,)),
        (Pair(Number(), Text()), (1, "a"), [1, "a"]),
        (Plain(), (1, [True, None]), {"a": object}),
        (Plain(), {"a": (1,), "b": "c"}, {1, 2}),
        (Plain(single=True), "a", ("a",)),
        (Plain(single=True), None, {"a": 1}),
        (Plain(single=True), 1.5, np.float64(1.5)),
        (Part(Thing), Thing(), "Thing"),
    ]


@pytest.mark.parametrize("number", range(len(cases())))
def test_one_step_further_is_wrong(number: int) -> None:
    content, right, further = cases()[number]
    content.check(right, {})
    assert wrong(content, further)


def test_single_precision_may_be_as_small_as_it_likes_if_nothing_is_said() -> None:
    singles(1).check(np.array([-3e38], np.float32), {})
    floats(1).check(np.array([-1e308]), {})
    floats(1, finite=False).check(np.array([-math.inf]), {})


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


def test_tuples_without_a_symbol_may_have_any_length() -> None:
    sizes: dict[str, int] = {}
    for value in ((), (1,), (1, 2)):
        Items(Number()).check(value, sizes)
    assert sizes == {}


def test_a_part_has_the_sizes_of_other_parts() -> None:
    part, sizes = Part(Thing, n=lambda thing: thing.size), {"m": 1}
    part.check(Thing(3), sizes)
    assert sizes == {"m": 1, "n": 3}
    with pytest.raises(WrongContentError, match=r"^has n = 4, where other parts have 3"):
        part.check(Thing(4), sizes)


@pytest.mark.parametrize(("value", "text"), [(None, "nothing"), (3, "a int")])
def test_what_was_given_is_told(value: Any, text: str) -> None:
    with pytest.raises(WrongContentError, match=f"must be a text; got {text}$"):
        Text().check(value, {})


def test_shapes_are_told_with_what_is_known() -> None:
    with pytest.raises(WrongContentError, match=r"must have shape \(k, n, 2\) with k = 3; got \(4, 1, 2\)$"):
        floats("k", "n", 2).check(np.zeros((4, 1, 2)), {"k": 3})


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, r"must have \(2\) entries"), ("n", r"must have \(n\) with n = 1 entries"), ("*", "must have at least 1")],
)
def test_numbers_of_entries_are_told(size: Any, text: str) -> None:
    content = Items(Text(), 2 if size == 0 else size, least=1)
    with pytest.raises(WrongContentError, match=text):
        content.check(() if size == "*" else ("a",) * 3, {"n": 1})


def test_fields_may_be_absent_if_they_have_a_default_and_no_others_may() -> None:
    @dataclass
    class Made:
        first: Any
        second: Any = 2

        def __post_init__(self) -> None:
            if self.first == 13:
                raise InvalidParameterError("not 13")

    schema = Schema(Made, {"first": Number(), "second": Number()}, least={"n": 1})
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


def test_an_object_has_at_least_so_many() -> None:
    schema = Schema(Thing, {"size": floats("n"), "name": Text()}, least={"n": 2, "k": 1})
    schema.check(Thing(np.zeros(2)))
    with pytest.raises(WrongContentError, match=r"^must have n >= 2; got 1"):
        schema.check(Thing(np.zeros(1)))


def test_what_must_also_hold_is_checked_of_objects_that_are_made_and_that_exist() -> None:
    seen = list[Any]()
    schema = Schema(Thing, {"size": Number(), "name": Text()}, seen.append)
    made = schema.make({"size": 1})
    schema.check(made)
    assert seen == [made, made]
    with pytest.raises(WrongContentError, match=r"^name must be a text"):
        schema.check(Thing(1, 2))
    assert len(seen) == 2
