"""Damaged, incomplete and malicious tables."""

import gzip
import os
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bdkn.errors import InvalidParameterError
from bdkn.table_files import column_names, open_blocks, read_table, writing
from bdkn.table_files import formats as expanded
from bdkn.table_files import reading as parquet_files
from bdkn.table_files.writing import no_formula

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "a,b\n1,2\n".encode("utf-16-le"), "it contains zeros"),
        ("a.csv", "a,b\n1,2\n".encode("utf-32"), "it contains zeros"),
        ("a.csv", b"a,b\n1,x\0y\n", "it contains zeros"),
        ("a.csv", b'a,b\n0,9\n1,"2\n3,4\n', "the one that begins in line 3 is never closed"),
        ("a.csv", b'a,b\n"x\ny",9\n1,"2""\n3,4\n', "the one that begins in line 4 is never closed"),
        ("a.csv", b'a,b\n1,"2' + b"x" * 300_000 + b"\n3,4\n", "the one that begins in line 2 is never closed"),
        ("a.csv", b'"a,b\n1,2\n3,4\n', "perhaps a quotation mark is not closed"),
        ("a.csv", b'"' + b"x" * 300_000 + b'",b\n3,4\n', "longer than 131,072 characters"),
        ("a.csv", b"a" * (17 << 20), "it is longer than 16 MiB"),
        ("a.csv", b"a,b\n1," + b"x" * (9 << 20) + b"\n2,3,4\n", "no cell of .* must be longer than"),
        ("a.csv", b"a,b", "it has no line below the names"),
        ("a.csv", b"\xff\xd8" + bytes(range(1, 256)) * 20, "a.csv"),
        ("a.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 100_000)[:200], "must be compressed by gzip"),
        ("a.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n")[:-8] + bytes(8), "must be compressed by gzip"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n") + b"more", "must be compressed by gzip"),
        ("a.csv.gz", gzip.compress(b"")[:10] + b"\xff" * 20, "must be compressed by gzip"),
        ("a.parquet", b"", "cannot be read as Parquet"),
        ("a.parquet", b"PAR1" + b"x" * 100 + b"PAR1", "cannot be read as Parquet"),
        ("x" * 300 + ".csv", None, "there is no file"),
        ("a\0b.csv", None, "there is no file"),
    ],
    ids=range(20),
)
def test_files_that_are_not_tables_are_refused(tmp_path, name, content, message):
    path = tmp_path / name if content is None else write(tmp_path, name, content)
    with pytest.raises(InvalidParameterError, match=message):
        read_table(path)


@posix
def test_only_ordinary_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "zero.parquet").symlink_to("/dev/zero")
    for name, message in {"pipe.csv": "ordinary file", "loop.csv": "no file", "zero.parquet": "ordinary file"}.items():
        for read in (read_table, column_names, lambda path: open_blocks(path, {"a": "number"})):
            with pytest.raises(InvalidParameterError, match=message):
                read(tmp_path / name)


def test_ends_of_lines_of_every_kind(tmp_path):
    assert read_table(write(tmp_path, "a.csv", b"a,b\r\n1,2\n3,4\r5,6\n"))["b"].tolist() == [2, 4, 6]
    for inner in ("\u2028", "\x85", "\x0c", "\x1c"):
        frame = read_table(write(tmp_path, "b.csv", f"a{inner}c,b\n1{inner}2,3\n"))
        assert frame.to_dict("list") == {f"a{inner}c": [f"1{inner}2"], "b": [3]}


def test_a_line_of_names_may_be_long(tmp_path):
    names = [f"column_{j:09d}" for j in range(100_000)]
    path = write(tmp_path, "wide.csv", ",".join(names) + "\n" + ",".join(["1"] * 100_000) + "\n")
    assert column_names(path) == tuple(names)
    with pytest.raises(InvalidParameterError) as caught:
        open_blocks(path, {"other": "number"})
    assert len(str(caught.value)) < 5000
    assert "and 99,970 more" in str(caught.value)


def test_a_cell_may_be_long_and_end_with_a_line(tmp_path):
    frame = read_table(write(tmp_path, "a.csv", 'a,b\n1,"' + "x" * 300_000 + '"\n2,"y""\n"\n'))
    assert frame["b"].map(len).tolist() == [300_000, 3]


