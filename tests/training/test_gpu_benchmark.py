"""The benchmark of GPUs runs, here with tiny sizes on an emulated device, and continues an earlier run."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="the emulation of a GPU needs g++")


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = importlib.import_module("gpu")
    yield found
    for name in ("gpu", "gpu_fits", "gpu_rivals", "engine"):
        sys.modules.pop(name, None)


def test_each_part_is_measured_once(script, tmp_path, capsys):
    options = ["--emulated", "--write", "--results", str(tmp_path)]
    script.main([*options, "--parts", "steps"])
    record = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    assert list(record["steps"]) == ["8-50-50-2, 1 networks", "8-50-50-2, 3 networks"]
    assert all(found["launches"] >= 1 for found in record["steps"].values())
    capsys.readouterr()
    script.main([*options, "--parts", "steps,fits"])
    assert capsys.readouterr().out.startswith("fits 1000 members")
    again = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    assert again["steps"] == record["steps"]
    assert again["fits"]["1000 members, 506 x 13 (as Boston)"]["seconds"] > 0
    assert "| 8-50-50-2, 3 networks |" in (tmp_path / "gpu.md").read_text("utf-8")


def test_nothing_is_begun_when_time_is_up(script, tmp_path, capsys):
    script.main(["--emulated", "--minutes", "-1", "--results", str(tmp_path)])
    assert "time is up" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_rivals_run_in_processes_of_their_own(script):
    pytest.importorskip("torch")
    from engine import Work

    work = Work("small", rows=200, inputs=3, hidden=(5,), members=2)
    found = script.rivals(work, "cpu", steps=6)
    assert found["torch, baddbmm, CUDA graph"] == "there is no CUDA device"
    assert 0.0 < found["torch, baddbmm, eager"]() < 10.0


def test_the_reason_for_a_failed_rival_is_recorded_and_the_others_are_measured(script, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    setting = script.get_setting(script.parse(["--emulated"]))
    monkeypatch.setattr(script.Setting, "torch_name", "cuda:0")
    every, graph = script.rivals, "torch, baddbmm, CUDA graph"  # which would be another process that fails likewise
    monkeypatch.setattr(script, "rivals", lambda *given: {**every(*given), graph: "left to the other"})
    found = script.against_rivals(setting, script.replace(script.SHAPES[0], members=2, rows=64))["us_per_step"]
    assert np.isfinite(found["bdkn"])  # the difference of two times, which is negative on a busy machine
    assert "Error: " in found["torch, baddbmm, eager"]
    assert found[graph] == "left to the other"


def test_the_page_has_all_parts(script):
    step = {"share_of_flops": 0.1, "share_of_shared_bytes": 0.4, "launches": 1, "us_per_step": 12.4}
    column = {
        "splits": 20,
        "rows": 455,
        "seconds": 0.5,
        "minutes printed": 1.0,
        "data": "real",
        "rmse": 3.0,
        "nll": 2.5,
    }
    text = script.page(
        {
            "device": "a GPU",
            "machine": "a machine",
            "steps": {"one": {**step, "us_per_member_step": 12.4, "start_s": 0.1}},
            "rivals": {"five": {"us_per_step": {"bdkn": 10.0, "torch": 200.0, "JAX": "not installed"}}},
            "paper": {f"setting 1, {name}": column for name in script.gpu_fits.SETS},
            "fits": {"a fit": {"seconds": 3.0, "stages": {"train": 2.0}, "members in use": 8}},
        }
    )
    assert "| torch | 200.0 | 20.0 |" in text
    assert "| JAX | not installed |  |" in text
    assert "Setting 1, all ten sets: 5.0 s, against 10 minutes printed." in text
    assert "| a fit | 3.0 | 2.0 | 8 |" in text
