"""Row sources: tables whose rows are read and checked block by block."""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.arrays import column_names, is_frame, read_numbers
from bdkn.blocks import LARGE_CELLS, READ_ROWS, rows_within
from bdkn.data.rows import Rows, missing_labels, take_rows
from bdkn.errors import InvalidParameterError, check_number, did_you_mean, listed, shown
from bdkn.typing import BoolArray

_MIN_ROWS = 1 << 8
"""Lower limit of the default number of rows per block, which decreases with the number of columns."""

_Columns = tuple[Any, ...] | int
"""Type for the columns of a table: the names for a data frame, the number for an array."""

RoleNames = tuple[str, str, str]
"""Type of a tuple of three names for error messages: of the targets, the sample weights and the groups."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows as read from a row source, not yet checked; ``place`` is their origin for errors, such as a file name."""

    X: Any
    y: Any
    sample_weight: Any = None
    groups: Any = None
    place: str = ""


class BlockSource(ABC):
    """Base class of row sources: a subclass yields rows in pieces, which are checked, then joined or split into blocks.

    The number of rows and the columns must be the same in every pass over the source.
    """

    def __init__(self, names: RoleNames = ("y", "sample_weight", "groups"), n_rows: int | None = None) -> None:
        self._role_names, self._n_rows = names, n_rows
        self._columns: _Columns | None = None

    @abstractmethod
    def _pieces(self, size: int | None) -> Iterator[Piece]:
        """Yield all rows in order, in pieces of any size; ``size`` is the requested size of a block."""

    def _count(self) -> int:
        """Return the number of rows; by default, by a pass over all rows."""
        return sum(len(block) for block in self.blocks())

    def __len__(self) -> int:
        if self._n_rows is None:
            self._end_pass(self._count())
        assert self._n_rows is not None, "a pass that has ended has a number of rows"
        return self._n_rows

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        """Yield all rows in order, in blocks of at most ``size`` rows.

        Parameters
        ----------
        size : int, optional
            Number of rows of a block; by default 65 536, or fewer if a table has more than 64 columns.

        Returns
        -------
        blocks : iterator of Rows
            Blocks; all except the last have ``size`` rows. ``X`` is an array, a data frame of the library that the
            user's data frame belongs to, or an Arrow table (``ParquetRows``).
        """
        if size is not None:
            check_number("size", size, low=1, whole=True)
        return _in_blocks(self._checked(self._pieces(size)), size)

    def _checked(self, pieces: Iterable[Piece]) -> Iterator[Rows]:
        """Yield checked rows in one pass over the source; raise at the end if an earlier pass had another number."""
        n, first_given = 0, None
        for piece in pieces:
            rows = check_piece(piece, n, self._role_names)
            if not len(rows):
                continue
            columns = _columns_of(rows.X)
            if self._columns is None:
                self._columns = columns
            if columns != self._columns:
                raise InvalidParameterError(
                    f"all blocks must have the columns of the first, {_columns_text(self._columns)}, in this order; "
                    f"{_where(piece, n)} begins one with {_columns_text(columns)}"
                )
            given = rows.counts is not None, rows.groups is not None
            if first_given is not None and given != first_given:
                raise InvalidParameterError(
                    f"all blocks must have weights and groups, or none; {_where(piece, n)} begins one that differs "
                    "from the first"
                )
            first_given, n = given, n + len(rows)
            yield rows
        self._end_pass(n)

    def _end_pass(self, n: int) -> None:
        """Store ``n``, the number of rows in one pass; raise if it is 0 or differs from that of an earlier pass."""
        if self._n_rows is not None and n != self._n_rows:
            raise InvalidParameterError(
                f"every pass must read the same rows; the first had {self._n_rows} rows, this one {n}: give a source "
                "that does not change, and begins anew for each pass"
            )
        if not n:
            raise InvalidParameterError("there must be at least one row; got none: check what the source reads")
        self._n_rows = n


def block_rows(n_columns: int) -> int:
    """Return the default number of rows of a block of a table with ``n_columns`` columns."""
    return min(READ_ROWS, max(_MIN_ROWS, rows_within(LARGE_CELLS, n_columns)))


