"""The baselines as cells of the benchmark."""

import numpy as np
import pytest
from sine import EVERY, QUICK, table

from bdkn.bench import Cell, Task
from bdkn.bench.evaluate import evaluate
from bdkn.bench.machine import accelerator

X, y = table(60)
TASK = Task(X, y, [(np.arange(45), np.arange(45, 60))])


def cell(cls, **changes):
    given = {"regressor": cls.__name__, "parameters": {**QUICK[cls], "epochs": 5}} | changes
    return Cell(experiment="tiny", method=cls.paper_name, dataset="waves", split=0, **given)


@pytest.mark.parametrize("cls", EVERY)
def test_a_cell_gives_a_record(cls):
    record = evaluate(cell(cls), TASK)
    assert record["status"] == "done", record.get("traceback")
    assert record["warnings"] == []
    assert set(cls.packages) <= set(record["versions"])
    assert 1 <= record["model"]["epochs"] <= 5
    assert record["model"]["noise"] > 0
    assert np.isfinite(record["metrics"]["nll"])
    again = evaluate(cell(cls), TASK)
    assert again["metrics"] == record["metrics"]


@pytest.mark.parametrize("cls", EVERY)
def test_a_cell_of_the_paper(cls):
    record = evaluate(cell(cls, base={"from_paper": 2}, parameters={"learning_rate": 0.01, "epochs": 3}), TASK)
    assert record["status"] == "done", record.get("traceback")


def test_the_device_is_in_the_record():
    assert accelerator(None) == accelerator("cpu") == {}
    assert accelerator("mps") == {"device": "mps"}
