"""The combination of members: a Bayesian linear model on their means, with noise variances and tails that are fitted.

yᵢ = φᵢᵀβ + α + εᵢ,   εᵢ ~ N(0, σ² vᵢ^τ),   β_h ~ N(1/H, σ² t),   α ~ N(0, σ² t),

with v the variance that the ensemble predicts. The constant is one more member, with prior mean zero. Given τ and
t = σ_β² the model is conjugate; both are chosen by evidence under weak priors: √(σ² t) is half-t with three degrees of
freedom and of size 1/H, τ exponential. The prior of the weights shrinks them towards equal weights, and so
adds no noise. τ = 0 is the paper's constant noise; τ = 1 with β = 1/H and σ² = 1 is the deep ensemble.

The degrees of freedom of the posterior, 2aₙ, describe how precisely σ² is determined. Residuals of real data have
heavier tails. So degrees of freedom and a factor on the scale are chosen by the leave-one-out score, and the predictive
distribution remains a Student-t.

Outside of the training rows a prediction has one term more, y(x) = φ(x)ᵀβ + α + √u(x) δ(x) + ε with δ ~ GP(0, k) and
k(x, x) = 1, where u(x) ≥ 0 is zero on the training rows. So the data do not depend on δ: the posterior of β, α and σ²
is that of the model without δ, and δ keeps its prior. A predictive keeps its centre and its degrees of freedom, and its
squared scale grows by u(x), jointly too: the covariance of two rows grows by √(u(x) u(x′)) k(x, x′).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, stdtr, stdtrit

from bdkn.errors import check_choice, check_number
from bdkn.inference.evidence import Spectrum, best_variance
from bdkn.inference.few_rows import FewRows
from bdkn.inference.posterior import Posterior, Prior, leave_out, log_evidence, posterior, without_rounding
from bdkn.inference.rowwise import leverage, location_scale
from bdkn.inference.statistics import Statistics
from bdkn.predictive import StudentT
from bdkn.predictive.location_scale import student_t_logpdf
from bdkn.storage.fields import Extended, NonNegative, Number, Positive, must, stored
from bdkn.typing import FloatArray

MAX_TEMPERING = 2.0
"""Maximum of the tempering τ: the noise variance of a row is proportional to v^τ, with the members' variance v."""

MAX_WEIGHT_VARIANCE = 1.0
"""Maximum prior variance of a weight. Large weights are not meaningful in an ensemble. They could also leak held-out
targets: the mean of the training rows of a fold is low if its held-out targets are high."""

_TEMPERING_RATE = 3.0
"""Rate of the exponential prior of the tempering τ: the gain of log evidence required per unit of τ. Twenty rows often
fit some power of v better by chance; for thousands of rows the prior hardly matters."""

_EXACT = 1e100
"""Finite number that replaces an infinite log evidence (members without errors) in the search for the tempering τ."""

_MIN_DF = 2.1
"""Minimum degrees of freedom of predictions; with two, the variance would be infinite."""

_N_FEATURE_PAIRS = 64
"""Half of the number of random features that approximate the correlation between extrapolation errors of rows."""

_STEPS = 50
"""Maximum number of Newton steps in the search for the best scale of a Student-t distribution."""

_SPREAD_ROWS = 81.0
"""After a fit to n rows, the targets' variance counts like this number / n³ rows in the scale of predictions."""

