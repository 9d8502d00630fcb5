"""Rows of a table with their targets, as the commands use them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdkn.cli.model_files import input_names, read_inputs
from bdkn.cli.terminal import Screen
from bdkn.errors import InvalidParameterError, check_choice

if TYPE_CHECKING:
    from bdkn.typing import FloatArray


@dataclass(frozen=True)
class Roles:
    """The columns of a table by their purpose; ``features`` are the inputs (none given: all others)."""

    target: str
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    groups: str | None = None
    time: str | None = None
    weights: str | None = None

    def inputs(self, names: list[str]) -> list[str]:
        """Return the names of the input columns; raise if a named column does not exist."""
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
    """Inputs X, a data frame, and targets y, with row numbers from 1, groups and weights."""

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
    """Return the rows of a table file that have a target; in the order of time, if that is a column."""
    from bdkn.table_files import read_table
    from bdkn.table_files.csv_files import UNNAMED

    frame = read_table(data, screen.note)
    if UNNAMED in frame.columns and UNNAMED not in roles.inputs(list(frame.columns)):
        screen.note(f"the first column of {data} has no name: it is read as row numbers, and not used")
    return _labelled(frame, roles, screen)


def labelled_for(model: Any, data: Path, target: str, screen: Screen) -> Labelled:
    """Return the rows of a table file that have a target, with the columns of a model."""
    return _labelled(read_inputs(model, data, screen.note), Roles(target, features=input_names(model)), screen)


def _labelled(frame: Any, roles: Roles, screen: Screen) -> Labelled:
    import numpy as np
    from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

    inputs = roles.inputs(list(frame.columns))
    if not len(frame):
        raise InvalidParameterError("the table must have at least one row; it has a line of names only")
    y = _targets(frame[roles.target], screen)
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
    """Raise if a value of a column is missing."""
    if column.isna().any():
        row = int(column.isna().to_numpy().argmax()) + 1
        raise InvalidParameterError(f"{rule}; column {column.name!r} lacks one in row {row}")


def _targets(column: Any, screen: Screen) -> FloatArray:
    """Return the targets, nan where missing; text such as "1,234" and "CHF 1'234" is read as numbers, with a note."""
    from pandas.api.types import is_object_dtype, is_string_dtype

    from bdkn.analysis.tables import read_column, read_text

    if is_object_dtype(column.dtype) or is_string_dtype(column.dtype):
        read = read_text(read_column(column.to_frame(), column.name))
        if read.kind == "number":
            screen.note(f"column {column.name!r} is {read.note}; row 1 of it is read as {read.values[0]:g}")
            return read.values
    return _numbers(column, "--target")


def _numbers(column: Any, option: str) -> FloatArray:
    """Return a column as numbers, nan where missing; raise, with the first value that is not a number."""
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
