"""Estimators of any kind as members of an ensemble."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import InvalidParameterError, no_extrapolation_warnings
from bdkn.predictive import Gaussian, IdentityLink, Transformed
from bdkn.predictive.links import IDENTITY, Link
from bdkn.storage.fields import Number, Part, sizes, stored
from bdkn.typing import FloatArray

MeanStd = tuple[FloatArray, FloatArray | None]
"""Means and, if the model has them, standard deviations; their squares may overflow."""


class Member(Protocol):
    """Anything that predicts, for rows of the user's table, means and perhaps variances in the units of the target."""

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray | None]:
        """Return the mean of each row and its variance (None if the member has none of its own)."""


@stored
@dataclass(frozen=True, eq=False)
class EstimatorMember:
    """A fitted model as a member, or the average of one fitted model per fold. It receives rows of the user's table.

    Its standard deviations are multiplied by ``std_factor``; with nan they are not used. The models predict the target
    transformed by the ``link``.
    """

    name: str
    models: Annotated[tuple[Annotated[Any, Part("SavedModel")], ...], sizes(F=len)]
    std_factor: Annotated[float, Number(low=0.0, nan=True)] = 1.0
    link: Link = IDENTITY

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray | None]:
        """Return the mean of each row and, if the models have one, its variance.

        If the member is an average over folds, its variance is the folds' average plus the variance of their means.
        """
        means, stds = self.by_fold(X)
        with np.errstate(over="ignore", under="ignore"):
            mean, var = means.mean(axis=0), None if stds is None else (stds**2).mean(axis=0) + means.var(axis=0)
        if isinstance(self.link, IdentityLink):
            return mean, var
        if var is None:
            return self.link.inverse(mean), None
        dist = Transformed(Gaussian(mean, np.sqrt(var)), self.link)
        return dist.mean(), dist.var()

    def by_fold(self, X: Any) -> MeanStd:
        """Return means and standard deviations of every model, each (folds, n), of the transformed target."""
        predicted = [predict_mean_std(model, X, self.name) for model in self.models]
        means, stds = zip(*predicted, strict=True)
        if np.isnan(self.std_factor) or any(part is None for part in stds):
            return np.stack(means), None
        return np.stack(means), self.std_factor * np.stack(stds)


def predict_mean_std(model: Any, X: Any, name: str = "a member") -> MeanStd:
    """Return the means that a fitted model predicts and, if it has them, standard deviations."""
    try:
        with no_extrapolation_warnings(), np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused
            answer = _predict_function(model)(X)
    except Exception as error:
        error.add_note(f"raised by member {name!r}, predicting {X.shape[0]} rows")
        raise
    mean, std = answer if isinstance(answer, tuple) else (answer, None)
    n = X.shape[0]
    return _one_per_row(mean, n, name), None if std is None else _one_per_row(std, n, name)


def is_fixed(model: Any) -> bool:
    """Return whether a model can only be used as it is: a function, a PyTorch module, anything without ``fit``."""
    return not (hasattr(model, "fit") and hasattr(model, "predict"))


def check_model(model: Any, name: str) -> None:
    """Raise unless the model can be a member."""
    if isinstance(model, type):
        raise InvalidParameterError(f"member {name!r} must be an object; got the class: write {model.__name__}()")
    if not (hasattr(model, "predict") or callable(model)):
        raise InvalidParameterError(
            f"member {name!r} must be a regressor with fit and predict, a PyTorch module, or a function from rows to "
            f"means or to (means, standard deviations); got {model!r}"
        )


def _predict_function(model: Any) -> Callable[[Any], Any]:
    if is_fixed(model) and _is_torch_module(model):
        return partial(_forward, model)
    if not hasattr(model, "predict"):
        return partial(model)
    found = getattr(model, "best_estimator_", model)  # the signature of a search or pipeline does not show return_std
    last = found[-1] if hasattr(found, "steps") else found
    if not _has_std(last):
        return partial(model.predict)
    if last is found or len(found) == 1:
        return partial(_predict_std, last)
    return lambda X: _predict_std(last, found[:-1].transform(X))


def _predict_std(model: Any, X: Any) -> Any:
    """Return means and standard deviations; a model that fails on a polars frame itself receives an array."""
    try:
        return model.predict(X, return_std=True)
    except Exception:
        if not type(X).__module__.startswith("polars"):
            raise
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")  # they were checked
        return model.predict(X.to_numpy(), return_std=True)


def _has_std(model: Any) -> bool:
    try:
        return "return_std" in inspect.signature(model.predict).parameters
    except ValueError:  # compiled code may have no signature
        return False


def _is_torch_module(model: Any) -> bool:
    return any((cls.__module__, cls.__name__) == ("torch.nn.modules.module", "Module") for cls in type(model).__mro__)


def _forward(module: Any, X: Any) -> Any:
    """Return the outputs of a PyTorch module in evaluation mode, on its own device and in its own precision."""
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


def _one_per_row(numbers: ArrayLike, n: int, name: str) -> FloatArray:
    column = np.asarray(numbers, dtype=np.float64)
    if column.shape not in ((n,), (n, 1)):
        raise InvalidParameterError(
            f"member {name!r} must predict one number per row, shape ({n},) or ({n}, 1); got shape {column.shape}: "
            "wrap it in a function that returns means, or (means, standard deviations)"
        )
    return column.reshape(n)
