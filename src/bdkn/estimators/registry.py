"""All regressors by class name, and loading of a regressor from a file, with a check of everything in it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bdkn.ensemble.copied_models import CopiedModel, make_estimators
from bdkn.ensemble.estimators import PAIRS, EstimatorMember
from bdkn.ensemble.selection import CombinationOptions
from bdkn.errors import ModelFileError
from bdkn.estimators.base import ProbabilisticRegressor
from bdkn.estimators.bdkn import BayesianStackingRegressor, BDKNRegressor
from bdkn.estimators.deep_ensemble import DeepEnsembleRegressor
from bdkn.estimators.files import SavedModel, map_parts
from bdkn.model.fitted import FittedEnsemble, FittedModel
from bdkn.networks.settings import TrainingOptions
from bdkn.storage.archive import Arrays, Document, read, unpack
from bdkn.storage.fields import Text, WrongContentError, must, with_place

REGRESSORS: dict[str, type[ProbabilisticRegressor]] = {
    "BDKNRegressor": BDKNRegressor,
    "DeepEnsembleRegressor": DeepEnsembleRegressor,
    "BayesianStackingRegressor": BayesianStackingRegressor,
}


def load(path: str | os.PathLike[str], *, member_classes: Sequence[type] = ()) -> ProbabilisticRegressor:
    """Load a fitted regressor from a file that its ``save`` wrote; its predictions are exactly the same.

    Parameters
    ----------
    path : str or path-like
        File to read. Nothing in it is executed.
    member_classes : sequence of type, default=()
        Your own classes of members, with a method ``from_arrays``, that the file may contain.

    Returns
    -------
    model : ProbabilisticRegressor
        A fitted regressor of the class that was saved.

    Raises
    ------
    ModelFileError
        If the file is damaged, is not a model of this library, or was written by a newer version of it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import bdkn
    >>> X = np.arange(20.0)[:, None]
    >>> model = bdkn.BDKNRegressor(n_members=2, epochs=2, random_state=0).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "model.bdkn")
    ...     loaded = bdkn.load(Path(folder) / "model.bdkn")
    >>> bool(np.array_equal(loaded.predict(X), model.predict(X)))
    True
    """
    return restore(*read(path), os.fspath(path), member_classes)


def restore(
    arrays: Arrays, document: Document, path: str, member_classes: Sequence[type] = ()
) -> ProbabilisticRegressor:
    """Return the regressor that the arrays and the JSON document of a model file describe, after checking them."""
    name = document.get("model")
    if not isinstance(name, str) or name not in REGRESSORS:
        raise ModelFileError(f"{path} holds a {name!s:.80}; this version knows {', '.join(REGRESSORS)}")
    try:
        with_place("bdkn", Text(), document.get("bdkn"), {})
        must(document.keys() == {"model", "bdkn", "saved"}, "must have model, bdkn and saved")
        left = dict(arrays)
        saved = unpack(document["saved"], left, "saved")
        must(not left, f"the array {next(iter(left), '')!r:.80} belongs nowhere")
        must(isinstance(saved, SavedModel) and saved.model == name, "must hold that model")
        model: ProbabilisticRegressor = _restored(saved, member_classes)
        must("model_" in vars(model), "the model is not fitted")
        return model
    except Exception as error:
        cause = ModelFileError(str(error)) if isinstance(error, WrongContentError) else error
        reason = str(cause) if isinstance(cause, ModelFileError) else f"{type(error).__name__}: {error}"
        raise ModelFileError(
            f"{path} was written by bdkn {document.get('bdkn')!s:.20} and does not fit this version, "
            f"{_installed()} ({reason}); it is damaged or, if it is of a later version, run: pip install "
            "--upgrade bdkn"
        ) from cause


@cache
def _installed() -> str:
    """Return the installed version of this library, for error messages; finding it is slow."""
    return version("bdkn")


def _restored(value: Any, member_classes: Sequence[type]) -> Any:
    """Return a value from a model file, with each ``SavedModel`` in it replaced by a regressor."""

    def inner(part: Any) -> Any:
        return _restored(part, member_classes)

    if isinstance(value, CopiedModel):
        return make_estimators(value, member_classes)
    if not isinstance(value, SavedModel):
        made = map_parts(inner, value)
        if isinstance(made, EstimatorMember):
            own = (model for model in made.models if isinstance(model, BaseEstimator))
            must(all("model_" in vars(model) for model in own), "a member is not fitted")
        return made
    must(value.model in REGRESSORS, f"there is no regressor {value.model!r:.80}")
    cls = REGRESSORS[value.model]
    parameters = {name: tuple(part) if isinstance(part, list) else part for name, part in value.parameters.items()}
    for name, parameter in parameters.items():
        _check_parameter(cls, name, parameter)
    for name, part in value.objects.items():
        must(name in _declared(cls), f"{value.model} has no parameter {name!r:.80}")
        options = {"training": TrainingOptions, "combination": CombinationOptions}.get(name)
        if options is not None:
            must(isinstance(part, options), f"{name} must be {options.__name__}")
        elif name == "members":
            with_place(name, PAIRS, [tuple(pair) for pair in part], {})
        else:
            _check_numbers(name, part)
    state = FittedEnsemble if cls is DeepEnsembleRegressor else FittedModel
    must(value.fitted is None or isinstance(value.fitted, state), f"{cls.__name__} has another fitted model")
    model: Any = cls(**parameters, **{name: map_parts(inner, part) for name, part in value.objects.items()})
    if value.fitted is not None:
        model.model_ = inner(value.fitted)
    if value.made is not None:
        model.made_ = value.made
    return model


def _check_numbers(name: str, value: Any) -> None:
    """Raise unless a parameter from a model file consists of numbers, text and arrays, such as row numbers."""
    if isinstance(value, list | tuple):
        for part in value:
            _check_numbers(name, part)
    else:
        plain = value is None or isinstance(value, bool | int | float | str | np.ndarray)
        must(plain, f"{name} must hold numbers; got a {type(value).__name__}")


_ANNOTATED: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "None": (type(None),),
    "int or None": (int, type(None)),
}
_FORMS = {"Seed": "int or None", "Engine": "str"}
"""Types that parameters with these annotations have in a model file; an engine, for example, is stored as its name."""


def _check_parameter(cls: type, name: str, value: Any) -> None:
    """Raise unless the class has this parameter and the value from a model file has the annotated type."""
    declared = _declared(cls)
    must(name in declared, f"{cls.__name__} has no parameter {name!r:.80}")
    allowed = declared[name]
    if "Any" not in allowed and not any(_conforms(value, each) for each in allowed):
        raise WrongContentError(f"{name} must be {' or '.join(allowed)}; got {value!r:.80}")


@cache
def _declared(cls: Any) -> dict[str, tuple[str, ...]]:
    """Return, by name, the types that the constructor parameters of a class may have in a model file."""
    annotations = {name: str(each.annotation) for name, each in inspect.signature(cls).parameters.items()}
    return {name: tuple(_FORMS.get(part, part) for part in text.split(" | ")) for name, text in annotations.items()}


def _conforms(value: Any, annotation: str) -> bool:
    if annotation.startswith(("Sequence[", "list[", "tuple[")):
        inner = annotation.partition("[")[2].removesuffix("]").split(",")[0]
        return isinstance(value, list | tuple) and all(_conforms(part, inner) for part in value)
    return type(value) in _ANNOTATED.get(annotation, ())
