"""Functions with which the commands read model files, and table files with their targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdkn.cli.terminal import Screen
from bdkn.errors import InvalidParameterError, check_choice

if TYPE_CHECKING:
    from bdkn.typing import FloatArray


def load_model(path: Path, density: str | None = None) -> Any:
    """Load a model file, of which nothing is executed; ``density`` "student-t" omits densities of neighbouring rows."""
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
    """Store in a model when and how it was made: ``facts``, the date and package versions. They are saved with it."""
    from bdkn.environment import versions

    made = {**facts, "when": datetime.now(UTC).isoformat(timespec="seconds"), "versions": versions()}
    model.made_ = {name: value for name, value in made.items() if value is not None}


def making(model: Any) -> Mapping[str, Any]:
    """Return what ``record_making`` stored in a model, by name; empty if the model was made in Python."""
    made: Mapping[str, Any] = getattr(model, "made_", {})
    return made


def input_names(model: Any) -> tuple[str, ...]:
    """Return the names of a model's input columns; empty if it was fitted to an array without names."""
    return tuple(map(str, getattr(model, "feature_names_in_", ())))


def used_names(model: Any) -> tuple[str, ...]:
    """Return the names of the input columns that affect predictions; for example, constant columns do not."""
    from bdkn.analysis.inspection import input_columns

    unused = {str(column["name"]) for column in input_columns(model) or () if not column["n_codes"]}
    return tuple(name for name in input_names(model) if name not in unused)


def read_inputs(model: Any, data: Path, screen: Screen) -> Any:
    """Read a table file as a data frame with all input columns of a model; columns without effect may be missing."""
    from bdkn.table_files import read_table
    from bdkn.table_files.reading import check_columns

    frame = read_table(data, screen.note)
    check_columns(used_names(model), list(frame.columns), data)
    missing = [name for name in input_names(model) if name not in frame.columns]
    return frame.assign(**dict.fromkeys(missing)) if missing else frame


