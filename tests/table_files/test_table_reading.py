import codecs
import gzip
import io
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn.errors import InvalidParameterError
from bdkn.table_files import column_names, format_of, open_blocks, read_table, writing
from bdkn.table_files.csv_files import UNNAMED, detect_dialect

MIXED = """id,area,rooms,sold,heated,district,when
00017,54.5,2,2024-03-31,true,north,2024-03-31 12:30:00
00018,,3,2024-04-01,,NA,2024-04-01 08:00:00
00019,81.25,1,2024-04-02,false,"east, far",2024-04-02 23:59:59
"""


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_columns_keep_their_types(tmp_path):
    frame = read_table(write(tmp_path, "flats.csv", MIXED))
    assert frame["id"].tolist() == ["00017", "00018", "00019"]
    assert frame["area"].tolist()[::2] == [54.5, 81.25]
    assert np.isnan(frame["area"][1])
    assert frame["rooms"].dtype == np.int64
    assert [str(day.date()) for day in frame["sold"]] == ["2024-03-31", "2024-04-01", "2024-04-02"]
    assert frame["when"][2] == pd.Timestamp("2024-04-02 23:59:59")
    assert frame["heated"].dtype == "boolean"
    assert frame["heated"].isna().tolist() == [False, True, False]
    assert frame["district"].isna().tolist() == [False, True, False]
    assert frame["district"][[0, 2]].tolist() == ["north", "east, far"]


def test_leading_zeros_far_down_keep_a_column_as_text(tmp_path):
    lines = [f"{i},{i}" for i in range(1000, 300_000)]
    frame = read_table(write(tmp_path, "codes.csv", "\n".join(["code,number", *lines, "007,7"])))
    assert frame["code"].iloc[-1] == "007"
    assert frame["code"].iloc[0] == "1000"
    assert frame["number"].dtype == np.int64


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_detected(tmp_path, delimiter):
    text = "\n".join(delimiter.join(row) for row in [["a", "b", "c"], ["1", "x y", "2.5"], ["2", "z", "3.5"]])
    frame = read_table(write(tmp_path, "table.csv", text))
    assert frame.to_dict("list") == {"a": [1, 2], "b": ["x y", "z"], "c": [2.5, 3.5]}


def test_decimal_commas_are_read_where_commas_do_not_delimit(tmp_path):
    frame = read_table(write(tmp_path, "table.csv", "price;area\n1,5;10\n-2,25;20\n"))
    assert frame["price"].tolist() == [1.5, -2.25]
    both = read_table(write(tmp_path, "both.csv", "price;area\n1,5;10.5\n2,25;20.5\n"))
    assert both["price"].tolist() == ["1,5", "2,25"]
    assert both["area"].tolist() == [10.5, 20.5]
    (block,) = open_blocks(tmp_path / "table.csv", {"price": "number"})
    assert block["price"].to_pylist() == [1.5, -2.25]


@pytest.mark.parametrize(
    "encoded",
    [
        "name,n\nMünchen,1\n".encode(),
        codecs.BOM_UTF8 + "name,n\nMünchen,1\n".encode(),
        "name,n\nMünchen,1\n".encode("utf-16"),
        "name,n\nMünchen,1\n".encode("windows-1252"),
    ],
    ids=["utf-8", "with mark", "utf-16", "windows"],
)
def test_the_encoding_is_detected(tmp_path, encoded):
    notes = []
    path = write(tmp_path, "table.csv", encoded)
    assert read_table(path, notes.append).to_dict("list") == {"name": ["München"], "n": [1]}
    is_guessed = encoded == "name,n\nMünchen,1\n".encode("windows-1252")
    assert [note.partition(";")[0] for note in notes] == [f"{path} is not in UTF-8"] * is_guessed


@pytest.mark.parametrize("name", ["table.csv", "table.tsv", "table.csv.gz", "table.tsv.gz", "table.parquet"])
def test_written_tables_are_read_unchanged(tmp_path, name):
    path = tmp_path / name
    first = pa.table({"id": ["001", 'with "quotes"'], "mean": [0.1, None], "flag": [True, False]})
    with writing(path) as file:
        file.write(first)
        assert not path.exists()
        file.write(first)
    frame = read_table(path)
    assert frame["id"].tolist() == ["001", 'with "quotes"'] * 2
    assert frame["mean"].tolist()[::2] == [0.1, 0.1]
    assert frame["flag"].tolist() == [True, False] * 2
    assert column_names(path) == ("id", "mean", "flag")
    blocks = list(open_blocks(path, {"mean": "number", "id": "text"}))
    assert blocks[0].column_names == ["mean", "id"]
    assert sum(block.num_rows for block in blocks) == 4
    assert [item.name for item in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "table.parquet"])
def test_an_error_while_writing_leaves_the_former_file(tmp_path, name):
    path = write(tmp_path, name, "former")

    def stop():
        with writing(path) as file:
            file.write(pa.table({"a": [1.0]}))
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        stop()
    assert path.read_text() == "former"
    assert [item.name for item in tmp_path.iterdir()] == [name]


