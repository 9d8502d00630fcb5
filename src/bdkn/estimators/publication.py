"""How a regressor publishes what a fit has found: in one assignment, so that no thread ever sees a part of it.

All attributes of a regressor lie in one dictionary. A fit works on a snapshot, with a dictionary of its own, and in the
end the regressor is given another dictionary. Methods that predict or report work on a snapshot too, which they take
when they are called: they see the state before a fit or an update, or the state after it, and nothing in between.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

from bdkn.networks.engines import prediction_device
from bdkn.networks.mlp import predict_on

Model = TypeVar("Model")
Method = TypeVar("Method", bound=Callable[..., Any])
Attributes = dict[str, Any]

_PUBLISHING = threading.Lock()
"""Held while an attribute dictionary is compared and replaced; never while anything is computed."""


def snapshot(model: Model) -> Model:
    """Return an object with the attributes that a model has now, which no later fit of the model changes."""
    frozen = object.__new__(type(model))
    frozen.__dict__ = model.__dict__.copy()
    return frozen


def of_one_state(method: Method) -> Method:
    """Return a method that runs on a snapshot of its object: whatever it reads belongs to one fitted state."""

    @functools.wraps(method)
    def on_snapshot(self: Any, *args: Any, **options: Any) -> Any:
        with predictions_of(self):
            return method(snapshot(self), *args, **options)

    return cast(Method, on_snapshot)


def predictions_of(model: Any) -> AbstractContextManager[None]:
    """Return the context in which the networks of a model predict: on the GPU, if its engine is for one."""
    return predict_on(prediction_device(getattr(model, "engine", "fused")))


def publish(model: Any, fit: Callable[[Any], object]) -> None:
    """Call ``fit`` with a snapshot of the model; give the model the state that it returns, and what it set, at once.

    If ``fit`` raises, the model does not change. Parameters that were set meanwhile stay.
    """
    before = snapshot(model)
    after = _fitted(before, fit)
    with _PUBLISHING:
        model.__dict__ = _joined(before, after, model)


def publish_update(model: Any, change: Callable[[Any], object]) -> None:
    """Like ``publish``, for a state that depends on the former one: if that was replaced meanwhile, begin again."""
    while True:
        before = snapshot(model)
        after = _fitted(before, change)
        with _PUBLISHING:
            if model.__dict__.get("fitted_") is before.__dict__.get("fitted_"):
                model.__dict__ = _joined(before, after, model)
                return


def _fitted(before: Model, fit: Callable[[Model], object]) -> Model:
    after: Any = snapshot(before)
    with predictions_of(after):
        after.fitted_ = fit(after)
    return cast(Model, after)


def _joined(before: Any, after: Any, now: Any) -> Attributes:
    """Return the parameters as they are now, those that a fit has changed, and the fitted attributes of the fit."""
    old, missing = vars(before), object()
    parameters = {name: value for name, value in vars(now).items() if not name.endswith("_")}
    found = {
        name: value for name, value in vars(after).items() if name.endswith("_") or old.get(name, missing) is not value
    }
    return {**parameters, **found}
