"""A short run of tests/stress/serve.py."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.no_cover
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_two_seconds_of_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")]))
    serve, record = importlib.import_module("serve"), importlib.import_module("record").Record("serve", "", "")
    monkeypatch.setattr(serve, "REPLACE_EVERY", 0.5)
    monkeypatch.setattr(serve, "CLIENTS", 2)
    monkeypatch.setattr(serve, "BODIES", 5)
    serve.run(record, 2.0, 20.0)
    assert {figure.wrong for figure in record.figures} == {0}
    assert {"requests", "replacements of the model", "restarts"} <= {figure.what for figure in record.figures}