@given(numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_numbers_survive_a_csv_file(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("numbers") / "table.csv"
    with writing(path) as file:
        file.write(pa.table({"x": numbers}))
    (block,) = open_blocks(path, {"x": "number"})
    assert block["x"].to_pylist() == numbers


def test_long_files_come_in_blocks(tmp_path):
    n = 600_000
    with writing(tmp_path / "long.csv") as file:
        file.write(pa.table({"i": np.arange(n), "x": np.linspace(0, 1, n)}))
    blocks = list(open_blocks(tmp_path / "long.csv", {"i": "number"}))
    assert len(blocks) > 1
    assert np.array_equal(np.concatenate([block["i"].to_numpy() for block in blocks]), np.arange(n))


def test_dates_in_blocks_do_not_depend_on_the_first_rows(tmp_path):
    path = write(tmp_path, "dates.csv", "when,flag\n,\n2024-03-31,true\n")
    (block,) = open_blocks(path, {"when": "date", "flag": "boolean"})
    assert str(block["when"].to_pylist()[1]) == "2024-03-31 00:00:00"
    assert block["flag"].to_pylist() == [None, True]
    odd = write(tmp_path, "odd.csv", "when\nlast week\n")
    assert next(iter(open_blocks(odd, {"when": "date"})))["when"].to_pylist() == ["last week"]


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n" + b"1,2\n" * 400_000)))
    assert sum(block.num_rows for block in open_blocks("-", {"a": "number"})) == 400_000
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n01,2\n")))
    assert read_table("-").to_dict("list") == {"a": ["01"], "b": [2]}


def test_row_names_of_other_programs_have_a_name(tmp_path):
    assert column_names(write(tmp_path, "table.csv", ",a\n0,1\n")) == (UNNAMED, "a")
    frame = pd.DataFrame({"a": [1.5]}, index=["x"])
    frame.to_parquet(tmp_path / "table.parquet")
    assert list(read_table(tmp_path / "table.parquet").columns) == ["a"]


def test_types_of_parquet(tmp_path):
    import datetime
    import decimal

    table = pa.table(
        {
            "price": pa.array([decimal.Decimal("1.50"), None]),
            "time": pa.array([datetime.time(8, 30), None]),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "nothing": pa.nulls(2),
        }
    )
    pq.write_table(table, tmp_path / "table.parquet")
    frame = read_table(tmp_path / "table.parquet")
    assert frame["price"].tolist()[0] == 1.5
    assert frame["time"].tolist()[0].startswith("08:30")
    assert frame["kind"].dtype == "category"
    assert frame["nothing"].isna().all()
    pq.write_table(pa.table({"lists": [[1, 2]]}), tmp_path / "lists.parquet")
    with pytest.raises(InvalidParameterError, match=r"'lists' of .* holds list"):
        read_table(tmp_path / "lists.parquet")


WRONG = {
    "empty.csv": ("", "empty.csv is empty; it must have a line of column names"),
    "numbers.csv": ("1,2\n3,4\n", "must hold the names of the columns; got numbers: 1, 2"),
    "twice.csv": ("a,b,a\n1,2,3\n", "'a' more than once: rename or remove one"),
    "nameless.csv": ("a,,b\n1,2,3\n", "column 2 has none: name it in line 1"),
    "ragged.csv": ("a,b\n1,2\n\n3\n4,5\n", "must have 2 cells, as its first line has; line 4 has 1: '3'"),
    "long.csv": ("a,b\n1,2\n3,4,5\n", "line 3 has 3: '3,4,5'"),
    "quoted.csv": ('a,b\n"x\ny",2\n3\n', "line 4 has 1: '3'"),
    "table.csv.gz": ("a,b\n1,2\n", "must be compressed by gzip, as its name says"),
    "table.parquet": ("a,b\n1,2\n", "cannot be read as Parquet"),
    "table.xlsx": ("", "must end in one of .csv, .tsv, .csv.gz, .tsv.gz, .parquet; got"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_of_invalid_files(tmp_path, name):
    content, message = WRONG[name]
    path = write(tmp_path, name, content)
    with pytest.raises(InvalidParameterError) as caught:
        read_table(path)
    assert message in str(caught.value)


def test_a_cell_that_is_no_number_is_named(tmp_path):
    path = write(tmp_path, "table.csv", "a,b\n1,2\n3,much\n")
    with pytest.raises(InvalidParameterError, match=r"column 'b' of .* must hold numbers; line 3 has 'much'"):
        list(open_blocks(path, {"b": "number"}))


def test_missing_columns_and_files_are_named(tmp_path):
    path = write(tmp_path, "table.csv", "area,b\n1,2\n")
    with pytest.raises(InvalidParameterError, match="did you mean 'area'"):
        open_blocks(path, {"are": "number"})
    with pytest.raises(InvalidParameterError, match="must have the columns 'x', 'y'; it has 'area', 'b'"):
        open_blocks(path, {"x": "number", "y": "number"})
    with pytest.raises(InvalidParameterError, match="there is no file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InvalidParameterError, match="which is a folder"):
        read_table(tmp_path)


def test_a_truncated_gzip_file_is_an_error(tmp_path):
    packed = gzip.compress(b"a,b\n" + b"1,2\n" * 100_000)
    path = write(tmp_path, "table.csv.gz", packed[: len(packed) // 2])
    with pytest.raises(InvalidParameterError, match="must be compressed by gzip"):
        read_table(path)


def test_a_byte_that_is_not_utf8_far_down_is_an_error(tmp_path):
    path = write(tmp_path, "table.csv", b"a,b\n" + b"x,2\n" * 400_000 + b"\xfc,3\n")
    with pytest.raises(InvalidParameterError, match="save it again as UTF-8"):
        read_table(path)


def test_formats():
    assert format_of("A.CSV").kind == "csv"
    assert format_of("a.tsv.gz").gzip
    assert format_of("a.tsv").delimiter == "\t"
    assert format_of("x.pq").kind == "parquet"


def test_a_dialect_of_a_cut_head():
    dialect = detect_dialect(b"a;b\n1,5;2\n3,5", "table")
    assert (dialect.delimiter, dialect.decimal, dialect.names) == (";", ",", ("a", "b"))
