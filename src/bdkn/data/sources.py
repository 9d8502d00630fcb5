"""Row sources: arrays, iterators and tables whose rows are read block by block."""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.arrays import read_numbers
from bdkn.data.reading import column_names, is_frame
from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError, check_number, shown
from bdkn.typing import BoolArray, FloatArray

_MOST_ROWS, _FEWEST_ROWS = 1 << 16, 1 << 8
"""Default number of rows of a block: many enough that reading it takes longer than asking for it."""

_CELLS = 1 << 22
"""Cells of a block of a wide table: 32 MiB in double precision."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows as a source reads them, not yet checked; ``place`` is where they are, such as the name of a file."""

    X: Any
    y: Any
    sample_weight: Any = None
    groups: Any = None
    place: str = ""


@dataclass(frozen=True)
class Words:
    """What the user calls targets, weights and groups, for messages."""

    y: str = "y"
    sample_weight: str = "sample_weight"
    groups: str = "groups"


@dataclass(eq=False)
class Passes:
    """What every pass over a source must have in common: the number of rows and the columns; None until a pass ends."""

    words: Words = field(default_factory=Words)
    n_rows: int | None = None
    columns: Columns | None = None

    def blocks(self, pieces: Iterable[Piece], size: int | None) -> Iterator[Rows]:
        """Yield the checked rows of one pass in blocks of ``size`` rows; the last may be smaller."""
        if size is not None:
            check_number("size", size, low=1, whole=True)
        return in_blocks(self._checked(pieces), size)

    def _checked(self, pieces: Iterable[Piece]) -> Iterator[Rows]:
        """Yield all rows of one pass, checked, and compare their number with that of other passes."""
        n, parts = 0, None
        for piece in pieces:
            rows = check_piece(piece, n, self.words)
            if not len(rows):
                continue
            self._check_columns(rows.X, _where(piece, n))
            given = tuple(part is not None for part in (rows.counts, rows.groups))
            if parts is not None and given != parts:
                raise InvalidParameterError(
                    f"all blocks must have weights and groups, or none; {_where(piece, n)} begins one that differs "
                    "from the first"
                )
            parts, n = given, n + len(rows)
            yield rows
        self.end(n)

    def _check_columns(self, X: Any, where: str) -> None:
        columns = columns_of(X)
        if self.columns is None:
            self.columns = columns
        if columns != self.columns:
            raise InvalidParameterError(
                f"all blocks must have the columns of the first, {worded(self.columns)}, in this order; "
                f"{where} begins one with {worded(columns)}"
            )

    def end(self, n: int) -> None:
        """Remember the number of rows of a pass that has ended; raise if there were none, or another number before."""
        if self.n_rows is not None and n != self.n_rows:
            raise InvalidParameterError(
                f"every pass must read the same rows; the first had {self.n_rows} rows, this one {n}: give a source "
                "that does not change, and begins anew for each pass"
            )
        if not n:
            raise InvalidParameterError("there must be at least one row; got none: check what the source reads")
        self.n_rows = n


