"""Rows that join or leave a fitted regressor, and what regressors with the same members tell each other."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bdkn.data.rows import Rows, table_blocks
from bdkn.errors import InvalidParameterError, ModelFileError, no_extrapolation_warnings
from bdkn.estimators.combining_model import CombiningModel
from bdkn.estimators.fitted import Combined, Updates
from bdkn.estimators.serialization import check_has_rows
from bdkn.inference import Absorbed, Combination, Forecast, Statistics
from bdkn.model.extrapolation import Widening
from bdkn.model.row_memory import Keys, row_keys
from bdkn.storage.archive import pack, read, unpack, write
from bdkn.storage.fields import stored
from bdkn.typing import FloatArray

_KIND = "RowStatistics"


@stored
@dataclass(frozen=True, eq=False)
class RowStatistics:
    """What the rows that a model has absorbed tell about the weights of its members, without the rows.

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
    >>> told = model.partial_fit(X, np.sin(X[:, 0])).statistics()
    >>> told.n, told.rows.root.shape
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
        """Return a hash of the numbers.

        Returns
        -------
        digest : str
            Equal for equal statistics.
        """
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


def absorb(model: CombiningModel, rows: Rows, forgetting: float, refit_prior: bool) -> Combined:
    """Return the combination of a regressor with more rows; rows before them count ``forgetting`` times as much."""
    updates = updates_of(model)
    later = _LaterRows.of(model, updates, rows)
    state = updates.absorbed.discount(forgetting).add(later.statistics(updates, rows.counts))
    if refit_prior:
        state = state.with_prior(model.prior_variance)
    updates = replace(
        updates,
        absorbed=state,
        log_slopes=forgetting * updates.log_slopes + float(later.slopes @ later.counts),
        memory=updates.memory.discount(forgetting).add(later.keys, later.counts),
    )
    return with_updates(model._combined, updates)


def remove_rows(model: CombiningModel, rows: Rows) -> Combined:
    """Return the combination of a regressor without rows that it has absorbed."""
    updates = updates_of(model)
    later = _LaterRows.of(model, updates, rows)
    counts, memory = updates.memory.take(later.keys, later.counts)
    updates = replace(
        updates,
        absorbed=updates.absorbed.remove(later.statistics(updates, counts)),
        log_slopes=updates.log_slopes - float(later.slopes @ counts),
        memory=memory,
    )
    return with_updates(model._combined, updates)


def remove_all(combined: Combined) -> Combined:
    """Return the combination as it was fitted."""
    check_has_rows(combined)
    if combined.updates is None:
        return combined
    fitted = combined.updates.absorbed.fitted
    return replace(combined, combination=fitted, widening=_widening_for(combined, fitted), updates=None)


def merge_statistics(model: CombiningModel, told: RowStatistics) -> Combined:
    """Return the combination of a regressor with the rows that another one with the same members has absorbed."""
    updates, digest = updates_of(model), told.digest()
    if told.members != members_digest(model):
        raise InvalidParameterError(
            "merge joins what models with the same members, from the same fit, have absorbed; these statistics are of "
            "other members: start every site with a copy, or the saved file, of one fitted model"
        )
    if digest in updates.merged:
        raise InvalidParameterError(
            "these statistics have been merged already, and rows must not count twice: merge later statistics of a "
            "site into a model that has not merged its former ones, such as the one that was fitted"
        )
    if not told.n:
        return model._combined
    updates = replace(
        updates,
        absorbed=updates.absorbed.add(told.rows),
        log_slopes=updates.log_slopes + told.log_slopes,
        memory=updates.memory.incomplete(),
        merged=(*updates.merged, digest),
    )
    return with_updates(model._combined, updates)


def statistics_of(model: CombiningModel) -> RowStatistics:
    """Return what the rows that a regressor has absorbed tell about its members."""
    updates = updates_of(model)
    return RowStatistics(members_digest(model), updates.absorbed.later, updates.log_slopes)


def updates_of(model: CombiningModel) -> Updates:
    """Return what a regressor has absorbed, nothing after a fit."""
    combined = model._combined
    check_has_rows(combined)
    if combined.updates is not None:
        return combined.updates
    if combined.held_out is None:
        raise InvalidParameterError(
            "a model is updated by rows that its members were not trained on, beside those that were left out of the "
            "fit; design='in-sample' leaves out none: fit with design='cross-fit' or 'hold-out'"
        )
    held_out, left_out = combined.held_out, combined.left_out
    if left_out is not None:
        statistics = left_out.statistics
        return Updates(Absorbed(combined.combination, statistics, Statistics.empty(statistics.n_weights)))
    return Updates(Absorbed.start(combined.combination, held_out.forecast(), held_out.y, held_out.counts))


