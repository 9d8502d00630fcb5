"""A short run of tests/stress/cycles.py."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.filterwarnings("ignore::bdkn.errors.OutsideDataWarning")
def test_three_cycles_are_right_and_leaks_are_told(tmp_path: Path) -> None:
    cycles = importlib.import_module("cycles")
    done = cycles.Cycles()
    for number in range(3):
        done.add(cycles.cycle(number, tmp_path))
    done.readings.append(cycles.Reading.now(0.0))
    assert {figure.wrong for figure in done.figures()} == {0}
    assert done.done["fit"] == 3
    assert done.done["forget"] == done.done["save and load"] == 2
    leaking = [cycles.Reading(k, 300.0 + k, 6, 2) for k in range(60)]
    assert [figure.wrong for figure in cycles.memory_figures(leaking)] == [1, 0, 0]
