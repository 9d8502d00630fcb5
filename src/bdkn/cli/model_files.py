"""Model files: what `bdkn fit` adds to a model about how it was made, and loading with clear errors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bdkn.errors import InvalidParameterError


def load_model(path: Path) -> Any:
    """Return the model in a file; nothing in the file is executed."""
    from bdkn.estimators import load

    if not path.exists():
        raise InvalidParameterError(
            f"there is no model file {path}; make one: bdkn fit DATA --target COLUMN --out MODEL"
        )
    return load(path)


def record_making(model: Any, **facts: Any) -> None:
    """Note on a model when and from what it was made; this becomes part of its file."""
    from bdkn.report.wording import versions

    made = {"when": datetime.now(UTC).isoformat(timespec="seconds"), **facts, "versions": versions()}
    model.made_ = {name: value for name, value in made.items() if value is not None}


def making(model: Any) -> Mapping[str, Any]:
    """Return what is known of how a model was made; empty if it was made in Python."""
    made: Mapping[str, Any] = getattr(model, "made_", {})
    return made


def target_of(model: Any, given: str | None) -> str:
    """Return the name of the target: the one given, or that of the fit."""
    name = given or making(model).get("target")
    if name is None:
        raise InvalidParameterError("--target must be given: the model does not say which column it was fitted to")
    return str(name)


def input_names(model: Any) -> tuple[str, ...] | None:
    """Return the names of a model's input columns; None if it was fitted to an array without names."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def used_names(model: Any) -> tuple[str, ...] | None:
    """Return the names of the input columns that predictions depend on, as those of a fit may be empty or constant."""
    table, names = model.model_.reader.encoder, input_names(model)
    if table is None or names is None:
        return names
    return tuple(name for name, column in zip(names, table.columns, strict=True) if column.n_codes)


def with_inputs(model: Any, frame: Any, place: Any) -> Any:
    """Return a data frame that has all input columns of a model, empty ones for those that predictions do not need."""
    from bdkn.table_files.reading import check_columns

    check_columns(used_names(model) or (), list(frame.columns), place)
    lacking = [name for name in input_names(model) or () if name not in frame.columns]
    return frame.assign(**dict.fromkeys(lacking)) if lacking else frame


def choose_density(model: Any, density: str | None) -> Any:
    """Return the model with the density that was asked for."""
    from bdkn.errors import check_choice

    if density is None:
        return model
    check_choice("--density", density, ("auto", "student-t"))
    return model.without_shape() if density == "student-t" and hasattr(model, "without_shape") else model
