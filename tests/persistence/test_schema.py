import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from bdkn.errors import ModelFileError
from bdkn.persistence import pack, unpack
from bdkn.persistence.schema import (
    Array,
    Either,
    Flag,
    Items,
    Maybe,
    Number,
    Pair,
    Part,
    Plain,
    Schema,
    Text,
    WrongContentError,
    flags,
    floats,
    integers,
    must,
    singles,
)

NAN, INF = math.nan, math.inf


@dataclass
class Inner:
    mean: object
    root: object = None


@dataclass
class Outer:
    inner: object
    names: object = ()


SCHEMAS = {
    Inner: Schema(Inner, {"mean": floats("H"), "root": Maybe(floats("H", "H"))}, least={"H": 1}),
    Outer: Schema(
        Outer,
        {"inner": Part(Inner, H=lambda inner: len(inner.mean)), "names": Items(Text(), "H")},
        lambda outer: must("" not in outer.names, "no name must be empty"),
    ),
}


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
        (Text(("a", "b")), "c", "must be one of a, b; got 'c'"),
        (Text(pattern="a+"), "ab", "is not valid; got 'ab'"),
        (Maybe(Flag()), 1, "must be true or false"),
        (Items(Text()), ["a"], "must be a tuple; got a list"),
        (Items(Text(), container=list), ("a",), "must be a list; got a tuple"),
        (Items(Text(), least=2), ("a",), "must have at least 2 entries; got 1"),
        (Items(Text(), 2), ("a",), r"must have \(2\) entries; got 1"),
        (Items(Text()), ("a", 1), "entry 1 must be a text"),
        (Pair(Text(), Flag()), ("a", True, 1), "must be a pair; got a tuple"),
        (Pair(Text(), Flag()), ("a", 1), "must be true or false"),
        (Pair(Text(), Flag()), (1, True), "must be a text"),
        (Plain(), {"a": [1, ({"b": np.zeros(1)},)]}, "must be plain; got a ndarray"),
        (Plain(single=True), [1], "must be plain; got a list"),
        (Part(Inner), Outer(1), "must be a Inner; got a Outer"),
        (Part(Inner, Outer), 3, "must be a Inner or Outer; got a int"),
        (Either(str, Text(("a",)), Flag()), "b", "must be one of a"),
        (Either(str, Text(("a",)), Flag()), 1, "must be true or false"),
    ],
)
def test_what_is_wrong_is_said(content, value, text):
    with pytest.raises(WrongContentError, match=f"^{text}"):
        content.check(value, {})


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
        (Either(str, Text(("a",)), Flag()), "a"),
        (Either(str, Text(("a",)), Flag()), False),
    ],
)
def test_what_is_right_passes(content, value):
    content.check(value, {})


def test_a_symbol_means_the_same_in_all_fields():
    sizes = {}
    floats("n", "H").check(np.zeros((4, 2)), sizes)
    assert sizes == {"n": 4, "H": 2}
    floats("H").check(np.zeros(2), sizes)
    with pytest.raises(WrongContentError, match=r"\(n\) with n = 4; got \(5,\)"):
        floats("n").check(np.zeros(5), sizes)


def there_and_back(value, change=lambda tree, arrays: None):
    arrays = {}
    tree = json.loads(json.dumps(pack(value, SCHEMAS, arrays, "value")))
    change(tree, arrays)
    return unpack(tree, SCHEMAS, arrays, schemas=SCHEMAS, name="value")


GOOD = Outer(Inner(np.zeros(2), np.eye(2)), ("a", "b"))


def test_objects_that_are_right_are_made():
    back = there_and_back(GOOD)
    assert type(back) is Outer
    assert back.names == ("a", "b")
    np.testing.assert_array_equal(back.inner.root, np.eye(2))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Outer(Inner(np.zeros(2), np.eye(3)), ("a", "b")), r"value\.inner: Inner: root must have shape"),
        (Outer(Inner(np.zeros(0)), ()), r"value\.inner: Inner: must have H >= 1; got 0"),
        (Outer(Inner(np.zeros(2)), ("a",)), r"value: Outer: names must have \(H\) with H = 2 entries; got 1"),
        (Outer(GOOD, ()), r"value: Outer: inner must be a Inner; got a Outer"),
        (Outer(Inner(np.zeros(2)), ("a", "")), r"value: Outer: no name must be empty"),
    ],
)
def test_objects_that_are_wrong_are_refused(value, text):
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
def test_trees_that_are_wrong_are_refused(change, text):
    with pytest.raises(ModelFileError, match=f"^{text}"):
        there_and_back(GOOD, change)


def test_a_field_under_its_former_and_its_new_name_is_refused():
    tree = {"type": "Inner", "arguments": {"mean": None, "centre": None}}
    with pytest.raises(ModelFileError, match="a field of Inner is there twice"):
        unpack(tree, (Inner,), {}, {"Inner": ("Inner", {"centre": "mean"})}, schemas=SCHEMAS)


def test_arrays_are_taken_out_when_places_are_known():
    arrays = {"value": np.zeros(1), "more": np.zeros(1)}
    unpack({"array": "value"}, (), arrays, name="value")
    assert list(arrays) == ["more"]


def test_an_object_that_exists_is_checked():
    SCHEMAS[Inner].check(GOOD.inner)
    with pytest.raises(WrongContentError, match="root must have shape"):
        SCHEMAS[Inner].check(Inner(np.zeros(2), np.eye(3)))
