"""Choice of the link of a target, by a quick leave-one-out score before any network is trained.

For each link that the targets allow, a small forest predicts the linked target from the inputs, another one the size of
the errors; both predict each row by trees that have not drawn it. A Student-t with these centres and scales gives the
log density of each target in its own units. Another link than the identity is used only if its score is better by
clearly more than the standard error of the difference.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import stdtr
from scipy.stats import skew

from bdkn.data.repeated_rows import column_numbers
from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError
from bdkn.predictive import ContinuedLink, IdentityLink, LogitLink, LogLink, MirroredLink, YeoJohnsonLink
from bdkn.predictive.links import Link
from bdkn.predictive.location_scale import student_t_logpdf
from bdkn.typing import BoolArray, FloatArray

TARGETS = ("auto", "identity", "log", "logit", "yeo-johnson")

_TREES = 100
"""Number of trees of each of the two forests."""

_LOG_RANGE = 1.0
"""A logarithmic link is continued linearly above this multiple of the largest target.

Predictions far outside of the training rows are wide. With a multiple of 3, the mean of an exponential was many times
the largest target.
"""

_RANGE = 3.0
"""A power link is linear where the distance to the median exceeds this multiple of the largest deviation."""

_NEAR_BOUND = 3.0
"""A link is continued linearly closer to a bound than the smallest distance of a target from it, over this number."""

_MAX_ROWS = 2000
"""Maximum number of rows on which links are compared."""

_MIN_ROWS = 30
"""Minimum number of rows for a comparison; with fewer rows the identity is used."""

_MIN_GAIN_ERRORS, _MIN_NATS = 4.0, 0.03
"""Minimum gain in log score of a link over the identity, in standard errors, and in nats per row."""

_BOUND_SHARE, _BOUND_ROWS = 0.02, 5
"""0 (or 1) is taken as a bound if at least this fraction and this number of targets are equal to it."""

_MIN_LOG_SPREAD = 0.3
"""A logarithmic link is tried if the logarithms of the positive targets have more than this standard deviation."""

_MIN_SKEWNESS = 0.5
"""Power links are tried if the targets have at least this absolute skewness."""


@dataclass(frozen=True, eq=False)
class TargetSettings:
    """Parameters ``target``, ``lower`` and ``upper`` of a regressor: they determine how targets are transformed."""

    target: str
    lower: float | None
    upper: float | None

    @classmethod
    def of(cls, model: Any) -> Self:
        """Return the settings of a regressor, from its parameters ``target``, ``lower`` and ``upper``."""
        return cls(model.target, model.lower, model.upper)

    def link(self, rows: Rows) -> Link:
        """Return the target transformation (link) for ``rows``; it is chosen by a score if ``target`` is "auto"."""
        self.check(rows.y)
        if self.target == "auto" and not 1e-100 < np.abs(rows.y).max() < 1e100:
            return self._identity(rows.y)
        if self.target == "auto":
            bounded = self._with_evident_bounds(rows.y)
            return choose_link(rows, [bounded._identity(rows.y), *bounded._candidates(rows.y)], _MIN_GAIN_ERRORS)
        if self.target == "yeo-johnson":
            return choose_link(rows, self._powers(rows.y), 0.0)
        return self._named(self.target, rows.y)

    def _with_evident_bounds(self, y: FloatArray) -> Self:
        """Return settings with ``lower`` 0 if many targets are 0 and none is less, and ``upper`` 1 if many are 1."""
        if self.lower is not None or self.upper is not None or y.min() != 0.0 or not _are_many(y == 0.0):
            return self
        return replace(self, lower=0.0, upper=1.0 if y.max() == 1.0 and _are_many(y == 1.0) else None)

    def check(self, y: FloatArray) -> None:
        """Raise an error if a target is below ``lower`` or above ``upper``."""
        (lower, upper), low, high = self._bounds(), y.min(), y.max()
        for name, bound, extreme, is_beyond in (
            ("lower", self.lower, low, low < lower),
            ("upper", self.upper, high, high > upper),
        ):
            if is_beyond:
                raise InvalidParameterError(
                    f"targets must lie within {name}={bound}; got {extreme:g}: give a bound that holds, or none"
                )

    def _identity(self, y: FloatArray) -> IdentityLink:
        return IdentityLink(*self._bounds(), self._near(y))

    def _bounds(self) -> tuple[float, float]:
        lower = -np.inf if self.lower is None else float(self.lower)
        return lower, np.inf if self.upper is None else float(self.upper)

    def _near(self, y: FloatArray) -> tuple[float, float]:
        """Return numbers near the two bounds, about as near as the nearest targets that are not equal to a bound."""
        lower, upper = self._bounds()
        near_lower = lower if self.lower is None or y.max() == lower else lower + _knee(y - lower)
        return near_lower, upper if self.upper is None or y.min() == upper else upper - _knee(upper - y)

    def _named(self, name: str, y: FloatArray) -> Link:
        if name == "identity":
            return self._identity(y)
        if name == "logit":
            return logit_link(
                y, *(0.0 if self.lower is None else self.lower, 1.0 if self.upper is None else self.upper)
            )
        if self.lower is not None and self.upper is not None:
            raise InvalidParameterError("target='log' takes one bound; got lower and upper: use target='logit'")
        if self.upper is not None:
            mirrored = log_link(-y, -self.upper)
            return ContinuedLink(MirroredLink(LogLink(-self.upper)), -mirrored.high, -mirrored.low)
        return log_link(y, 0.0 if self.lower is None else self.lower)

    def _candidates(self, y: FloatArray) -> list[Link]:
        """Return the links, other than the identity, that the targets allow.

        Targets between 0 and 1 do not show that 1 is an upper bound, as their range depends on the unit.
        """
        if self.lower is not None and self.upper is not None:
            return [self._named("logit", y)] if np.any((y > self.lower) & (y < self.upper)) else []
        if y.min() == y.max():
            return []
        if self.lower is not None or self.upper is not None:
            return [self._named("log", y), *self._powers(y)]
        is_positive = y.min() >= 0.0 and np.std(np.log(y[y > 0.0])) > _MIN_LOG_SPREAD
        return [*([log_link(y, 0.0)] if is_positive else []), *self._powers(y)]

    def _powers(self, y: FloatArray) -> list[Link]:
        """Return power links that make skewed targets less skewed; none if ``target`` is "auto" and skewness is low."""
        spread = float(np.subtract(*np.quantile(y, [0.75, 0.25]))) / 1.35 or float(np.std(y))
        if spread == 0.0:
            return [] if self.target == "auto" else [self._identity(y)]
        tilt = float(skew(y))
        if self.target == "auto" and abs(tilt) < _MIN_SKEWNESS:
            return []
        reach, centre = _RANGE * float(np.abs(y - np.median(y)).max()), float(np.median(y))
        powers = (0.0, 0.5) if tilt > 0.0 else (1.5, 2.0)
        links = (YeoJohnsonLink(power, centre, spread, *self._bounds(), self._near(y)) for power in powers)
        return [ContinuedLink(link, centre - reach, centre + reach) for link in links]


def log_link(y: FloatArray, lower: float) -> ContinuedLink:
    """Return the link log(y - lower), continued linearly near the bound ``lower`` and far above all targets."""
    x = y - lower
    if x.min() < 0.0 or x.max() <= 0.0:
        raise InvalidParameterError(
            f"target='log' needs targets above the bound {lower:g}; they extend from {y.min() + 0.0:g} to "
            f"{y.max() + 0.0:g}: give lower=, or use target='yeo-johnson'"
        )
    return ContinuedLink(LogLink(lower), lower + _knee(x), lower + _LOG_RANGE * float(x.max()))


def logit_link(y: FloatArray, lower: float, upper: float) -> ContinuedLink:
    """Return the logit link for targets between two bounds, continued linearly near the bounds."""
    if y.min() < lower or y.max() > upper:
        raise InvalidParameterError(
            f"target='logit' needs targets between {lower:g} and {upper:g}; they extend from {y.min():g} to "
            f"{y.max():g}: give lower= and upper="
        )
    if not np.any((y > lower) & (y < upper)):
        raise InvalidParameterError(
            f"target='logit' needs targets between its bounds; all of them lie on the bounds {lower:g} and {upper:g}: "
            "use target='identity', or a classifier"
        )
    middle = (upper - lower) / 4.0
    low, high = (min(_knee(x), middle) for x in (y - lower, upper - y))
    return ContinuedLink(LogitLink(lower, upper), lower + low, upper - high)


def _are_many(on_bound: BoolArray) -> bool:
    """Return whether many targets, but not all, are equal to 0 (or 1), as ``on_bound`` marks: then it is a bound."""
    return bool(on_bound.mean() >= _BOUND_SHARE and on_bound.sum() >= _BOUND_ROWS and not on_bound.all())


def _knee(x: FloatArray) -> float:
    """Return the distance from a bound within which a link is linear, given the distances x of the targets.

    It is a third of the smallest distance. If some targets are equal to the bound, it is the smallest distance of the
    other targets, but at least a twentieth of the median of these.
    """
    away = x[x > 0.0]
    return float(away.min()) / _NEAR_BOUND if x.min() > 0.0 else max(float(away.min()), float(np.median(away)) / 20.0)


def choose_link(rows: Rows, links: Sequence[Link], errors: float) -> Link:
    """Return the link with the best log score; the first one if the gain is below ``errors`` standard errors."""
    table = None if len(links) == 1 or len(rows) < _MIN_ROWS or np.ptp(rows.y) == 0.0 else numeric_table(rows.X)
    if table is None:
        return links[0]
    some = np.random.default_rng(0).permutation(len(rows))[:_MAX_ROWS]
    scores = link_scores(table[some], rows.y[some], links)
    weights = np.ones(len(some)) if rows.counts is None else rows.counts[some]
    best = int(np.argmax(np.average(scores, axis=1, weights=weights)))
    gain = scores[best] - scores[0]
    mean = np.average(gain, weights=weights)
    needed = max(
        errors * np.sqrt(np.average((gain - mean) ** 2, weights=weights) / len(some)), _MIN_NATS * (errors > 0)
    )
    return links[best] if mean > needed else links[0]


def link_scores(table: FloatArray, y: FloatArray, links: Sequence[Link]) -> FloatArray:
    """Return the log density (links, n) of each target, predicted out of bag by a small forest for each link."""
    linked = np.stack([link.forward(y) for link in links], axis=1)
    middle, size = np.median(linked, axis=0), np.std(linked, axis=0)
    linked = (linked - middle) / size
    errors = linked - _out_of_bag(table, linked)
    logs = _out_of_bag(table, np.log(errors**2 + 1e-6))
    scores = []
    for k, link in enumerate(links):
        with np.errstate(divide="ignore"):
            ends = (link.forward(np.array(link.support)) - middle[k]) / size[k]
        density = _best_density(linked[:, k], linked[:, k] - errors[:, k], logs[:, k], ends)
        scores.append(density + link.log_derivative(y) - np.log(size[k]))
    return np.stack(scores)


def _best_density(t: FloatArray, centre: FloatArray, logs: FloatArray, ends: FloatArray) -> FloatArray:
    """Return the log density of linked targets t: a Student-t truncated at ``ends``, with fitted scale and tails."""

    def density(parameters: FloatArray) -> FloatArray:
        scale = np.exp(parameters[0] + np.clip(parameters[1], 0.0, 2.0) * (logs - logs.mean()) / 2.0)
        df = 2.1 + np.exp(parameters[2])
        inside = stdtr(df, (ends[1] - centre) / scale) - stdtr(df, (ends[0] - centre) / scale)
        return np.asarray(student_t_logpdf(t, df, centre, scale) - np.log(np.maximum(inside, 1e-12)))

    start = np.array([np.log(np.std(t - centre) + 1e-9), 0.5, 1.0])
    found = minimize(lambda x: -density(x).mean(), start, method="Nelder-Mead", options={"maxiter": 150, "xatol": 1e-2})
    return density(np.asarray(found.x))


def _out_of_bag(table: FloatArray, outputs: FloatArray) -> FloatArray:
    """Return the out-of-bag predictions of ``outputs`` by a small forest."""
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(_TREES, min_samples_leaf=3, bootstrap=True, oob_score=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a row that all trees have drawn
        forest.fit(table, outputs)
    return np.asarray(forest.oob_prediction_).reshape(outputs.shape)


def numeric_table(X: Any) -> FloatArray | None:
    """Return a table as floats for a forest, with codes for texts and dates; None if it cannot be converted."""
    try:
        if hasattr(X, "columns"):
            columns = [column_numbers(np.asarray(X[name])) for name in X.columns]
            table = np.column_stack(columns).astype(np.float64)
        else:
            table = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return np.clip(table, -1e30, 1e30) if table.ndim == 2 and table.shape[1] else None
