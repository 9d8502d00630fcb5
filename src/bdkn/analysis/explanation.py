"""Shapley values: contributions of columns to the predicted mean and to the parts of the predicted variance."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from bdkn.arrays import check_readable
from bdkn.blocks import PREDICTED_ROWS, row_slices
from bdkn.data.folds import Seed, seed_sequence
from bdkn.data.rows import as_frame, join_tables, take_rows
from bdkn.errors import InvalidParameterError, OutsideDataWarning, check_choice, check_number
from bdkn.typing import FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class MixedRows:
    """A table from which new rows are composed: each column of a new row may come from another row.

    In an array, ``owner`` (q,) is the number of the column that each of q inputs belongs to: a category or a date may
    be encoded as several inputs, and an unused column as none. ``owner`` is None for a data frame.
    """

    table: Any
    owner: IndexArray | None
    n_columns: int

    def take(self, numbers: IndexArray) -> Any:
        """Return m new rows of p columns; column j has the values of the rows ``numbers[:, j]`` of the table."""
        if self.owner is None:
            return _frame_of([column_of(self.table, j, numbers[:, j]) for j in range(self.n_columns)], self.table)
        own = len(self.owner) == numbers.shape[1] and bool((np.diff(self.owner) == 1).all())
        rows = numbers if own else numbers[:, self.owner]
        q = self.table.shape[1]
        return self.table.ravel().take(rows * q + np.arange(q))


def dense(table: Any, name: str = "X") -> Any:
    """Return the table as a dense array, or a data frame unchanged; raise unless it has two dimensions."""
    if issparse(table):
        return table.toarray()
    if not hasattr(table, "shape") or isinstance(table, np.ndarray | np.generic):
        check_readable(name, table)
        table = np.asarray(table)
    if len(table.shape) != 2:
        raise InvalidParameterError(
            f"{name} must be a table, shape (n_samples, n_features); got shape {tuple(table.shape)}"
        )
    return table


def stack_rows(first: Any, second: Any) -> Any:
    """Return the rows of two tables with the same columns as one table."""
    if isinstance(first, np.ndarray):
        return np.ascontiguousarray(np.concatenate([first, np.asarray(second)]))
    if type(first) is not type(second):
        raise InvalidParameterError(
            f"background must be a table of the kind of X, {type(first).__name__}; got {type(second).__name__}"
        )
    names = column_names(first)
    missing = [name for name in names if name not in column_names(second)]
    if missing:
        raise InvalidParameterError(f"background must have the columns of X; it has none named {missing[0]!r}")
    return join_tables([first, second[names] if hasattr(second, "iloc") else second.select(names)])


def column_names(table: Any) -> list[Any]:
    """Return the names of the columns of a data frame, or their numbers."""
    if hasattr(table, "column_names"):
        return list(table.column_names)
    return list(table.columns) if hasattr(table, "columns") else list(range(table.shape[1]))


def column_of(table: Any, j: int, rows: IndexArray) -> Any:
    """Return the values of column j in these rows, as an array or column of the table's library."""
    if isinstance(table, np.ndarray):
        return table[rows, j]
    if hasattr(table, "iloc"):
        return table.iloc[:, j].array.take(rows)
    if hasattr(table, "get_columns"):
        return table.to_series(j).gather(rows)
    return table.column(j).take(rows)


def with_column(table: Any, j: int, values: Sequence[Any]) -> Any:
    """Return a table with one row per value: a copy of the first row with this value in column j."""
    first = np.zeros(len(values), dtype=np.intp)
    columns = [column_of(table, k, first) for k in range(table.shape[1])]
    columns[j] = _like(columns[j], values)
    return _frame_of(columns, table)


def _like(column: Any, values: Sequence[Any]) -> Any:
    """Return values as a column of the same type as ``column``."""
    if isinstance(column, np.ndarray):
        return np.asarray(values)
    if hasattr(column, "gather"):
        return type(column)(column.name, values, dtype=column.dtype, strict=False)
    if hasattr(column, "chunks"):
        from pyarrow import chunked_array

        return chunked_array([list(values)], type=column.type)
    from pandas import Series

    known = getattr(column.dtype, "categories", None)
    whole = column.dtype.kind in "iub" if hasattr(column.dtype, "kind") else False
    if known is not None or whole:  # values may be new categories, or not be integers
        return Series(list(values))
    return Series(list(values)).astype(column.dtype)


