"""Update of a fitted combination by later rows: one conjugate posterior of the rows of the fit and all later rows.

The tempering τ, the tails (ν, κ), the factor ζ = averaging² and the prior variance t are kept from the fit. Then the
posterior depends on the rows only through their sufficient statistics, which can be added, removed and discounted:

    S = f S_fit + S_later,    S_later ← λ S_later + S_new  and  f ← λ f   for a forgetting factor λ.

A later row is predicted by the mean of each member's fits, which errs less than a single fit, and it may lie outside of
the training rows. So its noise variance is the variance of a prediction, ζ v^τ + u/(κ²b/a), in units of the σ² of the
fit, with the extrapolation variance u and the κ²b/a of the fit. It does not depend on rows that were absorbed before:
the order in which rows come does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np

from bdkn.errors import check_number
from bdkn.inference.combination import MAX_WEIGHT_VARIANCE, Combination, Forecast, Tails, equal_weights, features
from bdkn.inference.evidence import choose_prior_variance
from bdkn.inference.posterior import Prior, log_evidence, posterior, without_rounding
from bdkn.inference.statistics import Statistics
from bdkn.storage.fields import Number, must, sizes, stored
from bdkn.typing import FloatArray


@stored
@dataclass(frozen=True, eq=False)
class Absorbed:
    """Statistics of the rows of a fit and of the rows absorbed after it, for updates. Made by ``start``.

    Parameters
    ----------
    fitted : Combination
        The combination as it was fitted.
    base : Statistics
        Statistics of the rows of the fit.
    later : Statistics
        Statistics of the rows absorbed after the fit.
    base_weight : float, default=1.0
        How many times each row of the fit counts.
    prior_variance : float or None, default=None
        Prior variance of the weights; None: the prior variance of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Absorbed, Forecast, combine
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=200)
    >>> means = truth[:, None] + 0.3 * rng.normal(size=(200, 3))
    >>> forecast = Forecast.of(means, np.full((200, 3), 0.1))
    >>> fitted = combine(forecast, truth)
    >>> state = Absorbed.start(fitted, forecast, truth)
    >>> state = state.add(state.statistics_of(forecast, truth))
    >>> print(fitted.n, state.combination().n)
    200.0 400.0
    """

    fitted: Annotated[Combination, sizes(W="posterior.mean.size")]
    base: Annotated[Statistics, sizes(W="n_weights")]
    later: Annotated[Statistics, sizes(W="n_weights")]
    base_weight: Annotated[float, Number(above=0.0, high=1.0)] = 1.0
    prior_variance: Annotated[float | None, Number(above=0.0)] = None

    def check(self) -> None:
        """Raise unless the fitted combination has a constant (an intercept)."""
        must(self.fitted.intercept, "rows are absorbed by a combination with a constant only")

    @classmethod
    def start(cls, fitted: Combination, forecast: Forecast, y: FloatArray, counts: FloatArray | None = None) -> Self:
        """Return the state directly after a fit to these rows, before it absorbs later rows."""
        base = fitted.statistics(forecast, y, counts)
        return cls(fitted, base, Statistics.empty(base.n_weights))

    @property
    def total(self) -> Statistics:
        """Statistics of the rows of the fit, weighted by ``base_weight``, and of all later rows."""
        base = self.base.discount(self.base_weight)
        return base + self.later if self.later.n else base

    def precision(self, forecast: Forecast) -> FloatArray:
        """Return the precision of later rows: one over the noise variance ζ v^τ + u/(κ²b/a), in units of σ²."""
        fitted = self.fitted
        noise = fitted.averaging**2 * forecast.variance**fitted.tempering
        unit = fitted.tails.scale**2 * fitted.posterior.b / fitted.posterior.a
        if forecast.outside is not None and unit > 0.0:
            noise = noise + forecast.outside.variance / unit
        return np.asarray(1.0 / noise)

    def statistics_of(self, forecast: Forecast, y: FloatArray, counts: FloatArray | None = None) -> Statistics:
        """Return the statistics of later rows, from the members' forecast and the targets of these rows."""
        return Statistics.from_rows(features(forecast.means), y, precision=self.precision(forecast), counts=counts)

    def add(self, rows: Statistics) -> Self:
        """Return the state that has absorbed more rows, given by their statistics."""
        return replace(self, later=self.later + rows if self.later.n else rows)

    def remove(self, rows: Statistics) -> Self:
        """Return the state without some of the later rows, given as statistics; raise if they cannot be among them."""
        return replace(self, later=self.later - rows)

    def discount(self, forgetting: float) -> Self:
        """Return the state in which all rows, also the rows of the fit, count ``forgetting`` times as much."""
        check_number("forgetting", forgetting, low=0.0, high=1.0, strict=True)
        return replace(self, later=self.later.discount(forgetting), base_weight=forgetting * self.base_weight)

    def with_prior(self, method: str | float) -> Self:
        """Return the state with the prior variance of the weights chosen again from all rows, as in ``combine``."""
        H = self.base.n_weights - 1
        μ0, widest = equal_weights(H), MAX_WEIGHT_VARIANCE
        found = choose_prior_variance(self.total, method, mean=μ0, widest=widest, size=1.0 / H)
        return replace(self, prior_variance=found)

    def combination(self) -> Combination:
        """Return the combination updated with all later rows: its posterior is new, tempering and tails are kept.

        The degrees of freedom stay as they were in the fit, unless the new posterior has fewer.
        """
        fitted, stats = self.fitted, self.total
        t = fitted.prior_variance if self.prior_variance is None else self.prior_variance
        prior = Prior.shrinking(equal_weights(stats.n_weights - 1), t)
        post = without_rounding(posterior(stats, prior), stats)
        has_own_tails = fitted.tails == Tails(fitted.posterior.df, 1.0)
        df = post.df if has_own_tails else min(fitted.tails.df, post.df)
        tails, evidence = Tails(df, fitted.tails.scale), log_evidence(stats, post)
        return replace(fitted, posterior=post, prior_variance=t, evidence=evidence, n=stats.n, tails=tails)
