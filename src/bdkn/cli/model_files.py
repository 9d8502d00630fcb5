"""Model files: how a model was made, loading with clear errors, and the columns that a model needs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bdkn.errors import InvalidParameterError, check_choice


def load_model(path: Path, density: str | None = None) -> Any:
    """Return the model in a file, with the requested ``density``; nothing in the file is executed."""
    from bdkn.estimators import load

    if not path.exists():
        raise InvalidParameterError(
            f"there is no model file {path}; make one: bdkn fit DATA --target COLUMN --out MODEL"
        )
    model = load(path)
    if density is not None:
        check_choice("--density", density, ("auto", "student-t"))
    return model.without_shape() if density == "student-t" and hasattr(model, "without_shape") else model


def record_making(model: Any, **facts: Any) -> None:
    """Add to a model when and from what it was made; this becomes part of its file."""
    from bdkn.environment import versions

    made = {**facts, "when": datetime.now(UTC).isoformat(timespec="seconds"), "versions": versions()}
    model.made_ = {name: value for name, value in made.items() if value is not None}


def making(model: Any) -> Mapping[str, Any]:
    """Return how a model was made; empty if it was made in Python."""
    made: Mapping[str, Any] = getattr(model, "made_", {})
    return made


def target_of(model: Any, given: str | None) -> str:
    """Return the name of the target: the one given, or that of the fit."""
    name = given or making(model).get("target")
    if name is None:
        raise InvalidParameterError("--target must be given: the model file does not name the column it was fitted to")
    return str(name)


def input_names(model: Any) -> tuple[str, ...]:
    """Return the names of a model's input columns; none if it was fitted to an array without names."""
    return tuple(map(str, getattr(model, "feature_names_in_", ())))


def used_names(model: Any) -> tuple[str, ...]:
    """Return the names of the input columns that predictions depend on; those of a fit may be empty or constant."""
    from bdkn.analysis.inspection import input_columns

    unused = {str(column["name"]) for column in input_columns(model) or () if not column["n_codes"]}
    return tuple(name for name in input_names(model) if name not in unused)


def read_inputs(model: Any, data: Path, note: Any) -> Any:
    """Return a table file as a data frame with all input columns of a model, of which unused ones may be empty."""
    from bdkn.table_files import read_table
    from bdkn.table_files.reading import check_columns

    frame = read_table(data, note)
    check_columns(used_names(model), list(frame.columns), data)
    missing = [name for name in input_names(model) if name not in frame.columns]
    return frame.assign(**dict.fromkeys(missing)) if missing else frame