def block_rows(columns: Columns) -> int:
    """Return the default number of rows of a block."""
    n_columns = columns if isinstance(columns, int) else len(columns)
    return min(_MOST_ROWS, max(_FEWEST_ROWS, _CELLS // max(1, n_columns)))


def in_blocks(parts: Iterable[Rows], size: int | None) -> Iterator[Rows]:
    """Yield rows in blocks of ``size`` rows, whatever the sizes of the parts are; the last block may be smaller."""
    waiting: list[Rows] = []
    held = 0
    for rows in parts:
        start, step = 0, size or block_rows(columns_of(rows.X))
        while held + len(rows) - start >= step:
            stop = start + step - held
            yield _joined([*waiting, _cut(rows, start, stop)])
            waiting, held, start = [], 0, stop
        if start < len(rows):
            waiting.append(_cut(rows, start, len(rows)))
            held += len(rows) - start
    if waiting:
        yield _joined(waiting)


def check_piece(piece: Piece, first: int, words: Words) -> Rows:
    """Return the rows of a piece, of which the first has the number ``first``; raise if they are no training rows."""
    try:
        X, y = read_table(piece.X), _column(words.y, piece.y)
        counts = None if piece.sample_weight is None else _column(words.sample_weight, piece.sample_weight)
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{error} (counted from {_where(piece, first)})") from error
    groups = None if piece.groups is None else _labels(piece.groups)
    _check_lengths(len(X), {words.y: y, words.sample_weight: counts, words.groups: groups}, _where(piece, first))
    _check_all(np.isfinite(y), f"{words.y} must hold a finite number for every row", y, piece, first)
    if counts is not None:
        told = f"{words.sample_weight} must hold a finite number >= 0 for every row, as it counts rows"
        _check_all(np.isfinite(counts) & (counts >= 0), told, counts, piece, first)
    if groups is not None:
        _check_all(_is_label(groups), f"{words.groups} must hold a label for every row", groups, piece, first)
        groups = groups.astype(str) if groups.dtype.kind == "O" else groups
    return Rows(X, y, counts, groups)


def _column(name: str, values: Any) -> FloatArray:
    """Return numbers of shape (n,); a table of one column is such a column."""
    if values is None:
        raise InvalidParameterError(f"every block must have targets; {name} is None")
    numbers = read_numbers(name, values)
    return numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else numbers


def _labels(values: Any) -> NDArray[Any]:
    """Return labels of shape (n,); a table of one column is such a column."""
    labels = np.asarray(values)
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _is_label(labels: NDArray[Any]) -> BoolArray:
    """Return which labels are not missing: None, nan, NaT and pandas' NA are."""
    if labels.dtype.kind != "O":
        return np.asarray(labels == labels)
    missing = (label is None or type(label).__name__ == "NAType" or bool(label != label) for label in labels)
    return ~np.fromiter(missing, bool, len(labels))


def _check_lengths(n: int, columns: dict[str, NDArray[Any] | None], where: str) -> None:
    for name, values in columns.items():
        if values is not None and values.shape != (n,):
            raise InvalidParameterError(
                f"{name} must hold one value per row of X, shape ({n},); got {values.shape} in the block that begins "
                f"with {where}"
            )


def _check_all(right: BoolArray, told: str, values: NDArray[Any], piece: Piece, first: int) -> None:
    if not right.all():
        row = int(np.argmin(right))
        raise InvalidParameterError(
            f"{told}; {_where(piece, first + row)} is {values[row]}: leave out such rows where they are read"
        )


def _where(piece: Piece, row: int) -> str:
    return f"row {row}" + (f", in {piece.place}," if piece.place else "")


def _cut(rows: Rows, start: int, stop: int) -> Rows:
    if start == 0 and stop == len(rows):
        return rows
    part = slice(start, stop)
    counts = None if rows.counts is None else rows.counts[part]
    groups = None if rows.groups is None else rows.groups[part]
    return Rows(cut(rows.X, start, stop), rows.y[part], counts, groups)


def _joined(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    counts = [part.counts for part in parts if part.counts is not None]
    groups = [part.groups for part in parts if part.groups is not None]
    return Rows(
        join([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(counts) if counts else None,
        np.concatenate(groups) if groups else None,
    )


@dataclass(frozen=True)
class NamedColumns:
    """The names of the columns of X, and of those of targets, weights and groups; None where there are none."""

    inputs: tuple[Any, ...]
    target: Any
    sample_weight: Any = None
    groups: Any = None

    @classmethod
    def of(
        cls,
        place: str,
        names: Sequence[Any],
        target: Any,
        *,
        columns: Sequence[Any] | None = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> NamedColumns:
        """Return the columns of a table ``place`` with ``names``; raise if some are not there or are named twice."""
        roles = {"target": target, "sample_weight": sample_weight, "groups": groups}
        for role, name in roles.items():
            if name is not None or role == "target":
                _check_name(role, name, names, place)
        taken = [name for name in roles.values() if name is not None]
        if isinstance(columns, str):
            raise InvalidParameterError(f"columns must be a list of names; got {columns!r}: [{columns!r}]")
        inputs = [name for name in names if name not in taken] if columns is None else list(columns)
        for name in inputs:
            _check_name("columns", name, names, place)
        _check_different([*taken, *inputs])
        if not inputs:
            raise InvalidParameterError(f"{place} must have a column beside {worded(tuple(taken))}; it has no other")
        return cls(tuple(inputs), target, sample_weight, groups)

    @property
    def all(self) -> tuple[Any, ...]:
        """The names of all columns that are read."""
        return (*self.inputs, *self.others)

    @property
    def others(self) -> tuple[Any, ...]:
        """The names of the columns that are no inputs."""
        return tuple(name for name in (self.target, self.sample_weight, self.groups) if name is not None)

    @property
    def numeric(self) -> tuple[Any, ...]:
        """The names of the columns that must hold numbers."""
        return tuple(name for name in (self.target, self.sample_weight) if name is not None)

    @property
    def words(self) -> Words:
        """What messages call targets, weights and groups."""
        return Words(*(f"column {name!r}" for name in (self.target, self.sample_weight, self.groups)))


def not_numeric(name: Any, kind: object, place: str) -> InvalidParameterError:
    """Return the error for a column that must hold numbers and does not."""
    return InvalidParameterError(
        f"column {name!r} of {place} must hold numbers; it holds {kind}: convert it before, or name another column"
    )


def _check_name(role: str, name: Any, names: Sequence[Any], place: str) -> None:
    """Raise unless a table has a column of this name."""
    if isinstance(name, Hashable) and name in set(names):
        return
    near = get_close_matches(name, [one for one in names if isinstance(one, str)], 1) if isinstance(name, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidParameterError(
        f"{role} must be the name of a column of {place}, which has {worded(tuple(names))}; got {shown(name)}{hint}"
    )


def _check_different(names: Sequence[Any]) -> None:
    twice = list(dict.fromkeys(name for name in names if names.count(name) > 1))
    if twice:
        raise InvalidParameterError(
            f"a column is an input, the target, the weight or the group of a row; {worded(tuple(twice))} is named twice"
        )


Columns = tuple[Any, ...] | int
"""The columns of a table: the names of a data frame's, the number of an array's."""


def read_table(X: Any) -> Any:
    """Return a data frame as it is, anything else as an array of numbers with a row per row; arrays are not copied."""
    if is_frame(X):
        return X
    table = X if isinstance(X, np.ndarray) and not isinstance(X, np.ma.MaskedArray) else None
    table = read_numbers("X", X) if table is None or table.dtype.kind not in "biuf" else np.asarray(table)
    if table.ndim != 2:
        raise InvalidParameterError(f"X must be a table, shape (n_samples, n_features); got shape {table.shape}")
    return table


def columns_of(X: Any) -> Columns:
    """Return the columns of a table that ``read_table`` has returned."""
    return int(X.shape[1]) if isinstance(X, np.ndarray) else tuple(column_names(X))


def worded(columns: Columns) -> str:
    """Return columns as they are named in a message."""
    if isinstance(columns, int):
        return f"{columns} columns without names"
    return ", ".join(map(repr, columns[:30])) + (f" and {len(columns) - 30} more" if len(columns) > 30 else "")


def cut(X: Any, start: int, stop: int) -> Any:
    """Return some rows of a table, as views where its library can."""
    if isinstance(X, np.ndarray):
        return X[start:stop]
    if hasattr(X, "iloc"):
        return X.iloc[start:stop]
    return X.slice(start, stop - start)


def join(tables: Sequence[Any]) -> Any:
    """Return tables with the same columns one below the other, in types that hold the values of all."""
    if len(tables) == 1:
        return tables[0]
    if isinstance(tables[0], np.ndarray):
        return np.concatenate(tables)
    try:
        return _joined_frames(tables)
    except Exception as error:  # each library has its own
        raise InvalidParameterError(
            f"all blocks must be frames of one library, with columns of the same types; two cannot be joined ({error})"
        ) from error


def _joined_frames(tables: Sequence[Any]) -> Any:
    library = type(tables[0]).__module__.partition(".")[0]
    if library == "pandas":
        import pandas as pd

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of columns of which one part is missing
            return pd.concat(tables, ignore_index=True)
    if library == "polars":
        import polars as pl

        return pl.concat(tables, how="vertical_relaxed")
    if library == "pyarrow":
        import pyarrow as pa

        return pa.concat_tables(tables, promote_options="permissive")
    import narwhals.stable.v2 as nw

    return nw.concat([nw.from_native(table, eager_only=True) for table in tables]).to_native()


_SHARED = ("r", "r+", "w+")
"""Modes of memory maps whose pages can be read from the file again."""


class ArrayRows:
    """Rows of arrays or memory maps, or of a data frame in memory, read in blocks.

    A memory map is never read whole: after each block its pages are given back to the system.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or data frame
        Columns. A memory map comes from ``numpy.load(path, mmap_mode="r")`` or ``numpy.memmap``.
    y : array-like of shape (n_samples,)
        Targets, which may be a memory map, too.
    sample_weight : array-like of shape (n_samples,), optional
        How many times each row is counted.
    groups : array-like of shape (n_samples,), optional
        Labels; rows with equal labels belong together.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import ArrayRows
    >>> source = ArrayRows(np.arange(10.0).reshape(5, 2), [1.0, 2.0, 3.0, 4.0, 5.0])
    >>> len(source), [block.y.tolist() for block in source.blocks(2)]
    (5, [[1.0, 2.0], [3.0, 4.0], [5.0]])
    """

    def __init__(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> None:
        self.X = X if is_frame(X) else np.asanyarray(X)
        self.y, self.sample_weight, self.groups = (
            None if part is None else np.asanyarray(part) for part in (y, sample_weight, groups)
        )
        self._maps = [part for part in (self.X, self.y, self.sample_weight, self.groups) if isinstance(part, np.memmap)]
        self._check_lengths()
        self._passes = Passes(n_rows=len(self.X))

    def __len__(self) -> int:
        return len(self.X)

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in order, in blocks of at most ``size`` rows.

        Parameters
        ----------
        size : int, optional
            Rows of a block; by default 65 536, of tables with more than 64 columns fewer.

        Returns
        -------
        blocks : iterator of Rows
            Blocks; all but the last have ``size`` rows.
        """
        return self._passes.blocks(self._pieces(size or block_rows(int(self.X.shape[1]))), size)

    def _pieces(self, size: int) -> Iterator[Piece]:
        parts = (self.y, self.sample_weight, self.groups)
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
            y, weights, groups = (None if part is None else part[start:stop] for part in parts)
            yield Piece(cut(self.X, start, stop), y, weights, groups)
            for part in self._maps:
                _give_back(part)

    def _check_lengths(self) -> None:
        if not getattr(self.X, "ndim", 2) == 2:
            raise InvalidParameterError(f"X must be a table, shape (n_samples, n_features); got shape {self.X.shape}")
        if self.y is None:
            raise InvalidParameterError("ArrayRows needs the targets of its rows; got y=None")
        for name, part in (("y", self.y), ("sample_weight", self.sample_weight), ("groups", self.groups)):
            if part is not None and part.shape[:1] != (len(self.X),):
                raise InvalidParameterError(
                    f"{name} must hold one value per row of X, shape ({len(self.X)},); got {part.shape}"
                )
        if not len(self.X):
            raise InvalidParameterError("there must be at least one row; got an X without rows")


def _give_back(array: Any) -> None:
    """Give the pages of a memory map back; whoever still uses some of them reads them again."""
    base = getattr(array, "_mmap", None)
    if isinstance(base, mmap.mmap) and getattr(array, "mode", "") in _SHARED and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


class IteratorRows:
    """Rows of an iterator that can be begun anew, such as the blocks of a reader of your own.

    Parameters
    ----------
    make : callable or iterable
        A function without arguments that returns a new iterator for each pass, or an object over which one can iterate
        many times. It yields tuples (X, y), (X, y, sample_weight) or (X, y, sample_weight, groups) of any number of
        rows, in the same order in each pass. Without weights but with groups, sample_weight is None.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import IteratorRows
    >>> def days():
    ...     for day in range(3):
    ...         yield np.full((2, 1), float(day)), [day + 0.1, day + 0.2]
    >>> source = IteratorRows(days)
    >>> len(source), [block.y.tolist() for block in source.blocks(4)]
    (6, [[0.1, 0.2, 1.1, 1.2], [2.1, 2.2]])
    """

    def __init__(self, make: Callable[[], Iterable[Any]] | Iterable[Any]) -> None:
        if hasattr(make, "__next__"):
            raise InvalidParameterError(
                "IteratorRows needs a function that returns a new iterator for each pass; got a "
                f"{type(make).__name__}, which can be read only once: give the function that makes it, without calling "
                "it, IteratorRows(read), or IteratorRows(lambda: read(path))"
            )
        if not (callable(make) or hasattr(make, "__iter__")):
            raise InvalidParameterError(
                f"IteratorRows needs a function that returns a new iterator for each pass; got {shown(make)}"
            )
        self.make = make
        self._passes = Passes()

    def __len__(self) -> int:
        if self._passes.n_rows is None:
            for _ in self.blocks():
                pass
        assert self._passes.n_rows is not None, "a pass that has ended has a number of rows"
        return self._passes.n_rows

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in order, in blocks of at most ``size`` rows.

        Parameters
        ----------
        size : int, optional
            Rows of a block; by default 65 536, of tables with more than 64 columns fewer.

        Returns
        -------
        blocks : iterator of Rows
            Blocks; all but the last have ``size`` rows.
        """
        return self._passes.blocks(self._pieces(), size)

    def _pieces(self) -> Iterator[Piece]:
        for given in self.make() if callable(self.make) else self.make:
            yield _piece(given)


def _piece(given: Any) -> Piece:
    if isinstance(given, Rows):
        return Piece(given.X, given.y, given.counts, given.groups)
    if isinstance(given, tuple | list) and 2 <= len(given) <= 4:
        return Piece(*given)
    got = f"{len(given)} values" if isinstance(given, tuple | list) else shown(given)
    raise InvalidParameterError(
        f"the iterator must yield tuples (X, y), (X, y, sample_weight) or (X, y, sample_weight, groups); got {got}"
    )
