"""A short run of tests/stress/load.py."""

from __future__ import annotations

import importlib

import numpy as np
import pytest


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore::bdkn.errors.OutsideDataWarning")
def test_wrong_bits_are_counted_and_right_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    load, record = importlib.import_module("load"), importlib.import_module("record").Record("load", "", "")

    class Drifting:
        calls = 0

        def predict(self, X: np.ndarray, return_std: bool = True) -> tuple[np.ndarray, np.ndarray]:
            self.calls += 1
            return X[:, 0] + (self.calls > 8), X[:, 1]

        def predict_interval(self, X: np.ndarray) -> np.ndarray:
            return X[:, :2]

    load.hold(record, "drifting", Drifting(), 3, 64)
    load.change(record, 0.5)
    assert [figure.wrong for figure in record.figures] == [record.figures[0].tried, 0]
    assert record.figures[0].tried == 5 * 64
    assert record.figures[1].tried > 0
