"""Table of the distances of rows from the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.data.rows import as_frame, table_blocks
from bdkn.model.extrapolation import Nearest, Support, gate
from bdkn.typing import FloatArray


@dataclass(frozen=True, eq=False)
class SupportReport:
    """Distance of each row from the training rows. Made by ``support``.

    Parameters
    ----------
    ratio : array (n,)
        Distance to the nearest training row, over the distance that is typical between training rows.
    status : array (n,) of str
        "inside" with a ratio of at most 1; "gap" within the range of every column; "outside" beyond that of a column.
    column : array (n,) of str or int
        Name, or number from 0, of the column that is responsible: the one farthest beyond its range or, in a gap, the
        one that differs most from the nearest training row. None for rows inside.
    inside : array (n,)
        1 with a ratio of at most 1, falling to 0 with a ratio of 2 and more.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> X = np.linspace(-1.0, 1.0, 60)[:, None]
    >>> model = BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
    >>> report = model.support([[0.5], [3.0]])
    >>> report.status.tolist(), report.column.tolist(), report.inside.tolist()
    (['inside', 'outside'], [None, 0], [1.0, 0.0])
    """

    ratio: FloatArray
    status: NDArray[np.str_]
    column: NDArray[np.object_]
    inside: FloatArray

    @classmethod
    def of(cls, support: Support, X: Any, names: Any = None) -> SupportReport:
        """Return the report about rows of a table of any kind, with the ``names`` of its columns, if it has any.

        Parameters
        ----------
        support : Support
            Where the training rows lie.
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        names : sequence of str, optional
            Names of the columns.

        Returns
        -------
        report : SupportReport
            One entry per row.
        """
        parts = [_judge(support, support.nearest(block)) for block in table_blocks(X)]
        ratio, status, number = (np.concatenate(part) for part in zip(*parts, strict=True))
        column = (number if names is None else np.asarray(names, dtype=object)[number]).astype(object)
        column[status == "inside"] = None
        return cls(ratio, status, column, 1.0 - gate(ratio))

    def to_frame(self) -> Any:
        """Return the report as a pandas data frame.

        Returns
        -------
        frame : pandas.DataFrame
            One row per row, with the columns ``ratio``, ``status``, ``column`` and ``inside``.
        """
        return as_frame(vars(self))

    def __len__(self) -> int:
        return len(self.ratio)


def _judge(support: Support, nearest: Nearest) -> tuple[FloatArray, NDArray[np.str_], NDArray[np.intp]]:
    """Return the ratio and the status of each row, and the number of the column that is responsible."""
    beyond = support.columns.beyond(nearest.table)
    is_beyond = np.asarray(beyond.any(axis=1))
    status = np.where(nearest.ratio <= 1.0, "inside", np.where(is_beyond, "outside", "gap"))
    return nearest.ratio, status, np.argmax(np.where(is_beyond[:, None], beyond, np.abs(nearest.step)), axis=1)