def _frame_of(columns: list[Any], like: Any) -> Any:
    """Return columns as a table of the same type as ``like``, with the same column names."""
    if isinstance(like, np.ndarray):
        return np.column_stack(columns)
    if hasattr(like, "iloc"):
        from pandas import DataFrame

        return DataFrame(dict(zip(like.columns, columns, strict=True)), copy=False)
    if hasattr(like, "get_columns"):
        return type(like)(columns)
    return type(like).from_arrays(columns, names=like.column_names)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Shapley values: contributions of p columns to the predictions for R rows. Made by ``explain``.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns.
    parts : tuple of str
        The K numbers that are explained: "mean", "variance", and the parts of the variance, which add up to it.
    rows : array of int (R,)
        Numbers of the rows that are explained.
    base : array (K,)
        Average of each part over the rows of the background.
    prediction : array (R, K)
        Predicted value of each part: ``base`` plus the values of all columns.
    values : array (R, p, K)
        Shapley values: what each column adds to each part.
    standard_error : array (R, p, K)
        Standard errors of the values, which come from the sampling of column orders and background rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = BayesianStackingRegressor([("sum", lambda X: X @ [3.0, 1.0])], random_state=0).fit(X, X @ [3.0, 1.0])
    >>> explanation = model.explain(X)
    >>> explanation.table()["column"]
    ['0', '1']
    >>> total = explanation.base + explanation.values.sum(axis=1)
    >>> bool(np.allclose(total, explanation.prediction))
    True
    """

    columns: tuple[str, ...]
    parts: tuple[str, ...]
    rows: IndexArray
    base: FloatArray
    prediction: FloatArray
    values: FloatArray
    standard_error: FloatArray

    def of(self, part: str = "mean") -> FloatArray:
        """Return what each column adds to one part of the prediction, such as "mean", in each row (R, p)."""
        return np.asarray(self.values[:, :, self.number_of(part)])

    def number_of(self, part: str) -> int:
        """Return the index in ``parts`` of a part such as "mean"; raise an error if there is no such part."""
        check_choice("part", part, self.parts)
        return self.parts.index(part)

    def importance(self) -> FloatArray:
        """Return the importance (p, K) of each column for each part: its mean absolute Shapley value over rows."""
        return np.asarray(np.abs(self.values).mean(axis=0))

    def importance_error(self) -> FloatArray:
        """Return the standard errors (p, K) of ``importance`` over rows; for a single row, the errors of its values."""
        if len(self.rows) == 1:
            return np.asarray(self.standard_error[0])
        return np.asarray(np.abs(self.values).std(axis=0, ddof=1) / np.sqrt(len(self.rows)))

    def table(self) -> dict[str, Any]:
        """Return a dict of table columns: importance of each column for each part, with errors, the largest first."""
        return self._table(self.importance(), self.importance_error())

    def row(self, i: int) -> dict[str, Any]:
        """Return a dict of table columns: what each column adds in the ``i``-th explained row, the largest first."""
        check_number("i", i, low=0, high=len(self.rows) - 1, whole=True)
        return self._table(self.values[i], self.standard_error[i])

    def to_frame(self, row: int | None = None) -> Any:
        """Return ``table()`` as a pandas data frame, or ``row(i)`` if a row is given."""
        return as_frame(self.table() if row is None else self.row(row))

    def _table(self, values: FloatArray, errors: FloatArray) -> dict[str, Any]:
        order = np.argsort(-np.abs(values[:, 0]), kind="stable")
        found: dict[str, Any] = {"column": [self.columns[j] for j in order]}
        for k, part in enumerate(self.parts):
            found |= {part: values[order, k], f"{part}_error": errors[order, k]}
        return found


_MAX_BACKGROUND = 384
"""Number of background rows that are predicted; from these, rows spread evenly over predicted means are drawn."""

_FEW_ROWS = 20
"""Largest number of explained rows for which ``_FOR_FEW`` predictions per row are the default."""

_FOR_FEW, _FOR_MANY = 800, 500
"""Default numbers of predictions per explained row, if few rows are explained and if many are."""

_MIN_SAMPLES, _MAX_SAMPLES = 8, 128
"""Limits of the default ``n_samples``: the number of random column orders per explained row, each with its reverse."""


def explain(
    model: Any,
    X: Any,
    background: Any,
    n_samples: int | None,
    max_rows: int | None,
    variance: bool,
    random_state: Seed,
) -> Explanation:
    """Return the Shapley values of the predictions of a fitted model; see ``ProbabilisticRegressor.explain``."""
    generator = np.random.default_rng(seed_sequence(random_state))
    table = dense(X)
    others = table if background is None else dense(background, "background")
    if others.shape[0] < 2:
        raise InvalidParameterError(
            "a prediction is explained by comparing it with those of other rows, of which there must be 2; got "
            f"{others.shape[0]}{' in X' if background is None else ''}: give background=, for example the training rows"
        )
    rows = some_rows(table.shape[0], max_rows, generator)
    if n_samples is None:
        predictions = _FOR_FEW if len(rows) <= _FEW_ROWS else _FOR_MANY
        n_samples = int(np.clip(predictions // max(1, 2 * (table.shape[1] - 1)), _MIN_SAMPLES, _MAX_SAMPLES))
    check_number("n_samples", n_samples, low=2, whole=True)
    n_samples = int(n_samples)  # a NumPy integer may have 8 bits only
    source = take_rows(others, some_rows(others.shape[0], max(n_samples, _MAX_BACKGROUND), generator))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDataWarning)  # mixed rows may be far from all training rows
        read = model.reader.read(source)
        centers = model.centers(read) if hasattr(model, "centers") else model.predict(read).dist.mean()
        chosen = _draw_evenly(centers, min(n_samples, source.shape[0]), generator)
        mixed, names = mixed_rows(model, take_rows(table, rows), take_rows(source, chosen))
        n, m, p = len(rows), len(chosen), mixed.n_columns
        parts: list[str] = []

        def predict(numbers: IndexArray) -> FloatArray:
            """Return the K predicted parts of new rows; column j comes from the rows ``numbers[:, j]`` of ``mixed``."""
            outputs = []
            for some in row_slices(len(numbers), PREDICTED_ROWS):
                new = mixed.take(numbers[some])
                prediction = model.predict(new if mixed.owner is not None else model.reader.read(new))
                found = {"mean": prediction.dist.mean()}
                if variance:
                    shares = prediction.variances()
                    found |= {"variance": np.asarray(sum(shares.values())), **shares}
                parts[:] = found
                outputs.append(np.stack(list(found.values()), axis=1))
            return np.concatenate(outputs)

        plain = predict(np.broadcast_to(np.arange(n + m)[:, None], (n + m, p)))
        if not np.isfinite(plain).all():
            n_infinite = int((~np.isfinite(plain)).any(axis=1).sum())
            raise InvalidParameterError(
                f"variances can be explained where they are finite; {n_infinite} of {len(plain)} rows have none, as "
                "the model has two degrees of freedom or fewer: give variance=False"
            )
        others = n + np.tile(np.arange(m), -(-n_samples // m))
        step = max(1, PREDICTED_ROWS // max(1, 2 * len(others) * (p - 1)))
        found = [
            _shapley_values(np.arange(i, min(i + step, n)), others, plain, predict, p, generator)
            for i in range(0, n, step)
        ]
        values, errors = (np.concatenate(part) for part in zip(*found, strict=True))
        return Explanation(names, tuple(parts), rows, plain[n:].mean(axis=0), plain[:n], values, errors)


def _shapley_values(
    rows: IndexArray,
    others: IndexArray,
    plain: FloatArray,
    predict: Callable[[IndexArray], FloatArray],
    p: int,
    generator: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Return Shapley values (m, p, K) of columns for some rows, and their standard errors.

    ``others`` are background rows. Each of them is changed into the explained row, one column after the other, in a
    random order and in its reverse. ``plain`` are the predictions of all rows before any change.
    """
    m, pairs, K = len(rows), len(others), plain.shape[1]
    ranks = _ranks(generator, (m, pairs, p))
    steps = np.empty((m, pairs, 2, p + 1, K))
    steps[..., 0, :] = plain[others][None, :, None]
    steps[..., p, :] = plain[rows][:, None, None]
    if p > 1:
        replaced = ranks[..., None, :] < np.arange(1, p)[:, None]
        numbers = np.where(replaced, rows[:, None, None, None, None], others[None, :, None, None, None])
        steps[..., 1:p, :] = predict(numbers.reshape(-1, p)).reshape(m, pairs, 2, p - 1, K)
    added = np.take_along_axis(np.diff(steps, axis=3), ranks[..., None], axis=3).mean(axis=2)
    # Background rows are sorted by predicted mean, so that errors are estimated from successive differences.
    error = np.sqrt(np.mean(np.diff(added, axis=1) ** 2, axis=1) / (2.0 * added.shape[1]))
    return added.mean(axis=1), error


