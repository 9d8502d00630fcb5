"""Rows of Parquet files: files, columns, memory and errors."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from bdkn.data.encoder import TableEncoder
from bdkn.data.parquet import ParquetRows
from bdkn.errors import InvalidParameterError

RENT = pa.table({"area": [50.0, 60.0, 80.0], "heating": ["gas", None, "oil"], "rent": [900, 1000, 1400]})


def write(path, **columns):
    """Write the table of rents with other columns."""
    table = RENT
    for name, values in columns.items():
        table = table.drop_columns(name) if name in table.column_names else table
        table = table if values is None else table.append_column(name, pa.array(values))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def targets(source, size=None):
    return [value for block in source.blocks(size) for value in block.y]


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "rows" / "b.parquet", rent=[4, 5, 6])
    write(tmp_path / "rows" / "a.parquet", rent=[1, 2, 3])
    write(tmp_path / "rows" / "deeper" / "c.PQ", rent=[7, 8, 9])
    write(tmp_path / "rows" / "_temporary" / "x.parquet", rent=[0, 0, 0])
    (tmp_path / "rows" / "_SUCCESS").touch()
    return tmp_path / "rows"


def test_files_of_a_folder_are_read_by_their_names_and_those_of_a_list_in_its_order(folder):
    assert targets(ParquetRows(folder, "rent")) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert targets(ParquetRows(str(folder), "rent"), 2) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert targets(ParquetRows(folder / "b.parquet", "rent")) == [4, 5, 6]
    assert targets(ParquetRows(f"{folder}/*.parquet", "rent")) == [1, 2, 3, 4, 5, 6]
    assert targets(ParquetRows([folder / "b.parquet", folder / "a.parquet"], "rent")) == [4, 5, 6, 1, 2, 3]


def test_the_names_of_folders_are_columns(tmp_path):
    for year in (2025, 2026):
        write(tmp_path / f"year={year}" / "part.parquet", rent=[year, year, year])
    for source in (tmp_path, ds.dataset(tmp_path, partitioning="hive")):
        blocks = list(ParquetRows(source, "rent").blocks(4))
        assert [year for block in blocks for year in block.X["year"].to_pylist()] == [2025] * 3 + [2026] * 3
    assert targets(ParquetRows(tmp_path, "year")) == [2025] * 3 + [2026] * 3


def test_a_dataset_may_be_filtered_or_of_another_format(tmp_path):
    write(tmp_path / "a.parquet")
    source = ParquetRows(ds.dataset(tmp_path).filter(ds.field("heating").is_valid()), "rent")
    assert (len(source), targets(source, 1)) == (2, [900, 1400])
    source = ParquetRows(ds.dataset(RENT), "rent")
    assert (len(source), targets(source, 2)) == (3, [900, 1000, 1400])


def test_requested_columns_are_found_by_name_in_any_order_and_type(tmp_path):
    write(tmp_path / "a.parquet", colour=["red"] * 3)
    write(tmp_path / "b.parquet", area=[70, 71, 72], **{"a.b": [1.0, 2.0, 3.0]})  # integers, and as the last column
    blocks = list(ParquetRows(tmp_path, "rent", columns=["area"]).blocks(4))
    assert [value for block in blocks for value in block.X["area"].to_pylist()] == [50.0, 60.0, 80.0, 70.0, 71.0, 72.0]
    assert [block.X.schema for block in blocks] == [pa.schema([("area", pa.float64())])] * 2
    assert targets(ParquetRows(tmp_path / "b.parquet", "a.b")) == [1.0, 2.0, 3.0]


def test_a_file_in_which_a_column_is_empty_has_the_type_of_the_others(tmp_path):
    write(tmp_path / "a.parquet", heating=[None] * 3)
    write(tmp_path / "b.parquet")
    values = [value for block in ParquetRows(tmp_path, "rent").blocks(2) for value in block.X["heating"].to_pylist()]
    assert values == [None, None, None, "gas", None, "oil"]


def test_a_given_dataset_determines_the_columns(tmp_path):
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", area=None, colour=["red"] * 3)
    source = ParquetRows(ds.dataset(tmp_path, schema=RENT.schema), "rent")
    assert [value for block in source.blocks() for value in block.X["area"].to_pylist()] == [50, 60, 80, *[None] * 3]


def test_targets_weights_and_groups_of_any_type_that_makes_sense(tmp_path):
    import decimal

    for y in ([1, 2, 3], [True, False, True], [decimal.Decimal("1.5")] * 3, np.float32([1, 2, 3])):
        path = write(tmp_path / "y.parquet", rent=y)
        assert targets(ParquetRows(path, "rent")) == [float(value) for value in y]
    coded = pa.array(["n", "s", "n"]).dictionary_encode()
    for labels in (coded, pa.array([1, 2, 1]), pa.array(["n", "s", "n"])):
        path = write(tmp_path / "y.parquet", plant=labels)
        block = next(ParquetRows(path, "rent", groups="plant", sample_weight="area").blocks())
        assert block.groups.tolist() == labels.to_pylist()
        assert (block.X.column_names, block.counts.tolist()) == (["heating"], [50.0, 60.0, 80.0])


def test_row_names_of_pandas_are_no_column(tmp_path):
    frame = RENT.to_pandas().iloc[[2, 0, 1]]
    frame.to_parquet(tmp_path / "a.parquet")
    frame.reset_index(drop=True).to_parquet(tmp_path / "b.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "a.parquet").names
    blocks = list(ParquetRows(tmp_path, "rent").blocks())
    assert blocks[0].X.column_names == ["area", "heating"]


def test_blocks_can_be_encoded(folder):
    source = ParquetRows(folder, "rent")
    encoder = TableEncoder.fit(next(source.blocks()).X)
    inputs = np.vstack([encoder.transform(block.X) for block in source.blocks(2)])
    assert inputs[:3].tolist() == [[50.0, 1.0, 0.0, 0.0], [60.0, 0.0, 0.0, 1.0], [80.0, 0.0, 1.0, 0.0]]


def test_a_source_can_be_sent_to_another_process(folder):
    source = ParquetRows(folder, "rent")
    assert targets(pickle.loads(pickle.dumps(source))) == targets(source)


@pytest.mark.parametrize("row_group", [5_000, 400_000])
def test_only_a_few_blocks_are_in_memory(tmp_path, row_group):
    n, size, names = 400_000, 10_000, ["a", "b", "c", "d", "y"]
    table = pa.table(dict.fromkeys(names, np.random.default_rng(0).normal(size=n)))
    small = {"data_page_size": 1 << 14, "use_dictionary": False}  # the pages of a file are held as they are
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=row_group, **small)
    del table
    before, peak, rows = pa.total_allocated_bytes(), 0, 0
    for block in ParquetRows(tmp_path, "y").blocks(size):
        rows += len(block)
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert rows == n
    one, buffers = 8 * size * len(names), len(names) << 18
    assert peak < 5 * one + buffers < 8 * n * len(names) / 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "rnt"}, r"target must be .* which has 'area', 'heating', 'rent'; got 'rnt'; did you mean 'rent'\?"),
        ({"target": None}, "target must be the name of a column of .*; got None"),
        ({"target": np.ones(3)}, "target must be the name of a column of .*; got array"),
        ({"target": "heating"}, "column 'heating' of .* must hold numbers; it holds string: convert it before"),
        ({"target": "rent", "sample_weight": "w"}, "sample_weight must be the name of a column of .*; got 'w'"),
        ({"target": "rent", "groups": "rent"}, "a column is an input, the target, .*; 'rent' is named twice"),
        ({"target": "rent", "columns": ["area", "rent"]}, "'rent' is named twice"),
        ({"target": "rent", "columns": ["size"]}, "columns must be the name of a column of .*; got 'size'"),
        ({"target": "rent", "columns": "area"}, r"columns must be a list of names; got 'area': \['area'\]"),
        ({"target": "rent", "columns": []}, "must have a column beside 'rent'"),
    ],
)
def test_invalid_names_of_columns_are_refused(tmp_path, arguments, message):
    path = write(tmp_path / "a.parquet")
    with pytest.raises(InvalidParameterError, match=message):
        ParquetRows(path, **arguments)


def test_places_without_parquet_files_are_refused(tmp_path):
    with pytest.raises(InvalidParameterError, match=r"there is no file '.*nowhere.parquet'; check the name"):
        ParquetRows(tmp_path / "nowhere.parquet", "rent")
    with pytest.raises(InvalidParameterError, match=r"the folder .* must hold Parquet files, .*\.parq; it is empty"):
        ParquetRows(tmp_path, "rent")
    (tmp_path / "rows.csv").write_text("area,rent\n1,2\n", encoding="utf-8")
    with pytest.raises(InvalidParameterError, match=r"must hold Parquet files, .*; it has 'rows\.csv'"):
        ParquetRows(tmp_path, "rent")
    with pytest.raises(InvalidParameterError, match=r"rows\.csv cannot be read as Parquet \(.*it is damaged"):
        ParquetRows(tmp_path / "rows.csv", "rent")
    for wrong in (7, [], [3], RENT):
        with pytest.raises(InvalidParameterError, match="ParquetRows needs a file, a folder, a pattern such as"):
            ParquetRows(wrong, "rent")


@pytest.mark.parametrize(
    ("columns", "names", "message"),
    [
        (
            {"rent": [1.0, None, 2.0]},
            {},
            r"column 'rent' must hold a finite .*; row 4, in b\.parquet, is nan: leave out",
        ),
        ({"rent": [1.0, 2.0, np.inf]}, {}, r"column 'rent' must hold a finite .*; row 5, in b\.parquet, is inf"),
        (
            {"area": [1.0, -2.0, 2.0]},
            {"sample_weight": "area"},
            r"column 'area' must hold a finite number >= 0 .*-2\.0",
        ),
        (
            {"heating": ["n", "n", None]},
            {"groups": "heating"},
            "column 'heating' must hold a label for every row; row 1",
        ),
        (
            {"colour": ["red"] * 3},
            {},
            r"all files must have the columns .*b\.parquet and .*a\.parquet differ in 'colour'",
        ),
        ({"area": None}, {}, r"all files must have the columns of the first; .*b\.parquet and .* differ in 'area'"),
        ({"area": None}, {"columns": ["area"]}, r"all files must have the columns of the first; .* differ in 'area'"),
        ({"area": ["big"] * 3}, {}, r"columns must have one type in all files; those of .*b\.parquet differ"),
    ],
)
def test_invalid_values_are_named_by_row_and_file(tmp_path, columns, names, message):
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", **columns)
    with pytest.raises(InvalidParameterError, match=message):
        list(ParquetRows(tmp_path, "rent", **names).blocks(2))


def test_columns_with_equal_names_are_refused(tmp_path):
    pq.write_table(pa.table([[1.0], [2.0], [3.0]], names=["a", "a", "y"]), tmp_path / "a.parquet")
    with pytest.raises(InvalidParameterError, match="columns must have different names; got 'a' more than once"):
        ParquetRows(tmp_path, "y")


def test_empty_and_changing_files_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(RENT.slice(0, 0), path)
    source = ParquetRows(path, "rent")
    for read in (len, lambda source: list(source.blocks())):
        with pytest.raises(InvalidParameterError, match="there must be at least one row; got none"):
            read(source)
    pq.write_table(RENT, path)
    source = ParquetRows(path, "rent")
    assert len(source) == 3
    pq.write_table(RENT.slice(0, 2), path)
    with pytest.raises(InvalidParameterError, match=r"the first had 3 rows, this one 2|cannot be read as Parquet"):
        list(source.blocks())


def test_damaged_files_are_named(tmp_path):
    path = write(tmp_path / "a.parquet")
    source = ParquetRows(path, "rent")
    path.write_bytes(b"PAR1" + bytes(200) + b"PAR1")
    with pytest.raises(InvalidParameterError, match=r"a\.parquet cannot be read as Parquet"):
        list(source.blocks())
