"""Text and categories of Arrow are read as those of pandas."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bdkn.data.encoder import TableEncoder
from bdkn.data.reading import read_column

GRADES = pd.Categorical(["low", "high", None, "middle"] * 3, ["low", "middle", "high"], ordered=True)


def test_the_order_of_categories_is_that_of_the_frame():
    frame = pd.DataFrame({"grade": GRADES})
    table = pa.Table.from_pandas(frame)
    halves = pa.concat_tables([table.slice(0, 5), table.slice(5)])
    expected = TableEncoder.fit(frame)
    assert "grade: number of the level" in expected.features
    for given in (table, halves):
        encoder = TableEncoder.fit(given)
        assert encoder.features == expected.features
        assert np.array_equal(encoder.transform(given), expected.transform(frame))
    assert read_column(table.slice(0, 0), "grade").levels in ((), ("low", "middle", "high"))


@pytest.mark.parametrize(
    "values", [[1, 2, None, 1], [1.5, 2.0, None, 1.5], ["a", " b ", None, ""], [True, None, False]]
)
def test_categories_of_arrow_are_read_as_those_of_pandas(values):
    column = pa.array(values)
    table = pa.table({"a": column.dictionary_encode()})
    frame = pd.DataFrame({"a": pd.Categorical(pd.Series(values, dtype=object))})
    found, expected = read_column(table, "a"), read_column(frame, "a")
    assert found.kind == expected.kind == "text"
    assert found.values.tolist() == expected.values.tolist()


def test_strings_are_read_as_objects_that_are_strings_too():
    values = ["a", " b ", "", None, "a", "  ", "1"]
    plain = read_column(pd.DataFrame({"a": pd.Series(values, dtype=object)}), "a")
    objects = pd.Series([None if value is None else np.str_(value) for value in values], dtype=object)
    other = read_column(pd.DataFrame({"a": objects}), "a")
    assert plain.kind == other.kind == "text"
    assert plain.values.tolist() == other.values.tolist() == ["a", "b", None, None, "a", None, "1"]
