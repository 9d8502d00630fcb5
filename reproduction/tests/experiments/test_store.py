import errno
import json
import math
import os
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import cell

from bdkn.errors import InvalidParameterError
from bdkn.storage.atomic import locked
from bdkn_paper.experiments import pending
from bdkn_paper.store import Cell, Store, pack, records, unpack
from bdkn_paper.store import store as store_module
from bdkn_paper.store.record import dumps, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


def record(split=0, **changes):
    fields = {"method": "bdkn", "dataset": "waves"} | {k: changes.pop(k) for k in list(changes) if k in vars(cell())}
    return {
        "cell": cell(split=split, **fields).as_dict(),
        "status": "done",
        "metrics": {"rmse": 0.1 + split, "nll": math.inf},
        "rows": {"train": 45, "test": 15},
        "seconds": {"fit": 0.5},
        "versions": {"numpy": "2"},
        "hardware": {"cores": 2},
    } | changes


@given(VALUES)
def test_a_line_of_json_gives_back_what_was_written(value):
    line = dumps({"value": value})
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert "\n" not in line
    assert loads(line) == {"value": value}


def test_not_a_number_is_kept():
    assert math.isnan(loads(dumps([math.nan]))[0])


def test_a_cell_and_its_key():
    one = cell()
    assert Cell.of({"cell": json.loads(json.dumps(one.as_dict()))}) == one
    assert len(one.key) == 64
    turned = cell(parameters=dict(reversed(one.parameters.items())))
    assert turned.key == one.key
    assert cell(parameters={**one.parameters, "n_members": 4}).key != one.key
    # Results that are committed are found by this name: what changes it throws them away.
    pinned = Cell(experiment="e", method="m", dataset="d", split=1, regressor="R", parameters={"epochs": 40})
    assert pinned.key == "d2a34a2bfb7e7b0474feec4c6cdfccee61c5913db724cf8cdb03406d95db4368"
    assert str(pinned) == "e: m on d, split 1"


def test_methods_share_the_seed_of_their_networks():
    one = cell()
    same = [cell(method="de", regressor="DeepEnsembleRegressor"), cell(experiment="other"), cell(parameters={})]
    assert {other.random_state for other in same} == {one.random_state}
    other = [cell(split=1), cell(dataset="other"), cell(seed=1)]
    assert len({one.random_state, *(c.random_state for c in other)}) == 4
    assert 0 <= one.random_state < 2**32


def test_a_store_keeps_one_record_a_cell(tmp_path):
    store = Store(tmp_path / "store")
    assert store.get(cell()) is None
    assert list(store) == []
    store.put(record(metrics={"rmse": 1.0}))
    store.put(record(metrics={"rmse": 2.0}))
    store.put(record(split=1))
    assert store.get(cell())["metrics"] == {"rmse": 2.0}
    assert store.get(cell(split=1)) == record(split=1)
    assert len(list(store)) == 2
    assert (tmp_path / "store" / cell().key[:2] / f"{cell().key}.json").exists()


def test_what_is_not_whole_is_not_there(tmp_path, monkeypatch):
    store = Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(store_module.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            store.put(record())
    assert store.get(cell()) is None
    assert list(store) == []
    store.put(record())
    path = next(tmp_path.glob("??/*.json"))
    path.write_text(path.read_text()[:20])
    assert store.get(cell()) is None
    assert list(store) == []


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"status": "done"}', "", "{", "no metrics", "another field"])
def test_what_is_no_record_counts_as_not_run(tmp_path, text):
    store, whole = Store(tmp_path), record()
    store.put(whole)
    (path,) = tmp_path.glob("??/*.json")
    other = {
        "no metrics": {k: v for k, v in whole.items() if k != "metrics"},
        "another field": whole | {"cell": whole["cell"] | {"colour": "red"}},
    }
    path.write_text(dumps(other[text]) if text in other else text)
    assert store.get(cell()) is None
    assert list(store) == []
    assert pending([cell()], store) == [cell()]


def test_writers_and_readers_at_once_never_see_a_part(tmp_path):
    script = """
import json, sys
from bdkn_paper.store import Store
store, record = Store(sys.argv[1]), json.loads(sys.argv[2]) | {"padding": "x" * 200_000}
for i in range(100):
    store.put(record)
"""

    def write():
        for _ in range(100):
            store.put(record() | {"status": "failed", "padding": "y" * 200_000})

    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    store = Store(tmp_path)
    store.put(record())
    written = json.dumps({"cell": cell().as_dict(), "status": "failed"})
    words = [sys.executable, "-c", script, str(tmp_path), written]
    writer, another = subprocess.Popen(words, env=environment), None
    while writer.poll() is None:
        found = store.get(cell())
        assert found["status"] in ("done", "failed")
        if "padding" in found and another is None:  # the other process writes
            another = threading.Thread(target=write)
            another.start()
        time.sleep(0.001)
    another.join()
    assert writer.returncode == 0
    assert [path.suffix for path in tmp_path.glob("??/*")] == [".json"]


