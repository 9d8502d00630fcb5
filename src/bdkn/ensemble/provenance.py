"""Provenance of a fit: its seed, its rows and its parameters, with which members can be added later."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from bdkn.data.rows import BLOCK_ROWS, Rows
from bdkn.errors import InvalidParameterError
from bdkn.networks.job import ENGINE_CLASSES
from bdkn.storage.fields import Entropy, Named, Plain, stored

_MAY_DIFFER = {"combination", "density", "members", "n_members", "random_state", "n_jobs", "verbose", "time_limit"}
"""Parameters that may differ from those of the fit when members are added."""

OPTIONS = ("training", "combination")
"""Parameters that are objects with options."""


@stored
@dataclass(frozen=True)
class FitProvenance:
    """The entropy of a fit's seed, the digest of its rows, and the parameters that its members share.

    ``folds`` is the digest of groups and splits that were given; empty if there were none.
    """

    entropy: Annotated[int | Sequence[int] | None, Entropy()]
    rows: str
    parameters: Annotated[Mapping[str, Any], Named(Plain())]
    folds: str = ""

    @classmethod
    def of(
        cls, model: BaseEstimator, entropy: int | Sequence[int] | None, rows: Rows, folds: str = ""
    ) -> FitProvenance:
        """Return the provenance of a fit of a regressor to these rows, with folds of that digest."""
        return cls(entropy, digest(rows), member_parameters(model), folds)

    def check_same(self, model: BaseEstimator, rows: Rows, folds: str = "") -> None:
        """Raise unless members that a regressor makes from these rows and folds can join those of the fit."""
        if folds != self.folds:
            raise InvalidParameterError(
                "new members must have the folds of the others; got other groups or another cv: give groups as in fit, "
                "and set cv back, or fit a new regressor"
            )
        if digest(rows) != self.rows:
            raise InvalidParameterError(
                "new members must be fitted to the rows that the others were fitted to, in the same order; got other "
                "rows, targets or weights: give X, y and sample_weight as in fit, or fit a new regressor"
            )
        parameters = member_parameters(model)
        for name, value in self.parameters.items():
            if parameters[name] != value:
                raise InvalidParameterError(
                    f"new members must have the parameters of the others; the fit had {name}={value!r}, which is now "
                    f"{parameters[name]!r}: set it back, or fit again"
                )


def member_parameters(model: BaseEstimator) -> dict[str, Any]:
    """Return the parameters that all members of one fit must share."""
    return {name: plain_parameter(model, name) for name in model._get_param_names() if name not in _MAY_DIFFER}


def digest(rows: Rows) -> str:
    """Return a hash of rows, targets and counts."""
    X, seen = rows.X, hashlib.sha256()
    parts: list[NDArray[Any]]
    if hasattr(X, "columns"):  # a data frame
        parts = [part for name in X.columns for part in (np.array([name], dtype=object), np.asarray(X[name]))]
    elif hasattr(X, "indptr"):  # a sparse matrix
        parts = [X.data, X.indices, X.indptr]
    else:
        parts = [np.asarray(X)]
    parts += [rows.y] if rows.counts is None else [rows.y, rows.counts]
    for part in parts:
        seen.update(f"{part.dtype.str} {part.shape}".encode())
        for start in range(0, len(part), BLOCK_ROWS):
            block = np.ascontiguousarray(part[start : start + BLOCK_ROWS])
            seen.update(repr(block.tolist()).encode() if block.dtype == object else block.tobytes())
    return seen.hexdigest()


def is_nested(value: Any) -> bool:
    """Return whether a parameter is a list with entries other than numbers and text."""
    return isinstance(value, list | tuple) and not all(np.isscalar(part) for part in value)


def plain_parameter(model: BaseEstimator, name: str) -> Any:
    """Return a parameter as JSON: an engine as its name, anything else that JSON cannot represent as the default."""
    value = getattr(model, name)
    if name in OPTIONS and value is not None:
        return asdict(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple) and not is_nested(value):
        return np.asarray(value).tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    default = inspect.signature(type(model)).parameters[name].default
    engines = {path: engine for engine, path in ENGINE_CLASSES.items()}
    return engines.get(f"{type(value).__module__}.{type(value).__name__}", default)