def _in_blocks(parts: Iterable[Rows], size: int | None) -> Iterator[Rows]:
    """Join or split parts of any size; yield blocks of ``size`` rows, of which the last one may be smaller."""
    waiting: list[Rows] = []
    n_waiting = 0
    for rows in parts:
        columns = _columns_of(rows.X)
        start, step = 0, size or block_rows(columns if isinstance(columns, int) else len(columns))
        while n_waiting + len(rows) - start >= step:
            stop = start + step - n_waiting
            yield Rows.join([*waiting, rows if stop - start == len(rows) else rows[start:stop]])
            waiting, n_waiting, start = [], 0, stop
        if start < len(rows):
            waiting.append(rows[start:] if start else rows)
            n_waiting += len(rows) - start
    if waiting:
        yield Rows.join(waiting)


def check_piece(piece: Piece, first: int, names: RoleNames) -> Rows:
    """Check rows that a source has read, and return them as ``Rows``; ``first`` is the first row number, for errors."""
    y_name, weight_name, group_name = names
    try:
        if piece.y is None:
            raise InvalidParameterError(f"every block must have targets; {y_name} is None")
        X, y = _table(piece.X), _single_column(read_numbers(y_name, piece.y))
        weights = piece.sample_weight
        counts = None if weights is None else _single_column(read_numbers(weight_name, weights))
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{error} (counted from {_where(piece, first)})") from error
    groups = None if piece.groups is None else _single_column(np.asarray(piece.groups))
    for name, values in ((y_name, y), (weight_name, counts), (group_name, groups)):
        if values is not None and values.shape != (len(X),):
            raise InvalidParameterError(
                f"{name} must hold one value per row of X, shape ({len(X)},); got {values.shape} in the block that "
                f"begins with {_where(piece, first)}"
            )

    def check(valid: BoolArray, values: NDArray[Any], rule: str) -> None:
        if not valid.all():
            row = int(np.argmin(valid))
            raise InvalidParameterError(
                f"{rule}; {_where(piece, first + row)} is {values[row]}: leave out such rows where they are read"
            )

    check(np.isfinite(y), y, f"{y_name} must hold a finite number for every row")
    if counts is not None:
        rule = f"{weight_name} must hold a finite number >= 0 for every row, as it counts rows"
        check(np.isfinite(counts) & (counts >= 0), counts, rule)
    if groups is not None:
        check(~missing_labels(groups), groups, f"{group_name} must hold a label for every row")
        groups = groups.astype(str) if groups.dtype.kind == "O" else groups
    return Rows(X, y, counts, groups)


def _table(X: Any) -> Any:
    """Return a data frame unchanged, anything else as an array (n, p) of numbers; arrays are not copied."""
    if is_frame(X):
        return X
    is_array = isinstance(X, np.ndarray) and not isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "biuf"
    table = np.asarray(X) if is_array else read_numbers("X", X)
    if table.ndim != 2:
        raise InvalidParameterError(f"X must be a table, shape (n_samples, n_features); got shape {table.shape}")
    return table


def _single_column(values: NDArray[Any]) -> NDArray[Any]:
    """Return a table of one column as an array (n,), anything else unchanged."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _columns_of(X: Any) -> _Columns:
    return int(X.shape[1]) if isinstance(X, np.ndarray) else tuple(column_names(X))


def _columns_text(columns: _Columns) -> str:
    return f"{columns} columns without names" if isinstance(columns, int) else listed(columns)


def _where(piece: Piece, row: int) -> str:
    return f"row {row}" + (f", in {piece.place}," if piece.place else "")


@dataclass(frozen=True)
class NamedColumns:
    """Names of a table's columns by role: inputs, target, sample weight and groups (the last two may be None)."""

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
        """Check a user's column names; raise if one is given twice or is not in ``names``, the columns of a table."""
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
        used = [*taken, *inputs]
        twice = tuple(dict.fromkeys(name for name in used if used.count(name) > 1))
        if twice:
            raise InvalidParameterError(
                f"a column is an input, the target, the weight or the group of a row; {listed(twice)} is named twice"
            )
        if not inputs:
            raise InvalidParameterError(f"{place} must have a column beside {listed(taken)}; it has no other")
        return cls(tuple(inputs), target, sample_weight, groups)

    @property
    def all(self) -> tuple[Any, ...]:
        """The names of all columns that are read."""
        return (*self.inputs, *(name for name in (self.target, self.sample_weight, self.groups) if name is not None))

    @property
    def numeric(self) -> tuple[Any, ...]:
        """The names of the columns that must hold numbers: targets and weights."""
        return (self.target,) if self.sample_weight is None else (self.target, self.sample_weight)

    def piece(
        self, X: Any, numbers: Callable[[Any], NDArray[Any]], labels: Callable[[Any], NDArray[Any]], place: str
    ) -> Piece:
        """Return unchecked rows; ``numbers`` and ``labels`` are functions that return a column, given its name."""
        return Piece(
            X,
            numbers(self.target),
            None if self.sample_weight is None else numbers(self.sample_weight),
            None if self.groups is None else labels(self.groups),
            place,
        )

    @property
    def role_names(self) -> RoleNames:
        """The names of the columns of targets, weights and groups, as text for error messages."""
        return f"column {self.target!r}", f"column {self.sample_weight!r}", f"column {self.groups!r}"


