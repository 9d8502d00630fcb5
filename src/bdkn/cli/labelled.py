"""The rows of a table with their targets, as a verb uses them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdkn.cli.terminal import Screen, names_of
from bdkn.errors import InvalidParameterError, check_choice

if TYPE_CHECKING:
    from bdkn.typing import FloatArray


@dataclass(frozen=True)
class Roles:
    """Which column of a table is what. ``features`` are the inputs (none named: all others)."""

    target: str
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    groups: str | None = None
    time: str | None = None
    weights: str | None = None

    @classmethod
    def of(
        cls,
        target: str,
        features: str | None,
        drop: str | None,
        groups: str | None,
        time: str | None,
        weights: str | None,
    ) -> Roles:
        """Return the roles that the options of a command name."""
        return cls(target, names_of(features), names_of(drop), groups, time, weights)

    def inputs(self, names: list[str]) -> list[str]:
        """Return the names of the input columns; raise if a column that is named is not there."""
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
    """Inputs X, a data frame, targets y, and what else was asked for; ``numbers`` are the rows' numbers, from 1."""

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
    """Return the rows of a table file that have a target; ordered by the time, if there is one."""
    from bdkn.table_files import read_table
    from bdkn.table_files.csv_files import UNNAMED

    frame = read_table(data, screen.note)
    inputs = roles.inputs(list(frame.columns))
    if UNNAMED in frame.columns and UNNAMED not in inputs:
        screen.note(f"the first column of {data} has no name: it is taken as row numbers, and not used")
    return labelled(frame, roles, inputs, screen)


def labelled(frame: Any, roles: Roles, inputs: list[str], screen: Screen) -> Labelled:
    """Return the rows of a data frame that have a target."""
    import numpy as np

    if not len(frame):
        raise InvalidParameterError("the table must have at least one row; it has a line of names only")
    y = targets_of(frame[roles.target], screen)
    known = ~np.isnan(y)
    if not known.any():
        raise InvalidParameterError(f"--target must have values; column {roles.target!r} is empty in all {len(y)} rows")
    if not known.all():
        screen.note(f"{(~known).sum()} of {len(y)} rows have no {roles.target!r} and are not used")
    groups = None if roles.groups is None else _texts(frame[roles.groups], "--groups")
    weights = None if roles.weights is None else numbers_of(frame[roles.weights], "--weights")
    rows = Labelled(frame[inputs], y, np.arange(1, len(y) + 1), groups, weights)
    order = np.flatnonzero(known)
    if roles.time is not None:
        order = order[np.argsort(_moments(frame[roles.time])[order], kind="stable")]
    return rows[order]


def targets_of(column: Any, screen: Screen) -> FloatArray:
    """Return the targets, nan where missing; text such as "1,234" and "CHF 1'234" is read as numbers, with a note."""
    from pandas.api.types import is_object_dtype, is_string_dtype

    from bdkn.data.reading import read_column, read_text

    if is_object_dtype(column.dtype) or is_string_dtype(column.dtype):
        read = read_text(read_column(column.to_frame(), column.name))
        if read.kind == "number":
            screen.note(f"column {column.name!r} is {read.note}; row 1 of it is read as {read.values[0]:g}")
            return read.values
    return numbers_of(column, "--target")


def numbers_of(column: Any, option: str) -> FloatArray:
    """Return a column as numbers, nan where missing; raise, naming the first value that is none."""
    import numpy as np
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype):
        numbers = np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        if np.isinf(numbers).any():
            row = int(np.flatnonzero(np.isinf(numbers))[0]) + 1
            raise InvalidParameterError(f"{option} must be finite; row {row} of column {column.name!r} is infinite")
        return numbers
    from pandas import to_numeric

    odd = column[column.notna() & (to_numeric(column.astype(str), errors="coerce").isna() | is_bool_dtype(column))]
    shown = f"; row {odd.index[0] + 1} has {odd.iloc[0]!r}" if len(odd) else ""
    raise InvalidParameterError(
        f"{option} must name a column of numbers; column {column.name!r} holds {_kind(column)}{shown}. Name another "
        "column, or correct these cells"
    )


def _kind(column: Any) -> str:
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype

    if is_bool_dtype(column.dtype):
        return "true and false, which is a matter of classification"
    return "dates" if is_datetime64_any_dtype(column.dtype) else "text"


def _texts(column: Any, option: str) -> Any:
    """Return a column as labels; raise if one is missing."""
    if column.isna().any():
        row = int(column.isna().to_numpy().argmax()) + 1
        raise InvalidParameterError(
            f"{option} must have a label in every row; column {column.name!r} lacks one in row {row}"
        )
    return column.astype(str).to_numpy()


def _moments(column: Any) -> Any:
    """Return a column of dates or numbers as an array that can be sorted; raise if it is neither."""
    from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

    if not (is_datetime64_any_dtype(column.dtype) or is_numeric_dtype(column.dtype)):
        raise InvalidParameterError(
            f"--time must name a column of dates, such as 2024-03-31, or numbers; column {column.name!r} holds text"
        )
    if column.isna().any():
        row = int(column.isna().to_numpy().argmax()) + 1
        raise InvalidParameterError(f"--time must be known for every row; column {column.name!r} has none in row {row}")
    return column.to_numpy()
