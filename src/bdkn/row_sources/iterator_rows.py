"""Rows of an iterator that can be begun anew, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bdkn.errors import InvalidParameterError, shown
from bdkn.row_sources.blocks import Passes, Piece
from bdkn.rows import Rows


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
