import argparse
import json
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="limits of memory are POSIX")

GOLDEN = Path(__file__).parents[1] / "golden" / "files"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two small model files, which takes no fit."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("bdkn-small.bdkn", "ensemble-default.bdkn"):
        (folder / name).write_bytes((GOLDEN / name).read_bytes())
    (folder / "made").touch()
    return folder


@pytest.fixture
def trials(folder, monkeypatch):
    import _model_file_trials as module

    monkeypatch.setattr(module.resource, "setrlimit", lambda *_: None)  # of a process that runs other tests, too
    return module.Trials(folder)


@pytest.mark.no_cover
def test_changed_files_are_refused_or_load_to_the_same_model_each_time(trials):
    outcomes = Counter(trials.outcome(number).partition(":")[0] for number in range(150))
    assert not [name for name in outcomes if name.startswith("WRONG")]
    assert outcomes["refused"] > 50
    assert outcomes["same predictions"] + outcomes["another model"] > 10


def test_a_fault_is_seen(trials, monkeypatch):
    import _model_file_trials as module

    def restore(*_):
        raise KeyError("forgotten")

    monkeypatch.setattr(module, "restore", restore)
    content = module.container(module.Content(trials.originals[0].arrays, trials.originals[0].document))
    assert module.judge(trials.originals[0], content, False) == "WRONG load raised KeyError"


def test_a_crash_is_counted_and_the_trials_behind_it_are_run(folder, tmp_path, monkeypatch):
    import model_files

    place = tmp_path / "at"
    script = tmp_path / "dies.py"
    source = "import json, os, sys\nopen(sys.argv[3], 'w').write(json.dumps([7, {'fine': 7}]))\nos.abort()\n"
    script.write_text(source, encoding="utf-8")
    monkeypatch.setattr(model_files, "__file__", str(script))
    after, outcomes = model_files._run_process(folder, place, 0, 20)
    assert after == 8
    assert outcomes == {"fine": 7, "WRONG killed by signal 6 in trial 7": 1}


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    import model_files

    def no_more(*_):
        raise AssertionError("this chunk was run before")

    monkeypatch.setattr(model_files, "run_chunk", no_more)
    chunk = json.dumps({"outcomes": {"refused:names": 5}, "seconds": 2.0})
    (tmp_path / "chunk-000000000500.json").write_text(chunk, encoding="utf-8")
    given = argparse.Namespace(first=500, minutes=float("inf"), scale=1e-5, jobs=1)
    assert model_files.run_trials(tmp_path, given) == ({"refused:names": 5}, 2.0)


def test_without_time_no_trial_begins(tmp_path):
    import model_files

    given = argparse.Namespace(first=0, minutes=0.0, scale=1e-5, jobs=1)
    assert model_files.run_trials(tmp_path, given) == ({}, 0.0)