def test_numbers_that_only_some_programs_know_are_text(tmp_path):
    path = write(tmp_path, "a.csv", "a,b,c,d\n1_000,١٢٣,0x10,1e999\n2_000,١,0x11,2\n")
    frame = read_table(path)
    assert frame.loc[0].tolist()[:3] == ["1_000", "١٢٣", "0x10"]
    assert frame["d"].tolist() == [np.inf, 2.0]
    for name, cell in {"a": "1_000", "b": "١٢٣", "c": "0x10"}.items():
        with pytest.raises(InvalidParameterError, match=f"column '{name}' of .* line 2 has '{cell}'"):
            list(open_blocks(path, {name: "number"}))


def bomb(path, block, mebibytes):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    content = block * ((1 << 20) // len(block))
    with open(path, "wb") as file:
        file.write(packer.compress(b"a,b\n"))
        for _ in range(mebibytes):
            file.write(packer.compress(content))
        file.write(packer.flush())
    return path


def test_files_that_expand_too_much_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(expanded, "ALLOWED_BYTES", 1 << 22)
    monkeypatch.setattr(parquet_files, "ALLOWED_BYTES", 1 << 22)
    bomb(tmp_path / "lines.csv.gz", b"1,word\n", 6)
    bomb(tmp_path / "line.csv.gz", b"x", 6)
    codes = pa.array(np.zeros(1 << 20, np.int32))
    pq.write_table(pa.table({"a": codes, "b": codes}), tmp_path / "rows.parquet")
    texts = pa.table({"a": pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 100_000]))})
    pq.write_table(texts, tmp_path / "texts.parquet", store_schema=False)
    for path in tmp_path.iterdir():
        assert path.stat().st_size < 30_000
        with pytest.raises(InvalidParameterError, match="must not expand to more than"):
            read_table(path)
        with pytest.raises(InvalidParameterError, match=r"must not expand to more than|longer than"):
            list(open_blocks(path, {"a": "text"}))


def test_columns_that_are_no_columns_of_a_table(tmp_path):
    for name, column in {
        "list": pa.array([[1], [2]]),
        "struct": pa.array([{"a": 1}, {"a": 2}]),
        "binary": pa.array([b"a", b"\xff"]),
        "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
        "coded": pa.array([b"a", b"b"]).dictionary_encode(),
        "zone": pa.array([1, 2]).cast(pa.timestamp("ns", tz="Mars/Base")),
    }.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({name: column}), path)
        with pytest.raises(InvalidParameterError, match=f"{name}.parquet .*drop that column"):
            read_table(path)
        if name not in ("coded", "fixed"):
            with (
                pytest.raises(InvalidParameterError, match="leave that column out"),
                writing(tmp_path / "o.csv") as file,
            ):
                file.write(pa.table({name: column}))
    pq.write_table(pa.table({}), tmp_path / "none.parquet")
    with pytest.raises(InvalidParameterError, match="a table must have at least one column"):
        read_table(tmp_path / "none.parquet")
    assert not (tmp_path / "o.csv").exists()


FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd|'x'!A0", "\t=1", "\r=1", "＝1", "- \nabc"]
HARMLESS = ["-", "+", "", "-12.5", "-1e5", "+41 44 123 45 67", "-inf", "a=1", " =1", "1-2", "'=1", "–x", "31.12.2024"]


def test_texts_that_a_spreadsheet_would_compute_are_marked_in_csv(tmp_path):
    texts = [*FORMULAS, *HARMLESS, None]
    expected = [*(f"'{text}" for text in FORMULAS), *HARMLESS]
    assert [no_formula(text) for text in texts[:-1]] == expected
    table = pa.table({"=name": texts, "n": [-1.5] * len(texts), "coded": pa.array(texts).dictionary_encode()})
    for name in ("a.csv", "a.tsv", "a.csv.gz"):
        with writing(tmp_path / name) as file:
            file.write(table)
            file.write(table)
        assert file.marked == 4 * len(FORMULAS)
        assert column_names(tmp_path / name) == ("'=name", "n", "coded")
        (block,) = open_blocks(tmp_path / name, {"'=name": "text", "n": "number", "coded": "text"})
        assert block["'=name"].to_pylist()[: len(expected)] == expected
        assert block["coded"].to_pylist()[: len(expected)] == expected
        assert block["n"].to_pylist() == [-1.5] * 2 * len(texts)


def test_formulas_can_be_written_as_they_stand(tmp_path):
    for name, formulas in {"a.csv": True, "a.parquet": False}.items():
        with writing(tmp_path / name, formulas=formulas) as file:
            file.write(pa.table({"=name": FORMULAS}))
        (block,) = open_blocks(tmp_path / name, {"=name": "text"})
        assert block["=name"].to_pylist() == FORMULAS
        assert file.marked == 0
