"""All sources of the same rows return them, for any blocks, files, row groups and partitions."""

import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdkn.data.dask_rows import DaskRows
from bdkn.data.parquet import ParquetRows
from bdkn.data.sources import ArrayRows, IteratorRows
from bdkn.data.training_data import as_row_source

dd = pytest.importorskip("dask.dataframe")

NAMES = {"sample_weight": "weight", "groups": "plant"}
INPUTS = ["area", "rooms", "heating", "built"]


def table(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "area": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "price": rng.normal(size=n),
            "rooms": rng.integers(0, 9, n),
            "weight": rng.integers(0, 3, n),
            "heating": rng.choice(["gas", "oil", "wood"], n),
            "plant": rng.choice(["north", "south"], n),
            "built": pd.Timestamp("2000-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )


@dataclass(frozen=True)
class Cuts:
    """Numbers of parts into which rows are divided."""

    files: int
    row_group: int
    partitions: int

    def parts(self, frame):
        bounds = np.linspace(0, len(frame), self.files + 1).astype(int)
        return [frame.iloc[low:high] for low, high in pairwise(bounds)]


def write(folder, frame, cuts):
    schema = pa.Table.from_pandas(frame, preserve_index=True).schema
    for number, part in enumerate(cuts.parts(frame)):
        path = Path(folder) / f"part-{number:02d}.parquet"
        pq.write_table(pa.Table.from_pandas(part, schema, preserve_index=True), path, row_group_size=cuts.row_group)


def sources(frame, folder, cuts):
    """Yield a source of each class."""

    def make():
        for part in cuts.parts(frame):
            yield part[INPUTS], part["price"], part["weight"], part["plant"]

    weights, plants = frame["weight"], frame["plant"]
    yield ArrayRows(frame[INPUTS], frame["price"], weights, plants)
    yield IteratorRows(make)
    yield ParquetRows(folder, "price", columns=INPUTS, **NAMES)
    yield ParquetRows(ds.dataset(folder).filter(ds.field("rooms") >= 0), "price", columns=INPUTS, **NAMES)
    yield DaskRows(dd.from_pandas(frame, npartitions=cuts.partitions), "price", columns=INPUTS, **NAMES)


def whole(blocks):
    """Return all rows of blocks as one pandas frame."""
    found = []
    for block in blocks:
        X = block.X.to_pandas(ignore_metadata=True) if isinstance(block.X, pa.Table) else block.X.reset_index(drop=True)
        found.append(X.assign(price=block.y, weight=block.counts, plant=block.groups))
    return pd.concat(found, ignore_index=True).astype({"heating": object, "plant": object, "built": "datetime64[ns]"})


@settings(max_examples=15)
@given(
    n=st.integers(1, 60),
    seed=st.integers(0, 9),
    size=st.one_of(st.none(), st.integers(1, 70)),
    cuts=st.builds(Cuts, st.integers(1, 4), st.integers(1, 70), st.integers(1, 3)),
)
def test_all_sources_of_the_same_rows_give_the_same_blocks(n, seed, size, cuts):
    frame = table(n, seed)
    expected = frame[[*INPUTS, "price", "weight", "plant"]].astype(
        {"weight": float, "heating": object, "plant": object, "built": "datetime64[ns]"}
    )
    step = size or n
    with tempfile.TemporaryDirectory() as folder:
        write(folder, frame, cuts)
        for source in sources(frame, folder, cuts):
            for _ in range(2):  # passes
                blocks = list(source.blocks(size))
                assert [len(block) for block in blocks] == [min(step, n - start) for start in range(0, n, step)]
                pd.testing.assert_frame_equal(whole(blocks), expected, check_dtype=False)
            assert len(source) == n


def test_rows_of_a_fit_that_are_read_in_blocks(tmp_path):
    frame = table(8, 0)
    write(tmp_path, frame, Cuts(2, 3, 2))
    dataset, delayed = ds.dataset(tmp_path), dd.from_pandas(frame, npartitions=2)
    source = ArrayRows(frame[INPUTS], frame["price"])
    assert as_row_source(source) is source
    for given_, kind in ((dataset, ParquetRows), (delayed, DaskRows)):
        found = as_row_source(given_, "price", "weight", "plant")
        assert type(found) is kind
        assert len(next(iter(found.blocks())).groups) == 8
    named_blocks = frame.assign(blocks=1.0)
    for table_ in (frame, named_blocks, frame.to_numpy(), pa.Table.from_pandas(frame), [[1.0]]):
        assert as_row_source(table_, frame["price"]) is None


@pytest.mark.parametrize("given_", [{"y": [1.0]}, {"sample_weight": [1.0]}, {"groups": "plant"}])
def test_a_source_has_its_own_targets(given_):
    source = ArrayRows(np.ones((3, 1)), np.ones(3))
    message = f"a row source has its own targets, weights and groups; got {next(iter(given_))} beside it"
    with pytest.raises(ValueError, match=message):
        as_row_source(source, **given_)


@pytest.mark.parametrize("names", [(None,), (np.ones(8),), ("price", np.ones(8))])
def test_targets_and_weights_of_a_frame_that_is_computed_later_are_names(names):
    delayed = dd.from_pandas(table(8, 0), npartitions=2)
    with pytest.raises(ValueError, match=r"with a Dask data frame, (y|sample_weight) must be the name of .*its column"):
        as_row_source(delayed, *names)
