import json
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdkn.errors import ModelFileError
from bdkn.storage.archive import pack, unpack
from bdkn.storage.fields import stored


@stored
@dataclass(frozen=True)
class Point:
    x: float
    y: tuple[float, ...]
    norm: float = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "norm", self.x**2)


@dataclass(frozen=True)
class Stranger:
    x: float


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3) | inner.map(lambda v: (v,))
    ),
    max_leaves=10,
)


def there_and_back(value):
    arrays = {}
    tree = json.loads(json.dumps(pack(value, arrays, "value")))
    return unpack(tree, arrays, "value")


@settings(max_examples=100, deadline=None)
@given(TREES)
def test_plain_values_come_back_equal_and_of_the_same_type(value):
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


def test_objects_come_back_from_the_arguments_they_were_made_with():
    assert there_and_back([Point(2.0, (1.0, 3.0))]) == [Point(2.0, (1.0, 3.0))]


def test_arrays_come_back_as_they_were():
    arrays = {"a": np.arange(3, dtype=np.float32), "names": np.array(["x", "y"], dtype=object), "s": np.float64(0.1)}
    back = there_and_back(arrays)
    assert back["a"].dtype == np.float32
    np.testing.assert_array_equal(back["a"], arrays["a"])
    np.testing.assert_array_equal(back["names"], arrays["names"])
    assert back["names"].dtype == object
    assert back["s"] == 0.1


def test_arrays_of_different_places_do_not_collide():
    back = there_and_back({"a": [np.zeros(1), np.ones(1)], "b": (np.full(1, 2.0),)})
    assert [float(part[0]) for part in (*back["a"], *back["b"])] == [0, 1, 2]


@pytest.mark.parametrize("value", [Stranger(1.0), object(), {1, 2}, print])
def test_anything_else_is_refused_by_name(value):
    with pytest.raises(ModelFileError, match=rf"model\.part is a {type(value).__name__}"):
        pack({"part": value}, {}, "model")
