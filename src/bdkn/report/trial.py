"""A trial: several models fitted to the training rows of a split and scored on its test rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

from bdkn.metrics import predictive_of
from bdkn.predictive import Predictive
from bdkn.report.compare import Score, compare
from bdkn.report.constant import ConstantGaussian
from bdkn.report.split import Split


@dataclass(frozen=True, eq=False)
class Trial:
    """Fitted models and the times of their fits. Figures show details of the first model, a ``BDKNRegressor``."""

    data: Split
    models: Mapping[str, Any]
    seconds: Mapping[str, float]

    @property
    def first(self) -> str:
        """Name of the first model."""
        return next(iter(self.models))

    @cached_property
    def scores(self) -> list[Score]:
        """The scores of all models on the test rows."""
        return compare(self.models, self.data.X_test, self.data.y_test, seconds=self.seconds)

    @property
    def with_inputs(self) -> list[str]:
        """Names of the models that use inputs: all but ``ConstantGaussian``."""
        return [name for name, model in self.models.items() if not isinstance(model, ConstantGaussian)]

    @property
    def expressions(self) -> dict[str, str]:
        """The Python expression that creates each model, by name."""
        return {name: repr(_silent(model)) for name, model in self.models.items()}

    def predictive(self, name: str) -> Predictive:
        """Return the distributions that a model predicts for the test rows."""
        return predictive_of(self.models[name], self.data.X_test)


def fit_models(
    models: Mapping[str, Any], data: Split, before_fit: Callable[[str], object] = lambda name: None
) -> Trial:
    """Fit the models to the training rows, one after the other; ``before_fit`` is called with the name of each."""
    seconds = {}
    for name, model in models.items():
        before_fit(name)
        start = perf_counter()
        model.fit(data.X_train, data.y_train)
        seconds[name] = perf_counter() - start
    return Trial(data, models, seconds)


def warm_up(models: Mapping[str, Any], data: Split) -> None:
    """Train copies of all models for one epoch, so that no fit time includes the compilation."""
    for model in models.values():
        if hasattr(model, "epochs"):
            _silent(model).set_params(epochs=1).fit(data.X_train, data.y_train)


def _silent(model: Any) -> Any:
    """Return an unfitted copy that shows no progress."""
    from sklearn.base import clone

    return clone(model).set_params(verbose=0) if hasattr(model, "verbose") else model