@dataclass(frozen=True)
class Roles:
    """Names of a table's columns by their purpose; if ``features`` is empty, all other columns are inputs."""

    target: str
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    groups: str | None = None
    time: str | None = None
    weights: str | None = None

    def inputs(self, names: list[str]) -> list[str]:
        """Return the names of the input columns, out of all ``names``; raise if a given column does not exist."""
        from bdkn.table_files.csv_files import UNNAMED

        for option in ("target", "groups", "time", "weights"):
            if (name := getattr(self, option)) is not None:
                check_choice(f"--{option}", name, names)
        for option in ("features", "drop"):
            for name in getattr(self, option):
                check_choice(f"each column in --{option}", name, names)
        if self.target in self.features:
            raise InvalidParameterError(f"--features must not contain the target; got {self.target!r} as both")
        others = {self.target, self.groups, self.time, self.weights, UNNAMED, *self.drop}
        chosen = [n for n in self.features if n not in self.drop] or [n for n in names if n not in others]
        if not chosen:
            raise InvalidParameterError("there must be an input column besides the target; the table has none left")
        return chosen


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows with known targets: a data frame of inputs ``X``, targets ``y``, row numbers from 1, groups and weights."""

    X: Any
    y: FloatArray
    numbers: Any
    groups: Any = None
    weights: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Any) -> Labelled:
        return replace(
            self,
            X=self.X.iloc[rows].reset_index(drop=True),
            y=self.y[rows],
            numbers=self.numbers[rows],
            groups=None if self.groups is None else self.groups[rows],
            weights=None if self.weights is None else self.weights[rows],
        )


def read_labelled(data: Path, roles: Roles, screen: Screen) -> Labelled:
    """Return the rows of a table file that have a target, sorted by the time column if there is one."""
    from bdkn.table_files import read_table
    from bdkn.table_files.csv_files import UNNAMED

    frame = read_table(data, screen.note)
    if UNNAMED in frame.columns and UNNAMED not in roles.inputs(list(frame.columns)):
        screen.note(f"the first column of {data} has no name: it is read as row numbers, and not used")
    return _labelled(frame, roles, screen)


def labelled_for(model: Any, data: Path, target: str | None, screen: Screen) -> tuple[str, Labelled]:
    """Return the name of the target (by default, as in the fit) and the rows of a table file that have a target."""
    name = target or making(model).get("target")
    if name is None:
        raise InvalidParameterError("--target must be given: the model file does not name the column it was fitted to")
    return name, _labelled(read_inputs(model, data, screen), Roles(name, features=input_names(model)), screen)


def _labelled(frame: Any, roles: Roles, screen: Screen) -> Labelled:
    import numpy as np
    from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype, is_object_dtype, is_string_dtype

    from bdkn.analysis.tables import read_column, read_text

    inputs = roles.inputs(list(frame.columns))
    if not len(frame):
        raise InvalidParameterError("the table must have at least one row; it has a line of names only")
    column, y = frame[roles.target], None
    if is_object_dtype(column.dtype) or is_string_dtype(column.dtype):  # numbers such as "1,234" and "CHF 1'234"
        read = read_text(read_column(column.to_frame(), column.name))
        if read.kind == "number":
            screen.note(f"column {column.name!r} is {read.note}; row 1 of it is read as {read.values[0]:g}")
            y = read.values
    if y is None:
        y = _numbers(column, "--target")
    known = ~np.isnan(y)
    if not known.any():
        raise InvalidParameterError(f"--target must have values; column {roles.target!r} is empty in all {len(y)} rows")
    if not known.all():
        screen.note(f"{(~known).sum()} of {len(y)} rows have no {roles.target!r} and are not used")
    groups = weights = None
    if roles.groups is not None:
        _check_complete(frame[roles.groups], "--groups must have a label in every row")
        groups = frame[roles.groups].astype(str).to_numpy()
    if roles.weights is not None:
        weights = _numbers(frame[roles.weights], "--weights")
    order = np.flatnonzero(known)
    if roles.time is not None:
        time = frame[roles.time]
        if not (is_datetime64_any_dtype(time.dtype) or is_numeric_dtype(time.dtype)):
            raise InvalidParameterError(
                f"--time must name a column of dates, such as 2024-03-31, or numbers; column {roles.time!r} holds text"
            )
        _check_complete(time, "--time must have a value in every row")
        order = order[np.argsort(time.to_numpy()[order], kind="stable")]
    return Labelled(frame[inputs], y, np.arange(1, len(y) + 1), groups, weights)[order]


def _check_complete(column: Any, rule: str) -> None:
    """Raise an error that begins with ``rule`` if a value of a column is missing."""
    if column.isna().any():
        row = int(column.isna().to_numpy().argmax()) + 1
        raise InvalidParameterError(f"{rule}; column {column.name!r} lacks one in row {row}")


def _numbers(column: Any, option: str) -> FloatArray:
    """Return a column as numbers, nan where missing; raise if a value is not a number, and show the first one."""
    import numpy as np
    from pandas import to_numeric
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

    if is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype):
        numbers = np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        if np.isinf(numbers).any():
            row = int(np.flatnonzero(np.isinf(numbers))[0]) + 1
            raise InvalidParameterError(f"{option} must be finite; row {row} of column {column.name!r} is infinite")
        return numbers
    kind = "dates" if is_datetime64_any_dtype(column.dtype) else "text"
    if is_bool_dtype(column.dtype):
        kind = "true and false, which is a matter of classification"
    odd = column[column.notna() & (to_numeric(column.astype(str), errors="coerce").isna() | is_bool_dtype(column))]
    shown = f"; row {odd.index[0] + 1} has {odd.iloc[0]!r}" if len(odd) else ""
    raise InvalidParameterError(
        f"{option} must name a column of numbers; column {column.name!r} holds {kind}{shown}. Name another column, or "
        "correct these cells"
    )
