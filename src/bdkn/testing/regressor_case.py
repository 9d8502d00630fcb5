"""A regressor to check, its rows, and the assertions that its checks share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from bdkn.lazy import lazy
from bdkn.predictive import Predictive
from bdkn.testing.checks import require, require_equal
from bdkn.typing import FloatArray

N_NEW = 12
"""Number of rows to predict."""


@dataclass(frozen=True, eq=False)
class Case:
    """A regressor, the rows to fit it to, and the fit that most checks share."""

    model: Any
    X: FloatArray
    y: FloatArray

    def unfitted(self) -> Any:
        """Return a clone with a seed."""
        made = clone(self.model)
        if "random_state" in made.get_params() and made.random_state is None:
            made.set_params(random_state=0)
        return made

    @lazy
    def fitted(self) -> Any:
        """A fitted regressor, which no check may change."""
        return self.unfitted().fit(self.X, self.y)

    @lazy
    def new(self) -> FloatArray:
        """Rows to predict, some of them outside the training rows."""
        return np.asarray(self.X[:N_NEW] + 0.5 * (self.X[:N_NEW] - self.X.mean(axis=0)))

    @lazy
    def dist(self) -> Predictive:
        """The predictive of the new rows."""
        dist: Predictive = self.fitted.predict_dist(self.new)
        return dist

    @property
    def unit(self) -> float:
        """The standard deviation of the targets, by which tolerances are scaled."""
        return float(self.y.std())


def sample_table() -> tuple[FloatArray, FloatArray]:
    """Return rows in different units, and targets that are not scaled."""
    generator = np.random.default_rng(0)
    X = generator.normal(2.0, [1.0, 5.0, 0.1], (60, 3))
    return X, 50.0 + 3.0 * np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * generator.normal(size=60)


def read_only(values: ArrayLike) -> FloatArray:
    """Return a copy that cannot be written to, so that a regressor that changes its input fails."""
    found = np.array(values, dtype=np.float64)
    found.flags.writeable = False
    return found


def require_same_predictions(found: Any, expected: Any, X: FloatArray, statement: str) -> None:
    """Raise AssertionError unless two regressors predict the same bits."""
    for one, other in zip(found.predict(X, return_cov=True), expected.predict(X, return_cov=True), strict=True):
        require_equal(one, other, statement)
    require_equal(found.predict_interval(X), expected.predict_interval(X), statement)
    require_equal(found.sample_y(X, 2), expected.sample_y(X, 2), statement)


def require_error(
    kind: type[Exception] | tuple[type[Exception], ...], message: str, call: Callable[..., Any], *arguments: Any
) -> None:
    """Raise AssertionError unless the call raises this kind of error with a message that matches."""
    name = getattr(call, "__name__", str(call))
    try:
        call(*arguments)
    except kind as error:
        text = "\n".join([str(error), *getattr(error, "__notes__", ())])
        require(re.search(message, text) is not None, f"the error of {name} matches {message!r}; it is {text!r}")
        return
    raise AssertionError(f"this must hold: {name} raises {kind} with {message!r} here")
