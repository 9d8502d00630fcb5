"""``monitor`` of a regressor: batches before they are absorbed."""

from __future__ import annotations

import numpy as np
import pytest

from bdkn import BayesianStackingRegressor, Monitor
from bdkn.errors import InvalidParameterError


def rows(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, X[:, 0] + shift + 0.3 * rng.normal(size=n)


def make(y=None, **params):
    members = [("line", lambda X: X[:, 0]), ("level", lambda X: np.zeros(len(X)))]
    model = BayesianStackingRegressor(members, density="student-t", random_state=0, **params)
    X, targets = rows(300, 0)
    return model.fit(X, targets if y is None else y(targets))


def test_a_model_that_is_right_has_no_alarm_until_targets_move():
    model, monitor = make(), Monitor()
    for seed in range(1, 6):
        X, y = rows(100, seed)
        report = model.monitor(X, y, monitor)
        assert not report.alarm
        assert report.outside < 0.2
        model.partial_fit(X, y)
    np.testing.assert_allclose(report.log_score, make().log_score(X, y), atol=0.1)
    X, y = rows(100, 9, shift=0.5)
    assert model.monitor(X, y, monitor).alarm
    assert monitor.n == 600


def test_rows_outside_are_counted():
    X, y = rows(50, 1)
    X[:25] += 10.0
    assert make().monitor(X, y).outside == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("kind", ["lattice", "masses"])
def test_values_have_uniform_transforms(kind):
    change = (lambda y: np.round(2.0 * y)) if kind == "lattice" else (lambda y: np.maximum(y, 0.0))
    model = make(change, target="identity")
    assert model.target_values_ is not None
    monitor = Monitor()
    for seed in range(1, 5):
        X, y = rows(200, seed)
        model.monitor(X, change(y), monitor)
    counts = np.sum([report.pit_counts for report in monitor.reports], axis=0)
    assert np.abs(counts / 800 - 0.1).max() < 0.05
    assert not monitor.alarm


def test_wrong_number_of_targets():
    X, _ = rows(5, 0)
    with pytest.raises(InvalidParameterError, match="one target for each of the 5 rows of X; got 3"):
        make().monitor(X, [1.0, 2.0, 3.0])
