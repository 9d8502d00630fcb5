"""What each column adds to predictions, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.errors import check_choice, check_number
from bdkn.regressors.frames import as_frame
from bdkn.typing import FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each of p columns adds to the predictions of R rows. Made by ``explain``.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns.
    parts : tuple of str
        What is explained: "mean", "variance", and the parts of the variance, which add up to it.
    rows : array of int (R,)
        Numbers of the rows that are explained.
    base : array (K,)
        Average of each part over the rows of the background.
    prediction : array (R, K)
        Each part as it is predicted: ``base`` plus the values of all columns.
    values : array (R, p, K)
        What each column adds.
    standard_error : array (R, p, K)
        Standard errors of the values, as a sample of orders and of rows of the background.

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
        """Return what each column adds to a part (R, p)."""
        return np.asarray(self.values[:, :, self.number_of(part)])

    def number_of(self, part: str) -> int:
        """Return the number of a part."""
        check_choice("part", part, self.parts)
        return self.parts.index(part)

    def importance(self) -> FloatArray:
        """Return how much each column matters for each part (p, K): the mean absolute value over rows."""
        return np.asarray(np.abs(self.values).mean(axis=0))

    def importance_error(self) -> FloatArray:
        """Return the standard errors (p, K) of ``importance``, as a sample of rows; those of the values for one row."""
        if len(self.rows) == 1:
            return np.asarray(self.standard_error[0])
        return np.asarray(np.abs(self.values).std(axis=0, ddof=1) / np.sqrt(len(self.rows)))

    def table(self) -> dict[str, Any]:
        """Return how much each column matters overall: the mean absolute value for each part, the largest first."""
        return self._table(self.importance(), self.importance_error())

    def row(self, i: int) -> dict[str, Any]:
        """Return what each column adds in the ``i``-th explained row, the largest values first."""
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
