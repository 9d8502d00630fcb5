"""The fit of a combination to held-out predictions.

With Φᵀ = QLᵀ, L (n, n), the rows tell of Qᵀβ only, whose prior under β ~ N(μ₀, σ² t I) is N(Qᵀμ₀, σ² t I) again. So
W^½ Φ has the singular values of W^½ L, for any precisions W: one factorisation of Φ, then matrices of the size of the
rows for each W. A posterior is the triangle of the prior with the rows added to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack, qr
from scipy.linalg.lapack import dtrtrs
from scipy.optimize import minimize_scalar

from bdkn.errors import check_choice, check_number
from bdkn.inference.combination import Combination, Tails, best_tails, features, mean_log_density
from bdkn.inference.conjugate import Prior, condition, log_evidence
from bdkn.inference.evidence import Spectrum, best_variance, choose_prior_variance, constant_part, renamed_exact
from bdkn.inference.factor import NOISE, WELL_CONDITIONED, Factor, Observations, checked_root, residual
from bdkn.inference.forecast import Forecast
from bdkn.inference.posteriors import Posterior
from bdkn.inference.rowwise import leave_out
from bdkn.inference.statistics import Statistics, read_chunk
from bdkn.lazy import lazy
from bdkn.typing import FloatArray

_MANY = 128
"""Weights from which this pays."""


@dataclass(frozen=True, eq=False)
class FewRows:
    """Rows ``Phi`` (n, H) with n < H and targets y; ``lower`` (n, n) is L, ``apart`` is y - Φμ₀, ``mean`` μ₀ (H,)."""

    Phi: FloatArray
    y: FloatArray
    mean: FloatArray
    lower: FloatArray
    apart: FloatArray

    @classmethod
    def of(cls, Phi: FloatArray, y: FloatArray, mean: FloatArray) -> FewRows | None:
        """Return the rows in the space that they span; None unless weights are many, and more than the rows."""
        n, H = Phi.shape
        if H < _MANY or n >= H:
            return None
        (upper,) = qr(Phi.T, mode="r", check_finite=False)
        return cls(Phi, y, mean, checked_root(upper[:n]).T, residual(Phi, y, mean))

    def spectrum(self, precision: FloatArray, counts: FloatArray | None) -> Spectrum | None:
        """Return the spectrum of the rows about μ₀; None if it could not be computed."""
        rows, n, sum_log_w = read_chunk((self.lower, self.apart, precision, counts))
        columns = rows.columns_from(np.zeros(len(self.lower)))
        U, s, _, failed = lapack.dgesdd(columns[:, :-1])
        if failed:
            return None
        c = U.T @ columns[:, -1]
        known = s > len(self.mean) * NOISE * s[0]
        rest = float(c[~known] @ c[~known])
        nothing = Statistics(Factor.empty(self.mean), n, sum_log_w)
        return Spectrum(s[known], c[known], rest, n / 2.0, 0.0, constant_part(nothing, 1, 0.0, 0.0))

    def condition(
        self, precision: FloatArray, counts: FloatArray | None, prior: Prior
    ) -> tuple[FloatArray, FloatArray, float, float]:
        """Return μₙ, Rₙ, aₙ and bₙ as ``conjugate.condition`` does; the prior must be strong enough, see ``allows``."""
        rows, n, _ = read_chunk((self.Phi, self.y, precision, counts))
        H = len(self.mean)
        start = Factor.empty(self.mean)
        start.root[:H, :H] = prior.root
        factor = start.add(Observations(rows.phi, rows.r, rows.ref, rows.scale))
        R, z = factor.root[:H, :H], factor.root[:H, H]
        return factor.ref + dtrtrs(R, z)[0], R, n / 2.0, float(factor.root[H, H]) ** 2 / 2.0


def allows(spectrum: Spectrum, t: float) -> bool:
    """Return whether the prior variance t leaves enough digits where members are equal and the prior alone decides."""
    return bool(spectrum.s[0] * np.sqrt(t) * WELL_CONDITIONED < 1.0)


MAX_TEMPERING = 2.0

MAX_WEIGHT_VARIANCE = 1.0
"""The largest prior variance of a weight. Weights far beyond one have no meaning in an ensemble, but can undo the
effect of held-out rows on members that predict little but a mean: they then err against the rows left out."""

_TEMPERING_RATE = 3.0
"""Rate of the exponential prior of τ: the log evidence that a noise variance v must gain over constant noise. Twenty
rows are easily better described by some power of v; that of thousands is decided by the rows alone."""

ROUNDING = float((16.0 * np.finfo(np.float64).eps) ** 2)
"""Share of the squared targets below which squared errors are rounding."""

_EXACT = 1e100
"""The log evidence of members that are exactly right, which is infinite, as a finite number for a search."""


def combine(
    forecast: Forecast,
    y: ArrayLike,
    counts: ArrayLike | None = None,
    *,
    prior_variance: str | float = "evidence",
    tempering: str | float = "evidence",
    tails: str = "loo",
) -> Combination:
    """Fit the Bayesian linear model to what members predict for held-out rows.

    Parameters
    ----------
    forecast : Forecast
        The members' predictions for rows that they were not trained on.
    y : array-like (n,)
        Targets of these rows.
    counts : array-like (n,), optional
        How often each row is counted.
    prior_variance : {"evidence", "paper"} or float, default="evidence"
        Prior variance of the weights in units of the noise, as in ``choose_prior_variance``; for "evidence" with a
        prior by which weights deviate from 1/H by about 1/H.
    tempering : "evidence" or float, default="evidence"
        The power τ of the members' variance in the noise variance, from 0 to 2; "evidence" chooses it, under an
        exponential prior that asks for three units of log evidence per unit of τ.
    tails : {"loo", "posterior"}, default="loo"
        Tails of the predictive: chosen by the leave-one-out score, or those of the posterior.

    Returns
    -------
    Combination
        The fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Forecast, combine
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=200)
    >>> means = np.column_stack([truth, -truth]) + 0.3 * rng.normal(size=(200, 2))
    >>> combination = combine(Forecast.of(means, np.full((200, 2), 0.1)), truth, tempering=0.0)
    >>> print(combination.weights.round(1))
    [ 0.5 -0.5]
    """
    check_choice("tails", tails, ("loo", "posterior"))
    if prior_variance == "exact":
        prior_variance = renamed_exact()
    share = None if counts is None else np.asarray(counts, dtype=np.float64)
    model = _Regression(
        features(forecast.means), np.asarray(y, dtype=np.float64), forecast.variance, share, prior_variance
    )
    if isinstance(tempering, str):
        check_choice("tempering", tempering, ("evidence",))
        tempering, (post, t, evidence) = model.best_fit()
    else:
        check_number("tempering", tempering, low=0.0, high=MAX_TEMPERING)
        post, t, evidence = model.fit(float(tempering))
    chosen, score = Tails(2.0 * post.a, 1.0), np.nan
    if post.a > 0.5:  # a single observation has no others to be predicted by
        df, loc, scale = leave_out(post, model.Phi, model.y, model.v**-tempering, share)
        if tails == "loo" and (fitted := best_tails(df, loc, scale, model.y, share)):
            chosen, df, scale = fitted, fitted.df, fitted.scale * scale
        score = mean_log_density(df, loc, scale, model.y, share) if post.b > 0.0 else np.inf
    level = float(np.average(model.v**tempering, weights=share))
    n = float(len(model.y) if share is None else share.sum())
    return Combination(post, t, evidence, n, float(tempering), level, chosen, intercept=True, score=score)


Fit = tuple[Posterior, float, float]
"""The posterior, the prior variance and the log evidence."""


@dataclass(frozen=True, eq=False)
class _Regression:
    """The regression of y on the members' means and a constant, with noise variances σ² v^τ."""

    Phi: FloatArray
    y: FloatArray
    v: FloatArray
    counts: FloatArray | None
    prior_variance: str | float

    def fit(self, τ: float) -> Fit:
        """Return the posterior, the prior variance and the log evidence for a given τ."""
        w, μ0 = self.v**-τ, self._prior_mean
        if self._few_rows is not None and (found := self._variance_of_few(w, self._few_rows)):
            t, evidence = found
            prior = Prior.shrinking(μ0, t)
            return Posterior(*self._few_rows.condition(w, self.counts, prior), prior), t, evidence
        stats = Statistics.from_rows(self.Phi, self.y, precision=w, counts=self.counts)
        widest, size = MAX_WEIGHT_VARIANCE, self._weight
        t = choose_prior_variance(stats, self.prior_variance, mean=μ0, widest=widest, size=size)
        prior = Prior.shrinking(μ0, t)
        post = Posterior(*condition(stats, prior), prior)
        if 0.0 < post.b <= ROUNDING * self._square(w):  # rounding alone: the members are exactly right
            post = replace(post, b=0.0)
        return post, t, log_evidence(stats, post)

    def _variance_of_few(self, w: FloatArray, few: FewRows) -> tuple[float, float] | None:
        """Return the prior variance and the log evidence for fewer rows than weights; None if that needs more care."""
        spectrum, t = few.spectrum(w, self.counts), self.prior_variance
        if spectrum is None:
            return None
        if isinstance(t, str):
            t = best_variance(spectrum, t, MAX_WEIGHT_VARIANCE, self._weight)
        is_exact = spectrum.b(t) <= ROUNDING * self._square(w)
        return None if is_exact or not allows(spectrum, t) else (float(t), float(spectrum.log_evidence(t)))

    def _evidence_of_few(self, τ: float) -> float | None:
        """Return the log evidence for fewer rows than weights, without the posterior; None if rows are not few."""
        found = None if self._few_rows is None else self._variance_of_few(self.v**-τ, self._few_rows)
        return found[1] if found else None

    @property
    def _weight(self) -> float:
        """The weight 1/H of a member in the equally weighted ensemble."""
        H: int = self.Phi.shape[1] - 1
        return 1.0 / H

    @lazy
    def _prior_mean(self) -> FloatArray:
        return np.append(np.full(self.Phi.shape[1] - 1, self._weight), 0.0)

    @lazy
    def _few_rows(self) -> FewRows | None:
        return FewRows.of(self.Phi, self.y, self._prior_mean)

    def _square(self, w: FloatArray) -> float:
        """Return Σ w y², zero if it is no finite number."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            total = np.sum(np.square(self.y) * w * (1.0 if self.counts is None else self.counts))
        return float(total) if np.isfinite(total) else 0.0

    def best_fit(self) -> tuple[float, Fit]:
        """Return the most probable τ under its prior, one or the other end where that is as good, and its fit."""
        fit = cache(self.fit)

        def log_posterior(τ: float) -> float:
            return min(self._evidence_of_few(τ) or fit(τ)[2], _EXACT) - _TEMPERING_RATE * τ

        best = minimize_scalar(
            lambda τ: -log_posterior(τ), bounds=(0.0, MAX_TEMPERING), method="bounded", options={"xatol": 1e-3}
        )
        τ = max((0.0, float(best.x), MAX_TEMPERING), key=log_posterior)
        return τ, fit(τ)