_MAX_AVERAGING_GAIN = 0.8
"""Maximum share of the squared scale that is removed if members are means of several fits: 1 - 1/5, for five fits."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predictions of all members for n rows: each member's mean, and the noise variance averaged over members.

    Parameters
    ----------
    means : array (n, H)
        Mean of each member.
    noise : array (n,)
        Noise variance, averaged over the members.
    disagreement : array (n,)
        Variance among the members' means.
    fold_variance : array (n, H), optional
        Variance, over folds, of the means that each member's fits predict; None if each member is a single fit.
    outside : Outside, optional
        Additional variance of rows outside of the training rows; None: no additional variance.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Forecast
    >>> forecast = Forecast.of(np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([[0.1, 0.3], [0.2, 0.2]]))
    >>> print(forecast.noise, forecast.disagreement, forecast.variance)
    [0.2 0.2] [1. 0.] [1.2 0.2]
    """

    means: FloatArray
    noise: FloatArray
    disagreement: FloatArray
    fold_variance: FloatArray | None = None
    outside: Outside | None = None

    @classmethod
    def of(cls, means: FloatArray, variances: FloatArray) -> Self:
        """Return the forecast of H members with means (.., n, H), averaged over the leading axes, such as folds.

        ``variances`` (.., n, V) are the noise variances of the V members that predict a variance.
        """
        lead = tuple(range(means.ndim - 2))
        disagreement, by_fold = means.var(axis=-1).mean(axis=lead), means.var(axis=lead) if lead else None
        return cls(means.mean(axis=lead), variances.mean(axis=(*lead, -1)), disagreement, by_fold)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return one forecast for the rows of all parts, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        means, noise, disagreement = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("means", "noise", "disagreement")
        )
        by_fold = [part.fold_variance for part in parts if part.fold_variance is not None]
        return cls(means, noise, disagreement, np.concatenate(by_fold) if by_fold else None)

    @property
    def variance(self) -> FloatArray:
        """The predictive variance v of the equally weighted ensemble."""
        return self.noise + self.disagreement

    def __len__(self) -> int:
        return len(self.means)


