"""Row source of Dask data frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.data.rows import Rows
from bdkn.data.sources import BlockSource, NamedColumns, Piece, check_piece, not_numeric
from bdkn.errors import InvalidParameterError, require, shown


class DaskRows(BlockSource):
    """Rows of a Dask data frame, computed one partition at a time.

    Partitions are computed in order by the active Dask scheduler: a cluster if a client is open, else this process.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The frame.
    target : str
        The name of the column of targets.
    columns : list of str, optional
        The names of the columns to predict from; by default all except target, weights and groups.
    sample_weight : str, optional
        The name of a column with the number of times that each row is counted.
    groups : str, optional
        The name of a column of labels; rows with equal labels are in the same fold.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> from bdkn import DaskRows
    >>> frame = pd.DataFrame({"area": [50.0, 60.0, 80.0], "rent": [900, 1000, 1400]})
    >>> source = DaskRows(dd.from_pandas(frame, npartitions=2), "rent")
    >>> len(source), [(list(block.X.columns), block.y.tolist()) for block in source.blocks()]
    (3, [(['area'], [900.0, 1000.0, 1400.0])])
    """

    def __init__(
        self,
        frame: Any,
        target: Any,
        *,
        columns: Sequence[Any] | None = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> None:
        require("dask", extra="dask")
        import dask.dataframe as dd
        from pandas.api.types import is_numeric_dtype

        if not isinstance(frame, dd.DataFrame):
            raise InvalidParameterError(
                f"DaskRows needs a data frame of Dask; got {shown(frame)}: dask.dataframe.from_pandas or read_parquet "
                "makes one"
            )
        self.columns = NamedColumns.of(
            "the frame", list(frame.columns), target, columns=columns, sample_weight=sample_weight, groups=groups
        )
        self.frame = frame[list(self.columns.all)]
        for name in self.columns.numeric:
            kind = self.frame.dtypes[name]
            if kind != np.dtype(object) and not is_numeric_dtype(kind):
                raise not_numeric(name, kind, "the frame")
        super().__init__(self.columns.role_names)

    def _count(self) -> int:
        return len(self.frame)

    @property
    def n_partitions(self) -> int:
        """The number of partitions."""
        return int(self.frame.npartitions)

    def partitions(self) -> list[Any]:
        """Return the partitions in order as delayed objects of Dask, which a cluster computes where the data are.

        Returns
        -------
        partitions : list of dask.delayed.Delayed
            Each computes the checked ``Rows`` of one partition, which may have no rows.
        """
        from dask.delayed import delayed

        read = delayed(partition_rows, pure=True)
        return [read(part, self.columns, number) for number, part in enumerate(self.frame.to_delayed())]

    def _pieces(self, size: int | None) -> Iterator[Piece]:
        for number, part in enumerate(self.frame.to_delayed()):
            yield _piece(part.compute(), self.columns, number)


def partition_rows(frame: Any, columns: NamedColumns, number: int, first: int = 0) -> Rows:
    """Convert a Dask partition (a pandas data frame) to checked ``Rows``; ``first`` is the number of its first row."""
    return check_piece(_piece(frame, columns, number), first, columns.role_names)


def _piece(frame: Any, columns: NamedColumns, number: int) -> Piece:
    def numbers(name: Any) -> NDArray[Any]:
        """Return a column in double precision, with nan for missing values; a column of objects is not converted."""
        column = frame[name]
        is_object = column.dtype == np.dtype(object)
        return np.asarray(column if is_object else column.to_numpy(np.float64, na_value=np.nan))

    X = frame[list(columns.inputs)]
    return columns.piece(X, numbers, lambda name: np.asarray(frame[name]), f"partition {number}")
