"""Partial dependence: average predictions as a function of one column, which is set to each value in all rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.analysis.decisions import Outcome
from bdkn.analysis.explanation import column_names, column_of, dense, mixed_rows, some_rows, with_column
from bdkn.data.folds import Seed, seed_sequence
from bdkn.data.rows import as_frame, take_rows
from bdkn.errors import InvalidParameterError, OutsideDataWarning, check_choice, check_number, shown
from bdkn.typing import FloatArray

_POINTS = 25
"""Number of grid points for a column of numbers or dates."""

_FEW = 12
"""Maximum number of different values of a column for which each value is a grid point."""

_MAX_VALUES = 20
"""Maximum number of grid points of a column of text or categories."""

_HALVINGS = 48
"""Maximum number of bisection steps for a quantile of a mixture."""

_TOLERANCE = 1e-9
"""Relative error of a quantile of a mixture at which the bisection stops."""


@dataclass(frozen=True, eq=False)
class PartialDependence:
    """Average predictions as a function of one column. Made by ``partial_dependence``.

    Parameters
    ----------
    column : str
        Name of the column.
    grid : array (m,)
        Values of the column.
    mean : array (m,)
        Average of the predicted means.
    lower, upper : array (m,)
        Averages of the rows' interval limits: the uncertainty of a typical row.
    all_lower, all_upper : array (m,)
        Interval limits of the average of all predicted distributions: for the target of a row drawn at random.
    coverage : float
        Probability of the intervals: their nominal coverage.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = BayesianStackingRegressor([("sum", lambda X: X @ [3.0, 1.0])], random_state=0).fit(X, X @ [3.0, 1.0])
    >>> model.partial_dependence(X, 0, grid=[-1.0, 0.0, 1.0]).mean.shape
    (3,)
    """

    column: str
    grid: NDArray[Any]
    mean: FloatArray
    lower: FloatArray
    upper: FloatArray
    all_lower: FloatArray
    all_upper: FloatArray
    coverage: float

    def table(self) -> dict[str, Any]:
        """Return a dict of table columns: grid, mean and interval limits, one entry per value of the grid."""
        names = ("mean", "lower", "upper", "all_lower", "all_upper")
        return {self.column: self.grid, **{name: getattr(self, name) for name in names}}

    def to_frame(self) -> Any:
        """Return ``table`` as a pandas data frame."""
        return as_frame(self.table())


def partial_dependence(
    model: Any,
    X: Any,
    column: str | int,
    grid: ArrayLike | None,
    coverage: float,
    max_rows: int | None,
    random_state: Seed,
) -> PartialDependence:
    """Return average predictions as a function of a column; see ``ProbabilisticRegressor.partial_dependence``."""
    check_number("coverage", coverage, low=0.0, high=1.0, strict=True)
    coverage = float(coverage)
    table, generator = dense(X), np.random.default_rng(seed_sequence(random_state))
    j, n = column_number(table, column, model.reader.names), table.shape[0]
    values = _grid_of(model, table, j, grid)
    rows = take_rows(table, some_rows(n, max_rows, generator))
    mixed, names = mixed_rows(model, rows, with_column(table, j, values))
    place = j
    if not isinstance(table, np.ndarray):  # a data frame may have its columns in another order than in the fit
        check_choice("column", str(column_names(table)[j]), names)
        place = names.index(str(column_names(table)[j]))
    m, size = len(values), rows.shape[0]
    numbers = np.tile(np.arange(size)[:, None], (m, mixed.n_columns))
    numbers[:, place] = size + np.repeat(np.arange(m), size)
    new = mixed.take(numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDataWarning)
        prediction = model.predict(new if mixed.owner is not None else model.reader.read(new))
        mean = prediction.dist.mean().reshape(m, size).mean(axis=1)
        outcome = Outcome(*prediction.point_masses())
    levels = [(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0]
    ends = [outcome.quantiles(np.full(m * size, level)).reshape(m, size) for level in levels]
    pooled = [_pooled_quantile(outcome, level, end) for level, end in zip(levels, ends, strict=True)]
    lower, upper = (end.mean(axis=1) for end in ends)
    return PartialDependence(names[place], np.asarray(values), mean, lower, upper, pooled[0], pooled[1], coverage)


def column_number(table: Any, column: str | int, fitted_names: Any = None) -> int:
    """Return the number (from 0) of a column, given its name or number; raise if there is no such column."""
    names = column_names(table)
    can_be_name = isinstance(column, tuple) or np.ndim(column) == 0  # others cannot be compared with names
    if can_be_name and not isinstance(column, bool) and type(column).__name__ != "NAType" and column in names:
        return names.index(column)
    if isinstance(column, str):
        known = list(map(str, names if fitted_names is None else fitted_names))
        check_choice("column", column, known)
        return known.index(column)
    check_number("column, if not a name,", column, low=0, high=len(names) - 1, whole=True)
    return int(column)


def _grid_of(model: Any, table: Any, j: int, given: ArrayLike | None) -> Sequence[Any]:
    """Return the given grid, or a default grid; for numbers or dates that are stored as text, it consists of texts."""
    if given is None:
        name, encoder = column_names(table)[j], model.reader.encoder
        column = np.asarray(column_of(table, j, np.arange(table.shape[0])))
        numbers = None if encoder is None else encoder.numbers(table, name)
        if numbers is None:
            return default_grid(column, repr(name))
        return [column[np.flatnonzero(numbers == value)[0]] for value in default_grid(numbers, repr(name))]
    is_flat = np.ndim(given) <= 1 and getattr(given, "ndim", 1) > 0
    if isinstance(given, str | bytes) or not isinstance(given, Iterable) or not is_flat:
        raise InvalidParameterError(f"grid must be a list of values of the column; got {shown(given)}")
    values: list[Any] = given.tolist() if isinstance(given, np.ndarray) and given.dtype.kind != "M" else list(given)
    if not values:
        raise InvalidParameterError("grid must hold at least one value; got none")
    return values


def default_grid(column: NDArray[Any], name: str = "") -> Sequence[Any]:
    """Return the default grid of a column: some of its quantiles, or its most frequent values."""
    if column.dtype.kind in "mM":
        known = column[~np.isnat(column)]
    else:
        is_known = [value is not None and bool(value == value) for value in column.tolist()]
        known = column[np.array(is_known, dtype=bool)]
    if not len(known):
        raise InvalidParameterError(
            f"column {name} must have a value to start from; all of its values are missing: give grid="
        )
    values, counts = np.unique(known if known.dtype.kind != "O" else known.astype(str), return_counts=True)
    if known.dtype.kind == "O":  # the values themselves, not their texts
        texts = known.astype(str)
        values = np.array([known[np.flatnonzero(texts == text)[0]] for text in values], dtype=object)
    ordered = column.dtype.kind in "fiumM"
    if len(values) <= _FEW or not ordered:
        return list(values[np.sort(np.argsort(-counts, kind="stable")[:_MAX_VALUES])])
    places = (np.linspace(0.01, 0.99, _POINTS) * (len(known) - 1)).round().astype(np.intp)
    return list(np.unique(np.sort(known)[places]))


def _pooled_quantile(outcome: Outcome, level: float, ends: FloatArray) -> FloatArray:
    """Return the quantile of each of m mixtures: averages of the distributions of m sets of rows, by bisection.

    ``ends`` (m, size) are the quantiles of the single rows; the quantile of the mixture lies between them.
    """
    low, high = np.asarray(ends.min(axis=1)), np.asarray(ends.max(axis=1))
    if np.isinf(ends).any():  # the limit of the whole distribution
        return low if level < 0.5 else high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        above = outcome.above(np.repeat(middle, ends.shape[1])[:, None])[:, 0].reshape(ends.shape).mean(axis=1)
        enough = 1.0 - above >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        if np.all(high - low <= _TOLERANCE * np.maximum(np.abs(low), np.abs(high))):
            break
    return high
