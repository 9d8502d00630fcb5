"""Rows of Dask data frames, one partition at a time."""

import numpy as np
import pandas as pd
import pytest

from bdkn.data.dask_rows import DaskRows
from bdkn.errors import InvalidParameterError

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")

FRAME = pd.DataFrame(
    {
        "area": np.arange(10.0),
        "rent": pd.array([*range(9), 100], dtype="Int64"),
        "copies": [1, 2] * 5,
        "street": ["a", "b"] * 5,
    }
)


def test_one_partition_at_a_time_is_computed():
    computed = []

    def read(number):
        computed.append(number)
        return FRAME.iloc[2 * number : 2 * number + 2]

    source = DaskRows(dd.from_map(read, range(5), meta=FRAME.iloc[:0]), "rent", sample_weight="copies", groups="street")
    with dask.config.set(scheduler="synchronous"):
        blocks = source.blocks(2)
        block = next(blocks)
        assert computed == [0]
        assert (list(block.X.columns), block.y.tolist(), block.counts.tolist()) == (["area"], [0.0, 1.0], [1.0, 2.0])
        assert block.groups.tolist() == ["a", "b"]
        assert [len(block) for block in blocks] == [2, 2, 2, 2]
    assert computed == [0, 1, 2, 3, 4]


def test_partitions_are_delayed_rows():
    source = DaskRows(dd.from_pandas(FRAME, npartitions=3), "rent", columns=["area"], groups="street")
    parts = source.partitions()
    assert len(parts) == source.n_partitions == 3
    rows = dask.compute(*parts, scheduler="synchronous")
    assert np.array_equal(np.concatenate([part.y for part in rows]), FRAME["rent"].astype(float))
    assert [list(part.X.columns) for part in rows] == [["area"]] * 3


@pytest.mark.parametrize(
    ("change", "names", "message"),
    [
        ({}, {"target": "rnt"}, "target must be the name of a column of the frame, .*; got 'rnt'; did you mean 'rent'"),
        ({}, {"target": "street"}, "column 'street' of the frame must hold numbers; it holds str"),
        ({}, {"target": "rent", "groups": "area", "columns": ["area"]}, "'area' is named twice"),
        (
            {"rent": pd.array([None, *range(9)], dtype="Int64")},
            {"target": "rent"},
            "column 'rent' must hold a finite number for every row; row 0, in partition 0, is nan",
        ),
        (
            {"copies": [1.0] * 9 + [-3.0]},
            {"target": "rent", "sample_weight": "copies"},
            "column 'copies' must hold a finite number >= 0 .*; row 9, in partition 1, is -3.0",
        ),
    ],
)
def test_invalid_columns_and_values_are_named(change, names, message):
    frame = dd.from_pandas(FRAME.assign(**change), npartitions=2)
    with pytest.raises(InvalidParameterError, match=message):
        list(DaskRows(frame, **names).blocks(3))


def test_other_frames_are_refused():
    with pytest.raises(InvalidParameterError, match="DaskRows needs a data frame of Dask; got"):
        DaskRows(FRAME, "rent")