def test_packed_records_come_back(tmp_path):
    store, results = Store(tmp_path / "store"), tmp_path / "results"
    written = [
        record(2),
        record(0),
        record(1, hardware={"cores": 8}),
        record(0, method="de"),
        record(0, experiment="other", kind="curves") | {"curves": {"epoch": [1], "rmse": [0.1]}},
        record(0, method="failing") | {"status": "failed", "traceback": "Traceback ..."},
    ]
    for one in written:
        store.put(one)
    assert pack(store, results) == 6
    assert sorted(path.name for path in results.iterdir()) == ["other.jsonl", "tiny.jsonl"]
    assert records(results) == records(tmp_path / "store")
    assert [one["cell"]["split"] for one in records(results) if one["cell"]["method"] == "bdkn"] == [0, 0, 1, 2]
    rebuilt = Store(tmp_path / "rebuilt")
    assert unpack(results, rebuilt) == 6
    assert unpack(results, rebuilt) == 0
    assert list(rebuilt) == list(store)


def test_what_records_share_is_written_once(tmp_path):
    store = Store(tmp_path / "store")
    for split in range(3):
        store.put(record(split))
    pack(store, tmp_path / "results")
    text = (tmp_path / "results" / "tiny.jsonl").read_text()
    assert [text.count(word) for word in ('"numpy"', '"cores"', '"regressor"', '"rmse"')] == [1, 1, 1, 3]


def test_packing_again_keeps_replaces_and_drops(tmp_path):
    first, second, results = Store(tmp_path / "1"), Store(tmp_path / "2"), tmp_path / "results"
    first.put(record(0, metrics={"rmse": 1.0}))
    first.put(record(1, metrics={"rmse": 1.0}))
    pack(first, results)
    second.put(record(1, metrics={"rmse": 2.0}))
    second.put(record(2, metrics={"rmse": 2.0}))
    assert pack(second, results) == 3
    assert [one["metrics"]["rmse"] for one in records(results)] == [1.0, 2.0, 2.0]
    assert pack(second, results, keys={cell(split=1).key, cell(split=2).key}) == 2
    assert [one["cell"]["split"] for one in records(results)] == [1, 2]


@pytest.mark.parametrize("damage", ["", "not json\n", '{"format":"other"}\n', "first line only"])
def test_a_damaged_file_is_named(tmp_path, damage):
    store = Store(tmp_path / "store")
    store.put(record())
    pack(store, tmp_path / "results")
    path = tmp_path / "results" / "tiny.jsonl"
    path.write_text(path.read_text().splitlines()[0] if damage == "first line only" else damage)
    with pytest.raises(InvalidParameterError, match=r"tiny.jsonl must hold records as 'bdkn-paper pack' writes"):
        records(tmp_path / "results")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "1 of the 2 records of its last group"),
        (lambda lines: [*lines, *lines[:2]], "1 of the 2 records of its last group"),
        (lambda lines: [*lines, *lines[:3]], "two records of one cell, tiny: bdkn on waves, split 0"),
        (
            lambda lines: [lines[0].replace(':2,"common"', ':null,"common"'), *lines[1:]],
            "records must be a whole number",
        ),
        (
            lambda lines: [lines[0].replace('"version":1', '"version":2'), *lines[1:]],
            "another format, 'bdkn records' 2",
        ),
        (lambda lines: lines[1:], "got 'format'"),
    ],
)
def test_a_group_of_lines_is_whole_and_there_once(tmp_path, change, message):
    store, path = Store(tmp_path / "store"), tmp_path / "results" / "tiny.jsonl"
    for one in (record(0), record(1), record(0, method="de"), record(1, method="de")):
        store.put(one)
    pack(store, path.parent)
    lines = path.read_text().splitlines()
    assert len(lines) == 6
    path.write_text("\n".join(change(lines)))
    with pytest.raises(InvalidParameterError, match=message):
        records(path.parent)


def test_records_of_other_methods_stay_in_the_file_of_their_experiment(tmp_path):
    results = tmp_path / "results"
    for name, one in {"1": record(0), "2": record(0, method="de", hardware={"cores": 8})}.items():
        store = Store(tmp_path / name)
        store.put(one)
        pack(store, results)
    assert records(results) == [record(0), record(0, method="de", hardware={"cores": 8})]


def test_records_must_be_somewhere(tmp_path):
    with pytest.raises(InvalidParameterError, match="run 'bdkn-paper run FILE' first"):
        records(tmp_path / "nowhere")


def test_two_that_pack_into_one_folder_wait_for_each_other(tmp_path):
    pytest.importorskip("fcntl")
    stores = [Store(tmp_path / name) for name in ("first", "second")]
    for split, store in enumerate(stores):
        store.put(record(split))
    pack(stores[0], tmp_path / "elsewhere")
    (packed,) = (tmp_path / "elsewhere").rglob("*.jsonl")
    folder = tmp_path / "results"
    folder.mkdir()
    thread = threading.Thread(target=pack, args=(stores[1], tmp_path / "results"))
    with locked(folder):  # as the first one does while it adds its records
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()  # it waits, however fast it is
        (folder / packed.name).write_bytes(packed.read_bytes())
    thread.join()
    assert [one["cell"]["split"] for one in records(tmp_path / "results")] == [0, 1]


def test_a_record_that_the_disk_does_not_give_ends_the_packing(tmp_path, monkeypatch):
    told = []
    store = Store(tmp_path / "store", told.append)
    for split in range(2):
        store.put(record(split))
    (tmp_path / "store" / "00").mkdir(exist_ok=True)
    (tmp_path / "store" / "00" / "loop.json").symlink_to("loop.json")
    assert pack(store, tmp_path / "whole") == 2
    assert len(told) == 1  # the link, which leads nowhere

    def fail(path, _most):
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(store_module, "read_file", fail)
    with pytest.raises(OSError, match="Input/output error"):
        pack(store, tmp_path / "results")
    assert not list(tmp_path.glob("results/**/*.jsonl"))
