"""Rows of iterators that can be begun anew."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bdkn.data.encoder import TableEncoder
from bdkn.data.rows import Rows
from bdkn.data.sources import IteratorRows
from bdkn.errors import InvalidParameterError

X, Y = np.arange(12.0).reshape(6, 2), np.arange(6.0)


def halves():
    yield X[:3], Y[:3]
    yield X[:0], Y[:0]  # a part without rows
    yield X[3:], Y[3:]


@pytest.mark.parametrize(
    "make", [halves, lambda: list(halves()), list(halves()), lambda: [Rows(X[:5], Y[:5]), (X[5:], Y[5:])]]
)
def test_blocks_are_independent_of_the_parts(make):
    source = IteratorRows(make)
    for _ in range(2):
        blocks = list(source.blocks(4))
        assert [block.X.tolist() for block in blocks] == [X[:4].tolist(), X[4:].tolist()]
        assert [block.y.tolist() for block in blocks] == [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0]]
    assert len(source) == 6


def test_rows_are_counted_once():
    passes = []

    def make():
        passes.append(1)
        return halves()

    source = IteratorRows(make)
    assert (len(source), len(source), len(passes)) == (6, 6, 1)


def test_a_pass_that_is_not_ended_counts_nothing():
    source = IteratorRows(halves)
    next(iter(source.blocks(1)))
    assert len(source) == 6


def test_weights_and_groups():
    source = IteratorRows(lambda: [(X, Y, None, list("aabbcc"))])
    block = next(source.blocks(4))
    assert (block.counts, block.groups.tolist()) == (None, list("aabb"))
    block = next(IteratorRows(lambda: [(X, Y, np.ones((6, 1), int))]).blocks(4))
    assert block.counts.tolist() == [1.0] * 4


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_are_joined(frame):
    parts = [(frame({"a": X[j : j + 2, 0], "b": ["x", "y"]}), Y[j : j + 2]) for j in (0, 2, 4)]
    block = next(IteratorRows(parts).blocks())
    assert isinstance(block.X, frame)
    assert (list(block.X["a"]), list(block.X["b"])) == (list(X[:, 0]), ["x", "y"] * 3)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_columns_of_joined_frames_have_a_type_that_holds_all_values(frame):
    parts = [(frame({"a": [1, 2], "b": [None, None]}), Y[:2]), (frame({"a": [0.5, 0.25], "b": ["x", "y"]}), Y[:2])]
    block = next(IteratorRows(parts).blocks())
    encoder = TableEncoder.fit(block.X)
    assert encoder.features == ("a", "b = x", "b = y", "b is missing")
    assert encoder.transform(block.X)[:, 0].tolist() == [1.0, 2.0, 0.5, 0.25]


def test_frames_of_two_libraries_cannot_be_joined():
    parts = [(pl.DataFrame({"a": [1.0]}), [1.0]), (pd.DataFrame({"a": [1.0]}), [1.0])]
    with pytest.raises(
        InvalidParameterError, match="all parts of a table must be frames of one library, with columns of the same"
    ):
        list(IteratorRows(parts).blocks())


def test_iterators_that_can_be_read_only_once_are_refused():
    with pytest.raises(InvalidParameterError, match="got a generator, which can be read only once: give the function"):
        IteratorRows(halves())
    with pytest.raises(
        InvalidParameterError, match="needs a function that returns a new iterator for each pass; got 3"
    ):
        IteratorRows(3)
    once = halves()
    source = IteratorRows(lambda: once)
    list(source.blocks())
    with pytest.raises(
        InvalidParameterError, match="every pass must read the same rows; the first had 6 rows, this one 0"
    ):
        list(source.blocks())


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "there must be at least one row; got none"),
        ([(X,)], r"must yield tuples \(X, y\), .*; got 1 values"),
        ([X], r"must yield tuples \(X, y\), .*; got array"),
        ([(X, None)], r"every block must have targets; y is None \(counted from row 0\)"),
        ([(X, Y), (X, Y[:5])], r"y must hold one value per row of X, shape \(6,\); got \(5,\) in .* with row 6"),
        ([(X, Y), (X[:, :1], Y)], "columns of the first, 2 columns without names, .*; row 6 begins one with 1 columns"),
        ([(X, Y), (X, Y, Y)], "all blocks must have weights and groups, or none; row 6 begins one that differs"),
        ([(X, Y), (X, [*"abcdef"])], r"y must hold numbers; row 0 is 'a': .* \(counted from row 6\)"),
        ([(X[0], Y[:2])], r"X must be a table, shape \(n_samples, n_features\); got shape \(2,\)"),
        (
            [(pd.DataFrame({"a": Y}), Y), (pd.DataFrame({"b": Y}), Y)],
            "the first, 'a', in this order; row 6 .* with 'b'",
        ),
    ],
)
def test_inconsistent_parts_are_refused(parts, message):
    with pytest.raises(InvalidParameterError, match=message):
        list(IteratorRows(parts).blocks(2))
