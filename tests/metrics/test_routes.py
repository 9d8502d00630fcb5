"""The way from an estimator that wraps a regressor to the regressor, step by step."""

from __future__ import annotations

from types import SimpleNamespace

from bdkn.metrics.estimators import route_of

MODEL = SimpleNamespace(predict_dist=None)


def adding(number):
    """Return a step that adds a number to its rows."""
    return SimpleNamespace(transform=lambda X: X + number)


def wrapped(number, inner):
    """Return the ways in which an estimator may stand around another, with a step before it where there is one."""
    yield SimpleNamespace(steps=[("add", adding(number)), ("model", inner)]), number
    yield SimpleNamespace(steps=[("none", None), ("pass", "passthrough"), ("model", inner)]), 0.0
    yield SimpleNamespace(best_estimator_=inner), 0.0
    yield SimpleNamespace(estimator_=inner, transform=lambda X: X + number), number
    yield SimpleNamespace(estimator_=inner), 0.0


def test_rows_go_through_every_step_or_through_none():
    for inner, first in wrapped(1.0, MODEL):
        for outer, second in wrapped(10.0, inner):
            route = route_of(outer, 0.0)
            assert route.regressor is MODEL
            assert first + second == route.X
            assert route_of(outer, 0.0, rows=False).X == 0.0