@dataclass(frozen=True, eq=False)
class Outside:
    """Extrapolation variance: the additional variance of predictions for rows outside of the training rows.

    Parameters
    ----------
    variance : array (n,)
        The variance u that is added to the squared scale of a row, in scaled units; zero near training rows.
    directions : array (n, R) or None, default=None
        A unit vector for each row. The correlation k of the additional errors of two rows is the product of their
        vectors. None if rows are predicted one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Outside
    >>> outside = Outside(np.array([0.0, 4.0]), np.eye(2))
    >>> print(outside.std)
    [0. 2.]
    """

    variance: FloatArray
    directions: FloatArray | None = None

    @property
    def std(self) -> FloatArray:
        """The square root √u of the extrapolation variance of each row."""
        return np.sqrt(self.variance)

    @property
    def root(self) -> FloatArray:
        """A square root A (n, R) of the covariance AAᵀ of the rows' extrapolation errors."""
        assert self.directions is not None, "rows of a joint prediction have directions"
        return self.std[:, None] * self.directions

    def draw(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Return extrapolation errors (n, size) of the rows, drawn jointly: each column is one random function."""
        return np.asarray(self.root @ generator.standard_normal((self.root.shape[1], size)))


def directions(Z: FloatArray) -> FloatArray:
    """Return unit vectors (n, R) of standardized rows; their products are the correlations of extrapolation errors.

    The correlation is a finite sum for the arc-cosine kernel of order one (Cho and Saul, 2009) of (z, 1), normalized:
    it depends on the angle only. Far away, rows on the same ray from the origin have a correlation near 1, so that a
    function drawn there continues in a straight line, and rows on opposite rays are independent.
    """
    drawn = np.random.default_rng(0).standard_normal((Z.shape[1] + 1, _N_FEATURE_PAIRS))
    along = Z @ drawn[:-1] + drawn[-1]
    found = np.maximum(np.hstack([along, -along]), 0.0)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))


def combine(
    forecast: Forecast,
    y: ArrayLike,
    counts: ArrayLike | None = None,
    *,
    prior_variance: str | float = "evidence",
    tempering: str | float = "evidence",
    tails: str = "loo",
) -> Combination:
    """Fit the Bayesian linear model to the predictions of the members for held-out rows.

    Parameters
    ----------
    forecast : Forecast
        The members' predictions for rows that they were not trained on.
    y : array-like (n,)
        Targets of these rows.
    counts : array-like (n,), optional
        Number of times that each row counts.
    prior_variance : {"evidence", "paper"} or float, default="evidence"
        Prior variance of the weights in units of the noise, as in ``choose_prior_variance``; for "evidence" with a
        prior by which weights deviate from 1/H by about 1/H.
    tempering : "evidence" or float, default="evidence"
        The power τ of the members' variance in the noise variance, from 0 to 2; "evidence" chooses it, under an
        exponential prior that requires three units of log evidence per unit of τ.
    tails : {"loo", "posterior"}, default="loo"
        Tails of the predictive distribution: chosen by the leave-one-out score, or the tails of the posterior.

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
    if isinstance(tempering, str):
        check_choice("tempering", tempering, ("evidence",))
    else:
        check_number("tempering", tempering, low=0.0, high=MAX_TEMPERING)
    Phi, target = features(forecast.means), np.asarray(y, dtype=np.float64)
    v = forecast.noise + forecast.disagreement
    share = None if counts is None else np.asarray(counts, dtype=np.float64)
    H = Phi.shape[1] - 1
    μ0 = equal_weights(H)
    few = FewRows.of(Phi, target, μ0) if len(Phi) <= H else None

    @cache
    def fit(τ: float) -> tuple[float, float, Posterior | None]:
        """Return prior variance, log evidence and posterior (None if rows are few) for a given tempering τ."""
        w = v**-τ
        if few and (found := few.evidence(w, share, prior_variance, MAX_WEIGHT_VARIANCE, 1.0 / H)):
            return *found, None
        stats = Statistics.from_rows(Phi, target, precision=w, counts=share)
        spectrum = Spectrum.of_directions(stats.directions(μ0), stats)
        t = best_variance(spectrum, prior_variance, MAX_WEIGHT_VARIANCE, 1.0 / H)
        post = without_rounding(posterior(stats, Prior.shrinking(μ0, t)), stats)
        return t, log_evidence(stats, post), post

    def log_posterior(τ: float) -> float:
        """Return the log evidence plus the log prior density of the tempering τ."""
        return min(fit(τ)[1], _EXACT) - _TEMPERING_RATE * τ

    if isinstance(tempering, str):  # 0 and 2 are tried too: the search does not reach the limits
        bounds, options = (0.0, MAX_TEMPERING), {"xatol": 1e-3}
        best = minimize_scalar(lambda τ: -log_posterior(τ), bounds=bounds, method="bounded", options=options)
        tempering = max((0.0, float(best.x), MAX_TEMPERING), key=log_posterior)
    τ = float(tempering)
    t, evidence, post = fit(τ)
    if few and post is None:
        prior = Prior.shrinking(μ0, t)
        post = Posterior(*few.condition(v**-τ, share, prior), prior)
    assert post is not None, "few rows have a posterior of their own"

    chosen, score = Tails(2.0 * post.a, 1.0), np.nan
    if post.a > 0.5:  # a single observation cannot be predicted from others
        df, loc, scale = leave_out(post, Phi, target, v**-τ, share)
        if tails == "loo" and (fitted := fit_tails(df, loc, scale, target, share)):
            chosen, df, scale = fitted, fitted.df, fitted.scale * scale
        score = np.inf
        if post.b > 0.0:
            score = float(np.average(student_t_logpdf(target, df, loc, scale), weights=share))
    level = float(np.average(v**τ, weights=share))
    n = float(len(target) if share is None else share.sum())
    return Combination(post, t, evidence, n, τ, level, chosen, intercept=True, score=score)


def equal_weights(H: int) -> FloatArray:
    """Return the prior mean of the weights: 1/H for each of H members, and zero for the constant at the end."""
    return np.append(np.full(H, 1.0 / H), 0.0)


def features(means: FloatArray) -> FloatArray:
    """Return the design matrix [Φ, 1]: the members' means and a column of ones for the constant."""
    Phi = np.empty((len(means), means.shape[1] + 1))
    Phi[:, :-1], Phi[:, -1] = means, 1.0
    return Phi


@stored
@dataclass(frozen=True, eq=False)
class Combination:
    """The fitted Bayesian linear model on the members' means. Made by ``combine``.

    Parameters
    ----------
    posterior : Posterior
        Posterior of (β, α, σ²).
    prior_variance : float
        Prior variance t of the weights, in units of the noise.
    evidence : float
        Log evidence of the observations.
    n : float
        Number of observations.
    tempering : float
        Power τ of the members' variance v in the noise variance.
    noise_level : float
        Mean of v^τ over the observations.
    tails : Tails
        Tails of the predictive.
    intercept : bool
        Whether the model has a constant α, as the last weight of the posterior.
    score : float, default=nan
        Leave-one-out score, the mean log density of each row given the others; nan with one observation.
    averaging : float, default=1.0
        Factor on the scale of predictions of new rows, in which each member is the mean of several fits; see
        ``averaged`` and ``for_new_rows``.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Forecast, combine
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=200)
    >>> means = truth[:, None] + 0.3 * rng.normal(size=(200, 3))
    >>> forecast = Forecast.of(means, np.full((200, 3), 0.1))
    >>> combination = combine(forecast, truth + 0.1 * rng.normal(size=200))
    >>> print(combination.weights.round(2))
    [0.32 0.33 0.31]
    >>> combination.predictive(forecast).interval(0.9)[0].shape
    (200,)
    """

    posterior: Posterior
    prior_variance: NonNegative
    evidence: Extended
    n: Positive
    tempering: NonNegative
    noise_level: NonNegative
    tails: Tails
    intercept: bool
    score: Extended = np.nan
    averaging: NonNegative = 1.0

    def check(self) -> None:
        """Raise unless at least one member has a weight."""
        must(self.weights.size >= 1, "needs a weight for at least one member")

    @property
    def weights(self) -> FloatArray:
        """Posterior mean of the weights β of the members."""
        return self.posterior.mean[: len(self.posterior.mean) - self.intercept]

    @property
    def constant(self) -> float:
        """Posterior mean of the constant α (the intercept); zero in a model without a constant."""
        return float(self.posterior.mean[-1]) if self.intercept else 0.0

    @property
    def noise_std(self) -> float:
        """The scale of the noise for a row whose relative noise variance v^τ is the average, ``noise_level``."""
        κ = self.averaging * self.tails.scale
        return float(κ * np.sqrt(self.posterior.b / self.posterior.a * self.noise_level))

    def statistics(self, forecast: Forecast, y: FloatArray, counts: FloatArray | None = None) -> Statistics:
        """Return the sufficient statistics of rows, with one over the noise variance v^τ as their precision."""
        precision = forecast.variance**-self.tempering
        return Statistics.from_rows(features(forecast.means), y, precision=precision, counts=counts)

    def averaged(self, forecast: Forecast, fold_variance: FloatArray, counts: FloatArray | None = None) -> Combination:
        """Return the combination for predictions in which each member is the mean of several fits.

        This combination was fitted to a ``forecast`` with one fit per member and row; ``fold_variance`` (n, H) is the
        variance among the fits of a member. With single fits, the mean squared error is larger by Σₕ βₕ² fold_varianceₕ
        than with their means. So the squared scale is reduced by the average ratio of this sum to the squared scale.
        """
        post, weights, h = self.posterior, self.weights, leverage(self.posterior.root, self._features(forecast))
        scale = self.tails.scale * (np.sqrt(post.b / post.a) * np.sqrt(self._noise(forecast) + h))
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 where the posterior is certain
            saved = np.nan_to_num(fold_variance @ weights**2 / scale**2, posinf=_MAX_AVERAGING_GAIN)
        share = float(np.average(np.minimum(saved, _MAX_AVERAGING_GAIN), weights=counts))
        return replace(self, averaging=self.averaging * float(np.sqrt(1.0 - share)))

    def for_new_rows(self, y: FloatArray, counts: FloatArray | None = None) -> Combination:
        """Return the combination for predictions of new rows: the same model with a larger scale.

        The mean of all n targets, also of held-out rows, is subtracted before the fit. The expected squared distance of
        these targets from the mean is (n - 1)/n of the variance, but (n + 1)/n for a new row. Moreover, three rows may
        be predicted well by chance. So the squared scale is averaged with the variance of ``y``, which counts
        as 81/n³ rows: three rows with n = 3, a twelfth of a row with n = 10.
        """
        n, level = self.n, self.noise_std**2
        if n <= 1.0 or level == 0.0:
            return self
        mean = np.average(y, weights=counts)
        spread, rows = float(np.average((y - mean) ** 2, weights=counts)), _SPREAD_ROWS / n**3
        chance = (n + rows * max(1.0, spread / level)) / (n + rows)
        return replace(self, averaging=self.averaging * float(np.sqrt(chance * (n + 1.0) / (n - 1.0))))

    def predictive(self, forecast: Forecast, unit: float = 1.0, shift: float = 0.0) -> StudentT:
        """Return the Student-t predictions of rows, times ``unit`` plus ``shift`` (for the units of the targets).

        With unit 1 and shift 0 they are St(ν, φᵀμₙ, κ² (bₙ/aₙ)(v^τ + φᵀΛₙ⁻¹φ) + u), with the extrapolation variance u.
        """
        df, loc, scale = self.parameters(forecast, unit, shift)
        return StudentT.unchecked(np.broadcast_to(np.float64(df), loc.shape), loc, scale)

    def parameters(
        self, forecast: Forecast, unit: float = 1.0, shift: float = 0.0
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the parameters of ``predictive``: degrees of freedom, locations (n,) and scales (n,)."""
        loc, scale = self._location_scale(forecast)
        scale = unit * (self.averaging * self.tails.scale) * scale
        if forecast.outside is not None:
            scale = np.hypot(scale, unit * np.sqrt(forecast.outside.variance))
        return self.tails.df, shift + unit * loc, scale

    def _location_scale(self, forecast: Forecast) -> tuple[FloatArray, FloatArray]:
        """Return locations and scales of predictions, before ``tails`` and extrapolation variance change the scales."""
        post = self.posterior
        return location_scale(post.root, post.mean, self._features(forecast), self._noise(forecast), post.b / post.a)

    def leave_one_out(self, forecast: Forecast, y: FloatArray, counts: FloatArray | None = None) -> StudentT:
        """Return leave-one-out predictions: each row of the fit is predicted from all other rows of the fit."""
        df, loc, scale = self.leave_one_out_parameters(forecast, y, counts)
        return StudentT.unchecked(np.broadcast_to(np.float64(df), loc.shape), loc, scale)

    def leave_one_out_parameters(
        self, forecast: Forecast, y: FloatArray, counts: FloatArray | None = None
    ) -> tuple[float | FloatArray, FloatArray, FloatArray]:
        """Return degrees of freedom, locations (n,) and scales (n,) of leave-one-out predictions of the fit's rows."""
        post, tails = self.posterior, self.tails
        df, loc, scale = leave_out(post, self._features(forecast), y, 1.0 / self._noise(forecast), counts)
        is_own = (tails.df, tails.scale) == (2.0 * post.a, 1.0)
        return (df, loc, scale) if is_own else (tails.df, loc, tails.scale * scale)

    def variance(self, forecast: Forecast) -> dict[str, FloatArray]:
        """Return the parts of the predictive variance: noise, disagreement of the members, uncertain weights, outside.

        The variance due to v^τ is divided between "noise" and "disagreement" in the ratio of the members' noise
        variance to their disagreement. With two degrees of freedom or fewer, parts are infinite.
        """
        post, v = self.posterior, forecast.variance
        unit, noise = (self.averaging * self.tails.scale) ** 2 * post.b / post.a, self._noise(forecast)
        share = forecast.disagreement / v if self.tempering else np.zeros_like(v)
        parts = {
            "noise": unit * (noise * (1.0 - share)),
            "disagreement": unit * (noise * share),
            "weights": unit * leverage(post.root, self._features(forecast)),
            "outside": np.zeros_like(v) if forecast.outside is None else forecast.outside.variance,
        }
        return {name: student_t_covariance(self.tails.df, part) for name, part in parts.items()}

    def spread(self, forecast: Forecast) -> FloatArray:
        """Return the spread of each row: the weighted variance among all fits, D = H Σₕ βₕ² meanₖ(φₕₖ - φ̄)².

        φ̄ is the weighted mean of all fits k of all members h. With weights 1/H, D is the plain variance. A member in
        other units, or a useless member, has a small weight, and does not dominate D.
        """
        total = self.weights.sum()
        size = np.abs(self.weights).sum()
        share = self.weights / (total if abs(total) > 0.5 * size else size or 1.0)
        squares = np.square(forecast.means - (forecast.means @ share)[:, None])
        if forecast.fold_variance is not None:
            squares += forecast.fold_variance
        return np.asarray(squares @ (len(self.weights) * np.square(self.weights)))

    def covariance(self, forecast: Forecast) -> FloatArray:
        """Return the joint covariance of predictions of all rows, which share β and the extrapolation error δ."""
        joint = self.posterior.joint(self._features(forecast), self._noise(forecast))
        shape = (self.averaging * self.tails.scale) ** 2 * joint.shape
        if forecast.outside is not None:
            shape = shape + forecast.outside.root @ forecast.outside.root.T
        return student_t_covariance(self.tails.df, shape)

    def draw(self, forecast: Forecast, size: int, generator: np.random.Generator) -> FloatArray:
        """Return joint draws (n, size) of targets: the rows share β, σ² and the extrapolation error δ.

        Draws of the conjugate model are mapped row by row to the chosen tails, quantile by quantile, so that each row
        has exactly its own predictive.
        """
        post, ν, κ = self.posterior, self.tails.df, self.averaging * self.tails.scale
        β, σ2 = post.draw(size, generator)
        noise = np.sqrt(np.outer(self._noise(forecast), σ2)) * generator.standard_normal((len(forecast), size))
        drawn: FloatArray = self._features(forecast) @ β.T + noise
        loc, scale = (part[:, None] for part in self._location_scale(forecast))
        if forecast.outside is not None and forecast.outside.variance.any():
            # σ² relative to bₙ/aₙ, also if bₙ is zero
            relative = σ2 * post.a / post.b if post.b > 0.0 else post.a / generator.standard_gamma(post.a, len(σ2))
            drawn = drawn + np.sqrt(relative) * forecast.outside.draw(size, generator) / κ
            scale = np.hypot(scale, forecast.outside.std[:, None] / κ)
        elif post.b == 0.0:  # a point mass has no tails
            return drawn
        if (ν, κ) == (post.df, 1.0):
            return drawn
        z = (drawn - loc) / np.where(scale > 0.0, scale, 1.0)
        z = -np.sign(z) * stdtrit(ν, stdtr(post.df, -np.abs(z)))
        return np.asarray(loc + κ * scale * z)

    def _features(self, forecast: Forecast) -> FloatArray:
        return features(forecast.means) if self.intercept else np.ascontiguousarray(forecast.means, dtype=np.float64)

    def _noise(self, forecast: Forecast) -> FloatArray:
        return np.asarray(forecast.variance**self.tempering) if self.tempering else np.ones(len(forecast.means))


def student_t_covariance(df: float, shape: FloatArray) -> FloatArray:
    """Return the covariance of a Student-t with scale matrix ``shape``: infinite if ``df`` ≤ 2, but zeros stay zero."""
    return shape / (1.0 - 2.0 / df) if df > 2.0 else np.where(shape == 0.0, 0.0, np.inf)


@stored
@dataclass(frozen=True)
class Tails:
    """Degrees of freedom of predictions, in place of the posterior's, and a factor on the scale of predictions.

    Parameters
    ----------
    df : float
        Degrees of freedom ν.
    scale : float
        Factor κ on the scale.

    Examples
    --------
    >>> from bdkn.inference import Tails
    >>> Tails(df=4.0, scale=0.9)
    Tails(df=4.0, scale=0.9)
    """

    df: Annotated[float, Number(above=0.0, infinite=True)]
    scale: NonNegative


def fit_tails(
    df: float | FloatArray, loc: FloatArray, scale: FloatArray, y: FloatArray, counts: FloatArray | None
) -> Tails | None:
    """Return the degrees of freedom and the scale factor with the highest mean log density of the targets.

    ``df``, ``loc`` and ``scale`` are predictions of rows that were made without them; degrees of freedom above ``df``
    are not considered. None if the rows do not determine the tails: with two degrees of freedom, or if half of the
    observations are predicted exactly.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 where the posterior is certain
        z2 = ((y - loc) / scale) ** 2
    share = np.ones_like(z2) if counts is None else counts
    share, most = share / share.sum(), float(np.max(df))
    if most <= _MIN_DF or not np.isfinite(z2).all() or share @ (z2 > 0.0) <= 0.5:
        return None
    middle = float(np.median(z2[z2 > 0.0]))
    bounds = np.log(_MIN_DF), np.log(most)

    memory = np.empty((2, len(z2)))  # new memory for each sum would take longer than the sum

    @cache
    def loss(ν: float) -> tuple[float, float]:
        return _loss(ν, middle, z2, share, memory)

    best = minimize_scalar(lambda log_ν: loss(float(np.exp(log_ν)))[0], bounds=bounds, method="bounded")
    ν = min((most, float(np.exp(best.x))), key=lambda ν: loss(ν)[0])
    return Tails(ν, loss(ν)[1])


def _loss(
    ν: float, start: float, z2: FloatArray, share: FloatArray, memory: FloatArray | None = None
) -> tuple[float, float]:
    """Return the mean negative log density of residuals under a Student-t with its best scale κ; also return κ.

    ν is the number of degrees of freedom, ``z2`` are squared residuals z². κ solves Σ share (ν + 1) z²/(νκ² + z²) = 1,
    by Newton's method on log κ, with steps of a factor e at most. ``memory`` (2, n) is for temporary numbers.
    """
    log_κ, (pulled, rest) = np.log(start) / 2.0, np.empty((2, len(z2))) if memory is None else memory
    for _ in range(_STEPS):
        np.multiply(z2, np.exp(-2.0 * log_κ), out=pulled)
        np.divide(pulled, np.add(ν, pulled, out=rest), out=pulled)
        surplus = (ν + 1.0) * (share @ pulled) - 1.0
        slope = 2.0 * (ν + 1.0) * (share @ np.multiply(pulled, np.subtract(1.0, pulled, out=rest), out=rest))
        step = float(np.clip(surplus / slope, -1.0, 1.0))
        log_κ += step
        if abs(step) < 1e-10:
            break
    np.multiply(z2, np.exp(-2.0 * log_κ), out=rest)
    tail = share @ np.log1p(np.divide(rest, ν, out=rest), out=rest)
    constant = gammaln((ν + 1.0) / 2.0) - gammaln(ν / 2.0) - np.log(ν * np.pi) / 2.0
    return float(log_κ + (ν + 1.0) / 2.0 * tail - constant), float(np.exp(log_κ))
