"""Values as JSON and arrays: ``unpack`` returns what ``pack`` was given, and refuses everything else."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn.errors import InvalidParameterError, ModelFileError
from bdkn.storage.archive import pack, unpack
from bdkn.storage.fields import floats, must, sizes, stored
from bdkn.typing import FloatArray


@stored
@dataclass(frozen=True)
class Point:
    x: float
    y: tuple[float, ...]
    norm: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", self.x**2)


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

    def check(self) -> None:
        must("" not in self.names, "no name must be empty")
        if "library" in self.names:
            raise InvalidParameterError("no name must be that of a library")


class Anything:
    def __call__(self, value: Any, sizes: dict[str, int]) -> None:
        pass


@stored
@dataclass
class Thing:
    size: Annotated[Any, Anything()] = 0
    name: str = "a"


@dataclass(frozen=True)
class NotStored:
    x: float


VALID = Outer(Inner(np.zeros(2), np.eye(2)), ("a", "b"))


def there_and_back(value: Any, change: Any = lambda tree, arrays: None) -> Any:
    arrays: dict[str, Any] = {}
    tree = json.loads(json.dumps(pack(value, arrays, "value")))
    change(tree, arrays)
    return unpack(tree, arrays, "value")


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3) | inner.map(lambda v: (v,))
    ),
    max_leaves=10,
)


@given(TREES)
def test_plain_values_come_back_equal_and_of_the_same_type(value: Any) -> None:
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


def test_objects_come_back_from_the_arguments_of_their_constructor() -> None:
    assert there_and_back([Point(2.0, (1.0, 3.0))]) == [Point(2.0, (1.0, 3.0))]
    back = there_and_back(VALID)
    assert type(back) is Outer
    assert back.names == ("a", "b")
    np.testing.assert_array_equal(back.inner.root, np.eye(2))


def test_arrays_come_back_unchanged() -> None:
    arrays = {"a": np.arange(3, dtype=np.float32), "names": np.array(["x", "y"], dtype=object), "s": np.float64(0.1)}
    back = there_and_back(arrays)
    assert back["a"].dtype == np.float32
    np.testing.assert_array_equal(back["a"], arrays["a"])
    np.testing.assert_array_equal(back["names"], arrays["names"])
    assert back["names"].dtype == object
    assert back["s"] == 0.1


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


def test_numbers_of_numpy_become_those_of_python() -> None:
    packed = pack([np.float64(0.5), np.int64(3), np.bool_(True), np.str_("a")], {}, "it")
    assert packed == {"list": [0.5, 3, True, "a"]}
    assert [type(part) for part in packed["list"]] == [float, int, bool, str]


@pytest.mark.parametrize("value", [NotStored(1.0), object(), {1, 2}, print])
def test_other_values_are_refused_by_name(value: Any) -> None:
    with pytest.raises(ModelFileError, match=rf"model\.part is a {type(value).__name__}"):
        pack({"part": value}, {}, "model")


def test_arrays_are_removed_when_they_are_used_and_errors_name_the_place() -> None:
    arrays = {"it.a.0": np.ones(1), "more": np.zeros(1)}
    tree = {"dict": {"a": {"tuple": [{"array": "it.a.0"}]}}}
    assert unpack(tree, arrays, "it")["a"][0] == 1.0
    assert list(arrays) == ["more"]
    with pytest.raises(ModelFileError, match=r"^it\.a\.0: there is no array"):
        unpack(tree, arrays, "it")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Outer(Inner(np.zeros(2), np.eye(3)), ("a", "b")), r"value\.inner: Inner: root must have shape"),
        (Outer(Inner(np.zeros(0)), ()), r"value\.inner: Inner: must have H >= 1; got 0"),
        (Outer(Inner(np.zeros(2)), ("a",)), r"value: Outer: names has H = 1, where other parts have 2"),
        (Outer(VALID, ()), r"value: Outer: inner must be a Inner; got a Outer"),
        (Outer(Inner(np.zeros(2)), ("a", "")), r"value: Outer: no name must be empty"),
        (Outer(Inner(np.zeros(2)), ("a", "library")), r"value: Outer: no name must be that of a library"),
    ],
)
def test_invalid_objects_are_refused(value: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=f"^{message}"):
        there_and_back(value)


def set_in(*path: str, to: Any) -> Any:
    def change(tree: Any, arrays: Any) -> None:
        for key in path[:-1]:
            tree = tree[key]
        tree[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "message"),
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
        (set_in("arguments", "names", to={"dict": []}), r"value\.names: a list stands where fields should be"),
        (set_in("arguments", "names", to={"array": "a"}), r"value\.names: there is no array 'a'"),
        (set_in("arguments", "names", to={"array": ["a"]}), r"value\.names: there is no array"),
        (
            set_in("arguments", "inner", "arguments", "mean", to={"array": "value.inner.root"}),
            r"value\.inner\.mean: the array 'value\.inner\.root' belongs elsewhere",
        ),
    ],
)
def test_invalid_trees_are_refused(change: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=f"^{message}"):
        there_and_back(VALID, change)


@pytest.mark.parametrize("texts", ["ab", None, 3, ["a", 1], [1, "a"], {"a": "b"}])
def test_texts_must_be_a_list_of_texts(texts: Any) -> None:
    with pytest.raises(ModelFileError, match=r"^it: texts must be a list of texts"):
        unpack({"texts": texts}, {}, "it")


def nested(form: str, depth: int) -> Any:
    """Return a tree of lists, tuples, dicts or objects of a depth."""
    tree: Any = 1
    for _ in range(depth):
        inside = [tree] if form in ("list", "tuple") else {"size": tree}
        tree = {"type": "Thing", "arguments": inside} if form == "type" else {form: inside}
    return tree


@pytest.mark.parametrize("form", ["list", "tuple", "dict", "type"])
def test_values_are_at_most_101_deep(form: str) -> None:
    unpack(nested(form, 101), {}, "it")
    with pytest.raises(ModelFileError, match=r"^it\..*more than 100 values are inside one another"):
        unpack(nested(form, 102), {}, "it")
