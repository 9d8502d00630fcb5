"""Rows of arrays, memory maps and frames, in blocks."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bdkn.data.rows import Rows
from bdkn.data.sources import ArrayRows
from bdkn.errors import InvalidParameterError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(23, 3)).astype(np.float32), RNG.normal(size=23)
WEIGHTS, GROUPS = RNG.integers(0, 3, 23).astype(float), RNG.choice(["a", "b", "c"], 23)


@pytest.mark.parametrize("size", [None, 1, 7, 23, 100])
def test_blocks_are_the_rows_in_order_in_their_own_type(size):
    source = ArrayRows(X, Y, WEIGHTS, GROUPS)
    blocks = list(source.blocks(size))
    step = size or 1 << 16
    assert [len(block) for block in blocks] == [min(step, 23 - start) for start in range(0, 23, step)]
    assert all(block.X.dtype == np.float32 for block in blocks)
    for name, whole in (("X", X), ("y", Y), ("counts", WEIGHTS), ("groups", GROUPS)):
        assert np.array_equal(np.concatenate([getattr(block, name) for block in blocks]), whole)


def test_an_array_is_never_copied():
    block = next(iter(ArrayRows(X, Y).blocks(5)))
    assert np.shares_memory(block.X, X)
    assert np.shares_memory(block.y, Y)


def test_memory_maps_are_read_in_blocks_and_remain_valid_after_their_pages_are_released(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    source = ArrayRows(np.load(tmp_path / "X.npy", mmap_mode="r"), np.load(tmp_path / "y.npy", mmap_mode="r"))
    kept = list(source.blocks(4))
    assert np.array_equal(np.concatenate([block.X for block in kept]), X)
    assert np.array_equal(np.concatenate([block.y for block in kept]), Y)
    assert type(kept[0].X) is np.ndarray


def mapped_bytes():
    """Return the bytes of files in the memory of this process."""
    lines = [line.split() for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines()]
    return 1024 * sum(int(line[1]) for line in lines if line[0] in ("RssFile:", "RssShmem:"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read as on Linux")
def test_only_a_few_blocks_of_a_memory_map_are_in_memory(tmp_path):
    np.ones((1 << 17, 32)).tofile(tmp_path / "X.bin")  # 32 MiB
    table = np.memmap(tmp_path / "X.bin", mode="r", dtype=np.float64).reshape(-1, 32)
    before, peak, total = mapped_bytes(), 0, 0.0
    for block in ArrayRows(table, np.ones(1 << 17)).blocks(1 << 12):  # 1 MiB each
        total += block.X.sum()
        peak = max(peak, mapped_bytes() - before)
    assert total == 1 << 22
    assert peak < 1 << 23


def test_blocks_of_wide_tables_have_fewer_rows():
    source = ArrayRows(np.zeros((20_000, 400), np.int8), np.zeros(20_000))
    assert [len(block) for block in source.blocks()] == [(1 << 22) // 400, 20_000 - (1 << 22) // 400]


def test_changes_of_a_private_memory_map_are_kept(tmp_path):
    np.save(tmp_path / "X.npy", X)
    changed = np.load(tmp_path / "X.npy", mmap_mode="c")
    changed[0, 0] = 7.0
    for _ in range(2):
        assert next(iter(ArrayRows(changed, Y).blocks(3))).X[0, 0] == 7.0
        list(ArrayRows(changed, Y).blocks(3))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_frames_are_sliced(frame):
    table = frame({"a": X[:, 0], "b": [f"t{j}" for j in range(23)]})
    blocks = list(ArrayRows(table, Y).blocks(10))
    assert [type(block.X) for block in blocks] == [type(table)] * 3
    assert [str(text) for block in blocks for text in block.X["b"]] == [f"t{j}" for j in range(23)]
    assert [len(block.X) for block in blocks] == [10, 10, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X[:, 0], Y), r"X must be a table, shape \(n_samples, n_features\); got shape \(23,\)"),
        ((X, None), "ArrayRows needs the targets of its rows; got y=None"),
        ((X, Y[:5]), r"y must hold one value per row of X, shape \(23,\); got \(5,\)"),
        ((X, Y, None, GROUPS[:5]), r"groups must hold one value per row of X, shape \(23,\); got \(5,\)"),
        ((X[:0], Y[:0]), "there must be at least one row; got an X without rows"),
    ],
)
def test_rows_that_do_not_fit_together_are_refused_at_once(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        ArrayRows(*arguments)


def changed(values, place, value):
    values = np.array(values, dtype=object if isinstance(value, str) or value is None else None)
    values[place] = value
    return values


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, changed(Y, 12, np.nan)), "y must hold a finite number for every row; row 12 is nan: leave out such rows"),
        ((X, changed(Y, 12, "ten")), r"y must hold numbers; row 2 is 'ten': .* \(counted from row 10\)"),
        ((X, Y, changed(WEIGHTS, 20, -1.0)), "sample_weight must hold a finite number >= 0 .*; row 20 is -1.0"),
        ((X, Y, None, changed(GROUPS, 11, None)), "groups must hold a label for every row; row 11 is None"),
    ],
)
def test_invalid_values_are_named_by_row(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        list(ArrayRows(*arguments).blocks(5))


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_a_block_has_at_least_one_row(size):
    with pytest.raises(InvalidParameterError, match="size must be an integer >= 1"):
        ArrayRows(X, Y).blocks(size)


def test_rows_keep_their_groups():
    part = Rows(X, Y, WEIGHTS, GROUPS)[3:9]
    assert np.array_equal(part.groups, GROUPS[3:9])
    assert Rows(X, Y)[[0]].groups is None