def with_updates(combined: Combined, updates: Updates) -> Combined:
    """Return the combination of the rows of the fit and those absorbed since."""
    combination = updates.absorbed.combination()
    return replace(combined, combination=combination, widening=_widening_for(combined, combination), updates=updates)


def log_slopes(combined: Combined) -> float:
    """Return Σ c log g′(y) over all rows that count, with the link g in scaled units."""
    held_out, updates = combined.held_out, combined.updates
    assert held_out is not None, "a transformed target has held-out rows"
    if combined.left_out is not None:
        base = combined.left_out.log_slopes
    else:
        slopes = np.broadcast_to(combined.targets.log_derivative(held_out.y), held_out.y.shape)
        base = float(slopes.sum() if held_out.counts is None else slopes @ held_out.counts)
    return base if updates is None else updates.absorbed.base_weight * base + updates.log_slopes


def members_digest(model: CombiningModel) -> str:
    """Return a hash that tells whether two regressors have the same members, combined in the same way by their fits.

    What members predict for held-out rows tells them apart, whatever they are.
    """
    combined, fitted = model._combined, updates_of(model).absorbed.fitted
    held_out, targets = combined.held_out, combined.targets
    assert held_out is not None, "updates_of has checked it"
    numbers = (fitted.tempering, fitted.averaging, fitted.tails.scale, targets.mean, targets.scale)
    seen = hashlib.sha256(repr((model.member_names_, numbers, targets.link)).encode())
    for part in (held_out.means, held_out.variances, held_out.y, held_out.counts):
        seen.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    return seen.hexdigest()


def check_not_updated(combined: Combined, what: str) -> None:
    """Raise if a regressor has absorbed rows: what other members predict for them is not known."""
    if combined.updates is not None:
        raise InvalidParameterError(
            f"members cannot be {what} after rows were absorbed, as the model keeps statistics of these rows and not "
            "the rows: call forget() first, which brings back the model as it was fitted, and absorb the rows again "
            "afterwards"
        )


@dataclass(frozen=True, eq=False)
class _LaterRows:
    """Rows to absorb or to remove: what members predict, targets in scaled units, log g′(y), keys and counts."""

    forecast: Forecast
    y: FloatArray
    slopes: FloatArray
    keys: Keys
    counts: FloatArray

    @classmethod
    def of(cls, model: CombiningModel, updates: Updates, rows: Rows) -> Self:
        combined = model._combined
        y, counts = _scaled_targets(combined, rows.y), np.ones(len(rows)) if rows.counts is None else rows.counts
        keys = row_keys(_numbers(combined, rows), rows.y, counts)
        slopes = np.broadcast_to(combined.targets.log_derivative(y), y.shape)
        return cls(_forecast(model, updates, rows), y, slopes, keys, counts)

    def statistics(self, updates: Updates, counts: FloatArray | None) -> Statistics:
        return updates.absorbed.statistics_of(self.forecast, self.y, counts)


def _forecast(model: CombiningModel, updates: Updates, rows: Rows) -> Forecast:
    """Return the forecast of later rows, with the variance outside of the training rows as the fit knows it."""
    forecast, fitted = model._forecast(rows.X), updates.absorbed.fitted
    widening = _widening_for(model._combined, fitted)
    if widening is None:
        return forecast
    with no_extrapolation_warnings():
        return widening.widen(rows.X, forecast, fitted)


def _widening_for(combined: Combined, combination: Combination) -> Widening | None:
    """Return the widening with the thresholds of a combination; where the training rows lie stays."""
    if combined.widening is None or combined.held_out is None:
        return combined.widening
    return combined.widening.for_members(combined.held_out, combination)


def _scaled_targets(combined: Combined, y: FloatArray) -> FloatArray:
    """Return targets in scaled units; raise if the link has no value for one of them."""
    low, high = combined.targets.link.support
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = combined.targets.transform(y)
    wrong = ~np.isfinite(scaled) | (y < low) | (y > high)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidParameterError(
            f"the model was fitted to targets between {low:g} and {high:g}, which its predictions do not leave; got "
            f"y[{row}] = {y[row]:g}: check this row, or fit again with other bounds"
        )
    return scaled


def _numbers(combined: Combined, rows: Rows) -> FloatArray:
    """Return the columns of a table of any kind as numbers."""
    if combined.widening is None:
        return np.asarray(rows.X, dtype=np.float64)
    columns = combined.widening.support.columns
    return np.concatenate([columns.numbers(block) for block in table_blocks(rows.X)])
