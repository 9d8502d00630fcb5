"""Updates of a fitted model: rows are absorbed, removed and merged from other models; members never change.

Members were not trained on later rows, so these are held-out rows, too. The posterior of the weights and the noise
given the held-out rows of the fit and all rows absorbed since is computed in closed form.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from bdkn.data.repeated_rows import Keys
from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError, ModelFileError, no_extrapolation_warnings
from bdkn.inference import Absorbed, Statistics
from bdkn.model.extrapolation import table_blocks
from bdkn.model.fitted import FittedModel, Updates
from bdkn.model.row_memory import row_keys
from bdkn.storage.archive import pack, read, unpack, write
from bdkn.storage.fields import stored
from bdkn.typing import FloatArray

_KIND = "RowStatistics"


@stored
@dataclass(frozen=True, eq=False)
class RowStatistics:
    """Sufficient statistics of the rows that a model has absorbed, without the rows.

    The method ``statistics`` of a regressor returns it, and ``merge`` of a regressor with the same members takes it. It
    has a triangular matrix of H + 2 columns for H members, and a few numbers. For fewer than H + 2 rows, the matrix
    is as informative as the members' predictions and the targets of these rows: share it only for more rows.

    Parameters
    ----------
    members : str
        Hash of the members and of how they were combined in the fit.
    rows : Statistics
        Sufficient statistics of the rows absorbed, in scaled units.
    log_slopes : float, default=0.0
        Sum of the log derivatives of the link at the targets, which the evidence in units of the target needs.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> X = np.linspace(-1.0, 1.0, 60)[:, None]
    >>> lines = [("one", lambda X: X[:, 0]), ("two", lambda X: 2 * X[:, 0])]
    >>> model = BayesianStackingRegressor(lines, density="student-t", random_state=0).fit(X, X[:, 0] ** 3)
    >>> found = model.partial_fit(X, np.sin(X[:, 0])).statistics()
    >>> found.n, found.rows.root.shape
    (60.0, (4, 4))
    """

    members: str
    rows: Statistics
    log_slopes: float = 0.0

    @property
    def n(self) -> float:
        """The number of absorbed rows: the sum of their counts."""
        return self.rows.n

    def digest(self) -> str:
        """Return a hash of the statistics, by which a second merge of the same statistics is recognised."""
        seen = hashlib.sha256(f"{self.members} {self.rows.n!r} {self.rows.sum_log_w!r}".encode())
        seen.update(np.ascontiguousarray(self.rows.root).tobytes())
        seen.update(np.ascontiguousarray(self.rows.ref).tobytes())
        return seen.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to one small file.

        Parameters
        ----------
        path : str or path-like
            File to write; an existing file is replaced.
        """
        arrays: dict[str, FloatArray] = {}
        tree = pack(self, arrays, "statistics")
        write(path, arrays, {"model": _KIND, "fitted": tree})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read statistics from a file that ``save`` wrote.

        Parameters
        ----------
        path : str or path-like
            File to read. Nothing in it is executed.

        Returns
        -------
        statistics : RowStatistics
            The same statistics.
        """
        arrays, document = read(path)
        if document.get("model") != _KIND:
            raise ModelFileError(f"{path} holds a {document.get('model')!s:.80}, no statistics: read it with bdkn.load")
        try:
            found = unpack(document.get("fitted"), arrays, "statistics")
        except ModelFileError as error:
            raise ModelFileError(f"{path} is damaged ({error}); save the statistics again") from error
        if not isinstance(found, cls):
            raise ModelFileError(f"{path} is damaged (it has no statistics); save the statistics again")
        return found


def absorb(model: FittedModel, rows: Rows, forgetting: float, prior_variance: str | float | None) -> FittedModel:
    """Return the model updated with more rows; the counts of earlier rows are multiplied by ``forgetting``.

    If ``prior_variance`` is not None, the prior variance of the weights is chosen again.
    """
    updates = updates_of(model)
    slopes, keys, counts, statistics = _read(model, updates, rows)
    absorbed = updates.absorbed.discount(forgetting).add(statistics(rows.counts))
    if prior_variance is not None:
        absorbed = absorbed.with_prior(prior_variance)
    log_slopes = forgetting * updates.log_slopes + float(slopes @ counts)
    memory = replace(updates.memory, weights=forgetting * updates.memory.weights).add(keys, counts)
    return _with_updates(model, Updates(absorbed, log_slopes, memory, updates.merged))


def forget(model: FittedModel, rows: Rows | None) -> FittedModel:
    """Return the model with the absorbed rows ``rows`` removed (None: all absorbed rows)."""
    model.check_has_rows()
    if rows is None:
        if model.updates is None:
            return model
        fitted = model.updates.absorbed.fitted
        return replace(model, combination=fitted, extrapolation=model.extrapolation_for(fitted), updates=None)
    if model.updates is None:
        raise InvalidParameterError(
            "forget removes rows that partial_fit absorbed; this model has absorbed none: fit again without these "
            "rows to remove them from a fit"
        )
    updates = model.updates
    slopes, keys, counts, statistics = _read(model, updates, rows)
    counts, memory = updates.memory.take(keys, counts)
    absorbed, log_slopes = updates.absorbed.remove(statistics(counts)), updates.log_slopes - float(slopes @ counts)
    return _with_updates(model, Updates(absorbed, log_slopes, memory, updates.merged))


def merge_statistics(model: FittedModel, found: RowStatistics) -> FittedModel:
    """Return the model updated with the rows that another model with the same members has absorbed."""
    updates, digest = updates_of(model), found.digest()
    if found.members != model.digest():
        raise InvalidParameterError(
            "merge joins what models with the same members, from the same fit, have absorbed; these statistics are of "
            "other members: start every site with a copy, or the saved file, of one fitted model"
        )
    if digest in updates.merged:
        raise InvalidParameterError(
            "these statistics have been merged already, and rows must not count twice: merge later statistics of a "
            "site into a model that has not merged its former ones, such as the one that was fitted"
        )
    if not found.n:
        return model
    absorbed, log_slopes = updates.absorbed.add(found.rows), updates.log_slopes + found.log_slopes
    memory, merged = replace(updates.memory, is_complete=False), (*updates.merged, digest)
    return _with_updates(model, Updates(absorbed, log_slopes, memory, merged))


def statistics_of(model: FittedModel) -> RowStatistics:
    """Return the sufficient statistics of the rows that a model has absorbed, to merge them into another model."""
    updates = updates_of(model)
    return RowStatistics(model.digest(), updates.absorbed.later, updates.log_slopes)


def updates_of(model: FittedModel) -> Updates:
    """Return the record of the rows that a model has absorbed; it is empty just after a fit."""
    model.check_has_rows()
    if model.updates is not None:
        return model.updates
    held_out = model.held_out
    if held_out is None:
        raise InvalidParameterError(NEEDS_HELD_OUT)
    if model.all_rows is not None:
        statistics = model.all_rows.statistics
        return Updates(Absorbed(model.combination, statistics, Statistics.empty(statistics.n_weights)))
    return Updates(Absorbed.start(model.combination, held_out.forecast(), held_out.y, held_out.counts))


NEEDS_HELD_OUT = (
    "a model is updated with rows that its members were not trained on, in addition to its held-out rows; "
    "design='in-sample' has none: fit with design='cross-fit' or 'hold-out'"
)


def _with_updates(model: FittedModel, updates: Updates) -> FittedModel:
    """Return the model with the posterior given the rows of the fit and the absorbed rows in ``updates``."""
    combination = updates.absorbed.combination()
    extrapolation = model.extrapolation_for(combination)
    return replace(model, combination=combination, extrapolation=extrapolation, updates=updates)


_LaterRows = tuple[FloatArray, Keys, FloatArray, Callable[[FloatArray | None], Statistics]]
"""Type: log derivatives of the link at targets, row hashes, counts, and a function from counts to row statistics."""


def _read(model: FittedModel, updates: Updates, rows: Rows) -> _LaterRows:
    """Return what is needed of rows to absorb or remove them; raise an error for targets outside of the bounds."""
    low, high = model.targets.link.support
    with np.errstate(invalid="ignore", divide="ignore"):
        y = model.targets.transform(rows.y)
    wrong = ~np.isfinite(y) | (rows.y < low) | (rows.y > high)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidParameterError(
            f"the model was fitted to targets between {low:g} and {high:g}, which its predictions do not leave; got "
            f"y[{row}] = {rows.y[row]:g}: check this row, or fit again with other bounds"
        )
    slopes = np.broadcast_to(model.targets.log_derivative(y), y.shape)
    forecast, absorbed, numbers = model.forecast(rows.X), updates.absorbed, rows.X
    extrapolation = model.extrapolation_for(absorbed.fitted)
    if extrapolation is not None:
        columns = extrapolation.support.columns
        numbers = np.concatenate([columns.numbers(block) for _, block in table_blocks(rows.X)])
        with no_extrapolation_warnings():
            outside = extrapolation.outside(rows.X, absorbed.fitted.spread(forecast))
        forecast = replace(forecast, outside=outside)
    counts = np.ones(len(rows)) if rows.counts is None else rows.counts
    keys = row_keys(np.asarray(numbers, dtype=np.float64), rows.y, counts)
    return slopes, keys, counts, partial(absorbed.statistics_of, forecast, y)
