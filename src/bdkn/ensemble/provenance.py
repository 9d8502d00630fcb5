"""Provenance of a fit: seed, hash of the rows, and parameters. It is needed to add members to the fit later."""

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
"""Names of parameters that may have other values than in the fit when members are added to a fitted regressor."""

OPTIONS = ("training", "combination")
"""Names of regressor parameters that are objects with several options; they are stored as dicts."""


@stored
@dataclass(frozen=True)
class FitProvenance:
    """Seed, hash of the rows, and parameters of a fit, which must be the same when members are added to the fit later.

    ``entropy`` is the seed, as in NumPy's ``SeedSequence``. ``folds`` is a hash of given groups and splits, or empty.
    """

    entropy: Annotated[int | Sequence[int] | None, Entropy()]
    rows: str
    parameters: Annotated[Mapping[str, Any], Named(Plain())]
    folds: str = ""

    @classmethod
    def of(
        cls, model: BaseEstimator, entropy: int | Sequence[int] | None, rows: Rows, folds: str = ""
    ) -> FitProvenance:
        """Return the provenance of a fit of ``model`` to these rows; ``folds`` is the hash of groups and splits."""
        return cls(entropy, digest(rows), member_parameters(model), folds)

    def check_same(self, model: BaseEstimator, rows: Rows, folds: str = "") -> None:
        """Raise if a regressor that adds members to this fit has other rows, folds or parameters than the fit had."""
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
    """Return the parameters of a regressor that must be the same for all its members, also members added later."""
    return {name: plain_parameter(model, name) for name in model._get_param_names() if name not in _MAY_DIFFER}


def digest(rows: Rows) -> str:
    """Return a SHA-256 hash of the inputs, targets and counts of rows."""
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
    """Return whether a parameter is a list or tuple that contains other values than numbers and text."""
    return isinstance(value, list | tuple) and not all(np.isscalar(part) for part in value)


def plain_parameter(model: BaseEstimator, name: str) -> Any:
    """Return a parameter's value in a form for JSON: an engine becomes its name, other objects the default value."""
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
