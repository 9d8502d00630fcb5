"""Updates of a fitted model: rows are absorbed, removed and merged from other models; members never change.

Members have not seen later rows, so that these count as held-out rows: the posterior of the weights and the noise
becomes, in closed form, that of the held-out rows of the fit and all rows absorbed since.
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

    Made by ``statistics`` of a regressor; ``merge`` of a regressor with the same members takes it. Besides a few
    numbers it holds a triangle of H + 2 columns for H members. The triangle of fewer rows than that is as good as what
    members predict for these rows, and their targets: share it only for more.

    Parameters
    ----------
    members : str
        Digest of the members and of how they were combined in the fit.
    rows : Statistics
        Sufficient statistics of the rows absorbed, in scaled units.
    log_slopes : float, default=0.0
        Sum of the log derivatives of the transformed target, with which the evidence is in units of the target.

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
        """The number of rows, each counted as often as it counts."""
        return self.rows.n

    def digest(self) -> str:
        """Return a hash of the numbers, equal for equal statistics."""
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
    """Return the model with more rows; rows before them count ``forgetting`` times as much.

    With a ``prior_variance`` that of the weights is chosen again.
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
    """Return the model without rows that it has absorbed (None: without any of them)."""
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
    """Return the model with the rows that another one with the same members has absorbed."""
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
    """Return the statistics of the rows that a model has absorbed."""
    updates = updates_of(model)
    return RowStatistics(model.digest(), updates.absorbed.later, updates.log_slopes)


def updates_of(model: FittedModel) -> Updates:
    """Return what a model has absorbed, nothing after a fit."""
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
    """Return the model of the rows of the fit and those absorbed since."""
    combination = updates.absorbed.combination()
    extrapolation = model.extrapolation_for(combination)
    return replace(model, combination=combination, extrapolation=extrapolation, updates=updates)


_LaterRows = tuple[FloatArray, Keys, FloatArray, Callable[[FloatArray | None], Statistics]]
"""Log derivatives log g′(y) of rows, their keys and counts, and their statistics as a function of counts."""


def _read(model: FittedModel, updates: Updates, rows: Rows) -> _LaterRows:
    """Prepare rows to absorb or to remove; raise if the link is not defined for a target."""
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