def _ranks(generator: np.random.Generator, shape: tuple[int, int, int]) -> IndexArray:
    """Return the positions (m, pairs, 2, p) of p columns in random orders and in the reverse of each order."""
    ranks = np.argsort(generator.random(shape), axis=2)
    return np.stack([ranks, shape[2] - 1 - ranks], axis=2)


def some_rows(n: int, most: int | None, generator: np.random.Generator) -> IndexArray:
    """Return the numbers of all n rows or, if n exceeds ``most``, of a random sample of ``most`` rows, sorted."""
    if most is not None:
        check_number("max_rows", most, low=1, whole=True)
    if most is None or n <= most:
        return np.arange(n)
    return np.sort(generator.choice(n, int(most), replace=False))


def mixed_rows(model: Any, X: Any, source: Any) -> tuple[MixedRows, tuple[str, ...]]:
    """Return a ``MixedRows`` of the rows of both tables, to compose new rows from them, and the column names."""
    reader, encoder = model.reader, model.reader.encoder
    fitted = reader.names if encoder is None else encoder.names
    names = tuple(map(str, column_names(X) if fitted is None else fitted))
    owner = np.arange(len(names)) if encoder is None else encoder.column_of_feature
    first, second = reader.read(X), reader.read(source)
    if isinstance(first, np.ndarray) and first.shape[1] == len(owner):
        return MixedRows(stack_rows(first, second), owner, len(names)), names
    given = tuple(map(str, column_names(X)))
    return MixedRows(stack_rows(X, source), None, len(given)), given


def _draw_evenly(means: FloatArray, size: int, generator: np.random.Generator) -> IndexArray:
    """Sort rows by mean, divide them into ``size`` equal groups, and return the number of one random row per group."""
    edges = np.linspace(0, len(means), size + 1)
    places = (edges[:-1] + generator.random(size) * np.diff(edges)).astype(np.intp)
    order: IndexArray = np.argsort(means, kind="stable")
    return np.asarray(order[np.unique(np.minimum(places, len(means) - 1))])
