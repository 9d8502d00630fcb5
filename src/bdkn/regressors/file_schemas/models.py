"""What must hold for a regressor in a file: for its parameters and attributes, and for the columns of all parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bdkn.persistence.schema import Content, Items, Maybe, Number, Part, Sizes, Text, must, with_place
from bdkn.regressors.baselines.fitted import FittedBLL, FittedDKL, FittedGP, FittedMFVI, FittedVBLL
from bdkn.regressors.file_schemas.saved import ESTIMATORS, NAMED, PLAIN_NAMED, SavedModel, check_parameter
from bdkn.regressors.file_schemas.states import columns_of
from bdkn.regressors.fitted import FittedBDKN, FittedNetworks, FittedStack
from bdkn.tables import TableEncoder

STATES: Mapping[str, type] = {
    "BDKNRegressor": FittedBDKN,
    "DeepEnsembleRegressor": FittedNetworks,
    "BayesianStackingRegressor": FittedStack,
    "GPRegressor": FittedGP,
    "DKLRegressor": FittedDKL,
    "BLLRegressor": FittedBLL,
    "LDBLLRegressor": FittedBLL,
    "MFVIRegressor": FittedMFVI,
    "VBLLRegressor": FittedVBLL,
}
"""The class of the fitted state of each regressor."""


class _Names:
    """The names of columns."""

    def check(self, value: Any, sizes: Sizes) -> None:
        must(isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1, "must be a list of texts")


class _Nested:
    """A parameter that is a list of other things than numbers and text, such as pairs of row numbers."""

    def check(self, value: Any, sizes: Sizes) -> None:
        if isinstance(value, list | tuple):
            for part in value:
                self.check(part, sizes)
        else:
            plain = value is None or isinstance(value, bool | int | float | str)
            must(plain or isinstance(value, np.ndarray), f"must hold numbers; got a {type(value).__name__}")


class _Made:
    """How the command made a model: names it knows have values of their kind, any others are plain."""

    def check(self, value: Any, sizes: Sizes) -> None:
        PLAIN_NAMED.check(value, sizes)
        for name, content in _MADE.items():
            if name in value:
                with_place(name, content, value[name], sizes)
        must("rows" in value or "data" not in value, "data must have a number of rows")
        for name in ("rmse", "r2"):
            if estimate := value.get("estimate"):
                with_place(name, Number(nan=True, infinite=True), estimate.get(name), sizes)


_MADE: dict[str, Content] = {
    "when": Text(),
    "data": Text(),
    "target": Text(),
    "rows": Number(low=0, whole=True),
    "estimate": PLAIN_NAMED,
    "versions": PLAIN_NAMED,
    "absorbed": Items(Text(), container=list),
}
_ATTRIBUTES: dict[str, Content] = {
    "n_features_in_": Number(low=1, whole=True),
    "feature_names_in_": _Names(),
    "table_": Maybe(Part(TableEncoder)),
    "made_": _Made(),
}
_DOCUMENT: dict[str, Content] = {"model": Text(), "bdkn": Text(), "parameters": PLAIN_NAMED, "fitted": NAMED}


def check_document(document: Mapping[str, Any]) -> None:
    """Raise unless a document has the parts of a regressor's."""
    for name in document.keys() - _DOCUMENT.keys():
        must(False, f"there is no part {name!r:.80} of a model")
    for name, content in _DOCUMENT.items():
        must(name in document, f"the part {name!r} is missing")
        with_place(name, content, document[name], {})


def check_parameters(kind: type, parameters: Mapping[str, Any]) -> None:
    """Raise unless a class has these parameters, of these types."""
    for name, value in parameters.items():
        check_parameter(kind, name, value)


def check_attributes(kind: type, attributes: Mapping[str, Any]) -> None:
    """Raise unless a regressor of a class can have these attributes."""
    for name, value in attributes.items():
        if name == "fitted_":
            content: Any = Part(STATES[kind.__name__])
        elif name == "estimators":
            content = Maybe(ESTIMATORS)
        elif name in _ATTRIBUTES:
            content = _ATTRIBUTES[name]
        else:
            must(not name.endswith("_"), f"{kind.__name__} has no attribute {name!r:.80}")
            check_parameter(kind, name, ())
            content = _Nested()
        with_place(name, content, value, {})
    if "fitted_" in attributes:
        _check_columns(attributes)


def _check_columns(attributes: Mapping[str, Any]) -> None:
    """Raise unless all parts of a fitted regressor expect the columns that its table has."""
    must("n_features_in_" in attributes, "n_features_in_ is missing")
    n, table, names = (attributes.get(name) for name in ("n_features_in_", "table_", "feature_names_in_"))
    must(names is None or len(names) == n, f"must have the names of {n} columns")
    must(table is None or len(table.columns) == n, f"the table must have {n} columns")
    must(table is None or names is None or list(map(str, table.names)) == list(names), "the table must have the names")
    inputs = n if table is None else len(table.features)
    found = _inputs_of(attributes["fitted_"])
    must(found <= {inputs}, f"all parts must take {inputs} inputs; got {sorted(found)}")


def _inputs_of(state: Any) -> set[int]:
    """Return the numbers of inputs that the parts of a state take."""
    if isinstance(state, FittedBDKN):
        return {state.networks.ensemble.inputs.n_columns} | columns_of(state.combined)
    if isinstance(state, FittedNetworks):
        return {state.ensemble.inputs.n_columns}
    if isinstance(state, FittedStack):
        models = [model for member in state.members for model in member.models]
        return {_columns_of_member(model) for model in models} | columns_of(state.combined)
    return {state.course.inputs.n_columns}


def _columns_of_member(model: SavedModel) -> int:
    n = model.fitted.get("n_features_in_", 0)
    must(type(n) is int, "a member must know the number of its columns")
    return int(n)
