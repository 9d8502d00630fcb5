import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny import QUICK, TinySource, cell, numbers

from bdkn_paper.experiments import DataSource, load_experiment, pending, run_cells
from bdkn_paper.store import Store, records

MANY = Path(__file__).parent / "quick.toml"  # cells so short that starting a process takes longer than all of them


def statuses(outcomes):
    return {(outcome.cell.dataset, outcome.cell.split): outcome.status for outcome in outcomes}


def start(store, *words):
    """Start a run of many cells in a process of its own."""
    command = [sys.executable, "-m", "bdkn_paper", "run", str(MANY), "--store", str(store), "--quiet", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return what an uninterrupted run of many cells in this process leaves."""
    store, source = Store(tmp_path_factory.mktemp("expected")), DataSource()
    cells = load_experiment(MANY).cells(source)
    assert {outcome.status for outcome in run_cells(cells, store, source)} == {"done"}
    return numbers(records(store.folder))


def test_done_is_done(tmp_path):
    store, source = Store(tmp_path), TinySource()
    cells = [cell(split=split) for split in range(3)]
    assert statuses(run_cells(cells[:2], store, source)) == {("waves", 0): "done", ("waves", 1): "done"}
    assert pending(cells, store) == cells[2:]
    before = source.loads
    assert statuses(run_cells(cells, store, source)) == {("waves", 2): "done"}
    assert source.loads == before + 1
    assert list(run_cells(cells, store, source)) == []


def test_a_failing_cell_stops_nothing(tmp_path):
    store = Store(tmp_path)
    bad, worse = cell(parameters={**QUICK, "activation": "rleu"}), cell(split=1, parameters={"epochs": "many"})
    outcomes = list(run_cells([bad, cell(split=2), worse], store, TinySource()))
    assert statuses(outcomes) == {("waves", 0): "failed", ("waves", 1): "failed", ("waves", 2): "done"}
    messages = [outcome.message for outcome in sorted(outcomes, key=lambda outcome: outcome.cell.split)]
    assert "did you mean 'relu'?" in messages[0]
    assert "epochs, if a string, must be 'auto'; got 'many'" in messages[1]
    assert "Traceback" in store.get(bad)["traceback"]
    assert pending([bad], store) == []
    assert pending([bad], store, retry_failed=True) == [bad]
    assert [outcome.status for outcome in run_cells([bad], store, TinySource(), retry_failed=True)] == ["failed"]


def test_missing_data_leave_no_record(tmp_path):
    store = Store(tmp_path)
    cells = [cell(dataset="missing"), cell()]
    outcomes = list(run_cells(cells, store, TinySource()))
    assert statuses(outcomes) == {("missing", 0): "no data", ("waves", 0): "done"}
    assert {outcome.message for outcome in outcomes} == {"", "no file missing.csv.gz; fetch it"}
    assert pending(cells, store) == [cells[0]]


def test_the_longest_come_first(tmp_path):
    cells = [cell(split=split, parameters={**QUICK, "epochs": epochs}) for split, epochs in enumerate((2, 9, 5))]
    outcomes = run_cells(cells, Store(tmp_path), TinySource())
    assert [outcome.cell.parameters["epochs"] for outcome in outcomes] == [9, 5, 2]


def test_processes_change_no_number(tmp_path, expected):
    source, store = DataSource(), Store(tmp_path)
    cells = load_experiment(MANY).cells(source)
    bad = cell(dataset="diabetes", parameters={"epochs": 0})
    outcomes = list(run_cells([*cells, bad], store, source, jobs=2))
    assert [outcome.cell for outcome in outcomes if outcome.status != "done"] == [bad]
    assert [one for one in numbers(records(tmp_path)) if one[1] == "done"] == expected


def test_cells_are_tasks_of_a_cluster(tmp_path):
    distributed = pytest.importorskip("distributed")
    store, source = Store(tmp_path), TinySource()
    cells = [cell(), cell(split=1), cell(dataset="missing"), cell(parameters={"epochs": 0})]
    with (
        distributed.LocalCluster(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        outcomes = list(run_cells(cells, store, source, client=client))
        assert sorted(outcome.status for outcome in outcomes) == ["done", "done", "failed", "no data"]
        assert list(run_cells(cells[:2], store, source, client=client)) == []
    alone = Store(tmp_path / "alone")
    list(run_cells(cells[:2], alone, TinySource()))
    assert [one for one in numbers(records(tmp_path)) if one[1] == "done"] == numbers(records(alone.folder))


def test_two_runners_on_one_store(tmp_path, expected):
    runner, source, store = start(tmp_path, "--jobs", "1"), DataSource(), Store(tmp_path)
    assert until(lambda: count(tmp_path) > 0 or runner.poll() is not None)
    outcomes = list(run_cells(load_experiment(MANY).cells(source), store, source))
    output, errors = runner.communicate(timeout=600)
    assert runner.returncode == 0, errors
    assert output.startswith("40 cells: ")
    assert {outcome.status for outcome in outcomes} <= {"done"}
    assert numbers(records(tmp_path)) == expected


def test_what_another_runner_did_meanwhile_is_found(tmp_path):
    store, both = Store(tmp_path), [cell(split=0), cell(split=1)]
    first = run_cells(both, store, TinySource())
    one = next(first)
    (other,) = run_cells(both, store, TinySource())
    assert {one.cell.split, other.cell.split} == {0, 1}
    assert [outcome.found for outcome in (one, other, *first)] == [False, False, True]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_and_run_again(tmp_path, expected, jobs):
    chance, source, store = random.Random(int(jobs)), DataSource(), Store(tmp_path)
    enough = chance.randint(1, 6)
    runner = start(tmp_path, "--jobs", jobs)
    while runner.poll() is None and count(tmp_path) < enough:
        time.sleep(0.002)
    time.sleep(chance.uniform(0, 0.01))
    workers = children(runner.pid)
    runner.send_signal(signal.SIGKILL)
    runner.communicate()
    assert runner.returncode == -signal.SIGKILL
    assert until(lambda: not any(map(alive, workers)))
    assert 0 < count(tmp_path) < 40
    assert {outcome.status for outcome in run_cells(load_experiment(MANY).cells(source), store, source)} == {"done"}
    assert numbers(records(tmp_path)) == expected


def count(folder):
    """Return how many records there are."""
    return len(list(folder.glob("??/*.json")))


def until(holds, seconds=120):
    """Wait for something and tell whether it came."""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.002)
    return holds()


def children(parent):
    """Return the processes started by another, none where the system does not show them."""
    path = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_worker_outlives_no_parent(monkeypatch):
    from bdkn_paper.experiments import runner

    ended, parents = [], iter([7, 7, 7])
    monkeypatch.setattr(runner, "_PARENT_CHECK_S", 0.01)
    monkeypatch.setattr(runner.os, "_exit", ended.append)
    monkeypatch.setattr(runner.os, "getppid", lambda: next(parents, 1))
    runner._exit_with.__wrapped__(7)
    assert until(lambda: ended == [1])
    runner._exit_with.__wrapped__(7)  # a process that is nobody's worker is left alone
    time.sleep(0.05)
    assert ended == [1]
