import io
import time

import numpy as np
import pytest
from quick import BOTH, EACH, QUICK, grouped, table
from rich.console import Console

from bdkn.networks import EpochReport
from bdkn.networks.job import training_progress

X, y = table()


def test_the_progress_bar_shows_network_epoch_loss_and_time():
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=120)
    with training_progress(3, 40, console) as on_epoch:
        for epoch in range(20):
            on_epoch(EpochReport(job=1, epoch=epoch, loss=0.12345, validation_loss=None, mean=None, variance=None))
        deadline = time.monotonic() + 120
        while "epoch 20/40" not in shown.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)
    text = shown.getvalue()
    assert "network 2/3, epoch 20/40, loss 0.1235" in text
    assert "0:00:00" in text
    assert "trained 3 networks" in text


@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize("engine", ["fused", "reference"])
def test_verbose_writes_to_standard_error_only(cls, engine, capfd):
    model = cls(**grouped(**QUICK, engine=engine, verbose=1)).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert f"trained {15 if getattr(model, 'design', None) == 'cross-fit' else 3} networks" in err


@pytest.mark.parametrize("cls", EACH)
def test_silent_by_default(cls, capfd):
    cls(**grouped(**QUICK, engine="reference")).fit(X, y)
    assert capfd.readouterr() == ("", "")


def test_watching_changes_nothing():
    loud, quiet = (BOTH[0](**grouped(**QUICK, verbose=verbose)).fit(X, y).predict(X) for verbose in (True, False))
    np.testing.assert_array_equal(loud, quiet)