def not_numeric(name: Any, kind: object, place: str) -> InvalidParameterError:
    """Return the error, for the caller to raise, that a column must hold numbers and holds another ``kind``."""
    return InvalidParameterError(
        f"column {name!r} of {place} must hold numbers; it holds {kind}: convert it before, or name another column"
    )


def _check_name(role: str, name: Any, names: Sequence[Any], place: str) -> None:
    """Raise unless a table has a column of this name."""
    if not (isinstance(name, Hashable) and name in set(names)):
        raise InvalidParameterError(
            f"{role} must be the name of a column of {place}, which has {listed(names)}; got {shown(name)}"
            + did_you_mean(name, names)
        )


class ArrayRows(BlockSource):
    """Rows of arrays or memory maps, or of a data frame in memory, read in blocks.

    A memory map is never in memory as a whole: after each block, the memory that it occupies is released.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or data frame
        Table of rows. A memory map comes from ``numpy.load(path, mmap_mode="r")`` or ``numpy.memmap``.
    y : array-like of shape (n_samples,)
        Targets, which may be a memory map, too.
    sample_weight : array-like of shape (n_samples,), optional
        Number of times that each row is counted.
    groups : array-like of shape (n_samples,), optional
        Labels; rows with equal labels are in the same fold.

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
        if not getattr(self.X, "ndim", 2) == 2:
            raise InvalidParameterError(f"X must be a table, shape (n_samples, n_features); got shape {self.X.shape}")
        if self.y is None:
            raise InvalidParameterError("ArrayRows needs the targets of its rows; got y=None")
        n = len(self.X)
        for name, part in (("y", self.y), ("sample_weight", self.sample_weight), ("groups", self.groups)):
            if part is not None and part.shape[:1] != (n,):
                raise InvalidParameterError(f"{name} must hold one value per row of X, shape ({n},); got {part.shape}")
        if not n:
            raise InvalidParameterError("there must be at least one row; got an X without rows")
        super().__init__(n_rows=n)

    def _pieces(self, size: int | None) -> Iterator[Piece]:
        n, step = len(self.X), size or block_rows(int(self.X.shape[1]))
        parts = (self.y, self.sample_weight, self.groups)
        for start in range(0, n, step):
            some = slice(start, start + step)
            y, weights, groups = (None if part is None else part[some] for part in parts)
            yield Piece(take_rows(self.X, some), y, weights, groups)
            for part in (self.X, *parts):
                _release_pages(part)


def _release_pages(array: Any) -> None:
    """Free the memory of a memory map, unless its changes are not saved; its file is read again when needed."""
    base = getattr(array, "_mmap", None)
    is_shared = isinstance(base, mmap.mmap) and getattr(array, "mode", "") in ("r", "r+", "w+")
    if is_shared and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)  # type: ignore[union-attr]


class IteratorRows(BlockSource):
    """Rows of an iterator that can be restarted, such as the blocks of a user-defined reader.

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
        super().__init__()

    def _pieces(self, size: int | None) -> Iterator[Piece]:
        for given in self.make() if callable(self.make) else self.make:
            if isinstance(given, Rows):
                yield Piece(given.X, given.y, given.counts, given.groups)
            elif isinstance(given, tuple | list) and 2 <= len(given) <= 4:
                yield Piece(*given)
            else:
                got = f"{len(given)} values" if isinstance(given, tuple | list) else shown(given)
                raise InvalidParameterError(
                    "the iterator must yield tuples (X, y), (X, y, sample_weight) or (X, y, sample_weight, groups); "
                    f"got {got}"
                )
