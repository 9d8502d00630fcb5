"""Models of any kind as members: scikit-learn regressors, PyTorch modules, plain functions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import InvalidParameterError
from bdkn.typing import FloatArray

Said = tuple[FloatArray, FloatArray | None]
"""Means and, from a model that knows any, standard deviations, whose squares may be beyond what a number can be."""


@dataclass(frozen=True, eq=False)
class EstimatorMember:
    """One member, a fitted model or the average of one from every fold; it is given rows as they are.

    ``std_factor`` is what its standard deviations are multiplied by, nan where they tell nothing and are not used.
    """

    name: str
    models: tuple[Any, ...]
    std_factor: float = 1.0

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray | None]:
        """Return each row's mean and, where the models know one, its variance.

        Where the member is an average over folds, its variance is theirs together with that of their means.
        """
        means, stds = self.by_fold(X)
        with np.errstate(over="ignore", under="ignore"):
            return means.mean(axis=0), None if stds is None else (stds**2).mean(axis=0) + means.var(axis=0)

    def by_fold(self, X: Any) -> Said:
        """Return means and standard deviations of every model, each (folds, n)."""
        said = [ask(model, X, self.name) for model in self.models]
        means, stds = zip(*said, strict=True)
        if np.isnan(self.std_factor) or any(part is None for part in stds):
            return np.stack(means), None
        return np.stack(means), self.std_factor * np.stack(stds)


def ask(model: Any, X: Any, name: str = "a member") -> Said:
    """Return what a fitted model says about rows: a mean each and, if it knows one, a standard deviation."""
    try:
        answer = _way_to_ask(model)(X)
    except Exception as error:
        error.add_note(f"raised by member {name!r}, asked about {X.shape[0]} rows")
        raise
    mean, std = answer if isinstance(answer, tuple) else (answer, None)
    n = X.shape[0]
    return _one_a_row(mean, n, name), None if std is None else _one_a_row(std, n, name)


def is_fixed(model: Any) -> bool:
    """Tell whether a model can only be used as it is: a function, a PyTorch module, whatever has no ``fit``."""
    return not (hasattr(model, "fit") and hasattr(model, "predict"))


def check_model(model: Any, name: str) -> None:
    """Raise unless the model is something a member can be made of."""
    if isinstance(model, type):
        raise InvalidParameterError(f"member {name!r} must be an object; got the class: write {model.__name__}()")
    if not (hasattr(model, "predict") or callable(model)):
        raise InvalidParameterError(
            f"member {name!r} must be a regressor with fit and predict, a PyTorch module, or a function from rows to "
            f"means or to (means, standard deviations); got {model!r}"
        )


def _way_to_ask(model: Any) -> Callable[[Any], Any]:
    if is_fixed(model) and _is_torch_module(model):
        return partial(_forward, model)
    if not hasattr(model, "predict"):
        return partial(model)
    found = getattr(model, "best_estimator_", model)  # neither a search nor a pipeline says what it passes on
    last = found[-1] if hasattr(found, "steps") else found
    if not _knows_std(last):
        return partial(model.predict)
    if last is found or len(found) == 1:
        return partial(_predict_std, last)
    return lambda X: _predict_std(last, found[:-1].transform(X))


def _predict_std(model: Any, X: Any) -> Any:
    """Return means and standard deviations; models that calculate with a polars frame itself are given an array."""
    try:
        return model.predict(X, return_std=True)
    except Exception:
        if not type(X).__module__.startswith("polars"):
            raise
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")  # they were checked
        return model.predict(X.to_numpy(), return_std=True)


def _knows_std(model: Any) -> bool:
    try:
        return "return_std" in inspect.signature(model.predict).parameters
    except ValueError:  # compiled code may not tell
        return False


def _is_torch_module(model: Any) -> bool:
    return any((cls.__module__, cls.__name__) == ("torch.nn.modules.module", "Module") for cls in type(model).__mro__)


def _forward(module: Any, X: Any) -> Any:
    """Return what a PyTorch module says in evaluation mode, on its own device and in its own precision."""
    import torch

    like = next(module.parameters(), torch.zeros(0))
    in_training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with torch.no_grad():
            answer = module(torch.as_tensor(np.asarray(X), dtype=like.dtype, device=like.device))
    finally:
        for part in in_training:
            part.training = True
    return tuple(part.cpu().numpy() for part in answer) if isinstance(answer, tuple) else answer.cpu().numpy()


def _one_a_row(numbers: ArrayLike, n: int, name: str) -> FloatArray:
    column = np.asarray(numbers, dtype=np.float64)
    if column.shape not in ((n,), (n, 1)):
        raise InvalidParameterError(
            f"member {name!r} must predict one number a row, shape ({n},) or ({n}, 1); got shape {column.shape}: wrap "
            "it in a function that returns means, or (means, standard deviations)"
        )
    return column.reshape(n)
