"""The heteroscedastic model on what members say about rows they were not trained on.

    yᵢ = φᵢᵀβ + α + εᵢ,   εᵢ ~ N(0, σ² vᵢ^τ),   β_h ~ N(1/H, σ² t),   α ~ N(0, σ² t),

with v the ensemble's own predictive variance. The constant is one more member, with prior mean zero. Given τ and
t = σ_β² the model is conjugate; both are chosen by evidence, t exactly. The prior pulls towards the equally weighted
ensemble, and so is no hidden noise floor. τ = 0 is the paper's constant noise; τ = 1 with β = 1/H and σ² = 1 is the
deep ensemble.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import stdtr, stdtrit

from bdkn.errors import check_choice, check_number
from bdkn.inference.conjugate import Posterior, Prior, posterior
from bdkn.inference.evidence import choose_prior_variance, log_evidence
from bdkn.inference.forecast import Forecast
from bdkn.inference.loo import leave_one_out
from bdkn.inference.statistics import Statistics
from bdkn.inference.tails import Tails, fit_tails
from bdkn.predictive import StudentT
from bdkn.typing import FloatArray

MAX_TEMPERING = 2.0

_WIDEST = 1.0
"""The largest prior variance of a weight. Weights far beyond one have nothing to do with an ensemble, but can undo what
leaving rows out does to members that predict little but a mean: they then err against the rows left out."""

_MOST_SAVED = 0.8
"""The largest share of a row's squared error that averaging over fits may save: with five of them it saves no more."""

_EXACT = 1e100
"""The log evidence of members that are exactly right, which is infinite, as a search can take it."""


@dataclass(frozen=True, eq=False)
class Combination:
    """How members are combined: the posterior of (β, α, σ²), the power τ of their variance, and the tails.

    ``evidence`` is the log marginal likelihood of ``n`` observations, on which v^τ was ``noise_level`` on average.
    ``score`` is the mean leave-one-out log density of a row, nan where there is no other row. ``averaging`` is a factor
    on the scale of predictions, where each member is then the mean of several fits.
    """

    posterior: Posterior
    prior_variance: float
    evidence: float
    n: float
    tempering: float
    noise_level: float
    tails: Tails
    intercept: bool
    score: float = np.nan
    averaging: float = 1.0

    @classmethod
    def plain(cls, stats: Statistics, prior_variance: str | float = "exact") -> Self:
        """Return the paper's model: constant noise, prior mean zero, no constant, the posterior's own tails."""
        t = choose_prior_variance(stats, prior_variance)
        post = posterior(stats, Prior.shrinking(np.zeros(len(stats.ref)), t))
        return cls.with_constant_noise(post, t, log_evidence(stats, post), stats.n)

    @classmethod
    def with_constant_noise(cls, post: Posterior, prior_variance: float, evidence: float, n: float) -> Self:
        """Return the combination without a constant whose noise and tails are those of the posterior."""
        return cls(post, prior_variance, evidence, n, 0.0, 1.0, Tails(post.df, 1.0), intercept=False)

    @property
    def weights(self) -> FloatArray:
        """Posterior mean of β."""
        return self.posterior.mean[: len(self.posterior.mean) - self.intercept]

    @property
    def constant(self) -> float:
        """Posterior mean of α, zero in a model without it."""
        return float(self.posterior.mean[-1]) if self.intercept else 0.0

    @property
    def noise_std(self) -> float:
        """The scale of the noise, where the members' own variance is as on average."""
        return float(self._tails.scale * np.sqrt(self.posterior.b / self.posterior.a * self.noise_level))

    def averaged(self, said: Forecast, spread: FloatArray, counts: FloatArray | None = None) -> Combination:
        """Return the combination for members that in predictions are each the mean of several fits.

        It was learned from what one fit of each ``said`` about rows; ``spread`` (n, H) is the variance of a member's
        fits there. Fits chosen for each member at random err, squared and on average, by Σₕ βₕ² spreadₕ more than
        their means do. The scale is smaller by the average share of that in its square.
        """
        scale = self.tails.scale * self._location_scale(said)[1]
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 where the posterior is certain
            saved = np.nan_to_num(spread @ self.weights**2 / scale**2, posinf=_MOST_SAVED)
        share = float(np.average(np.minimum(saved, _MOST_SAVED), weights=counts))
        return replace(self, averaging=float(np.sqrt(1.0 - share)))

    def predictive(self, said: Forecast, unit: float = 1.0, shift: float = 0.0) -> StudentT:
        """Return St(ν, φᵀμₙ, κ² (bₙ/aₙ)(v^τ + φᵀΛₙ⁻¹φ)) for each row, of ``shift`` + ``unit`` times the target."""
        loc, scale = self._location_scale(said)
        return StudentT(self._tails.df, shift + unit * loc, unit * self._tails.scale * scale)

    def leave_one_out(self, said: Forecast, y: FloatArray, counts: FloatArray | None = None) -> StudentT:
        """Return the predictive of each row given the others, of the rows the combination was learned from."""
        others = leave_one_out(self.posterior, self._features(said), y, 1.0 / self._noise(said), counts)
        return others if self.tails == Tails(self.posterior.df, 1.0) else self.tails(others)

    def variance(self, said: Forecast) -> dict[str, FloatArray]:
        """Return the predictive variance as its parts: noise, disagreement of the members, uncertain weights.

        v^τ is divided as v is, in proportion to the members' noise and their disagreement. The parts are infinite with
        two degrees of freedom or fewer.
        """
        post, v = self.posterior, said.variance
        unit, noise = self._tails.scale**2 * post.b / post.a, self._noise(said)
        apart = said.disagreement / v if self.tempering else np.zeros_like(v)
        parts = {"noise": noise * (1.0 - apart), "disagreement": noise * apart}
        parts["weights"] = post.leverage(self._features(said))
        return {name: student_t_covariance(self._tails.df, unit * part) for name, part in parts.items()}

    def covariance(self, said: Forecast) -> FloatArray:
        """Return the covariance of all rows together, which share β."""
        joint = self.posterior.joint(self._features(said), self._noise(said))
        return student_t_covariance(self._tails.df, self._tails.scale**2 * joint.shape)

    def draw(self, said: Forecast, size: int, generator: np.random.Generator) -> FloatArray:
        """Return joint draws (n, size) of targets: the rows share β and σ², and each has exactly its own predictive.

        Draws of the conjugate model are carried row by row to the chosen tails, quantile to quantile.
        """
        β, σ2 = self.posterior.draw(size, generator)
        noise = np.sqrt(np.outer(self._noise(said), σ2)) * generator.standard_normal((len(said), size))
        drawn: FloatArray = self._features(said) @ β.T + noise
        if self._tails == Tails(self.posterior.df, 1.0) or self.posterior.b == 0.0:  # a point mass has no tails
            return drawn
        loc, scale = (part[:, None] for part in self._location_scale(said))
        z = (drawn - loc) / scale
        z = -np.sign(z) * stdtrit(self._tails.df, stdtr(self.posterior.df, -np.abs(z)))
        return np.asarray(loc + self._tails.scale * scale * z)

    @property
    def _tails(self) -> Tails:
        """The tails of predictions."""
        return Tails(self.tails.df, self.averaging * self.tails.scale)

    def _location_scale(self, said: Forecast) -> tuple[FloatArray, FloatArray]:
        """Return centres and scales under the posterior's own tails."""
        return self.posterior.location_scale(self._features(said), self._noise(said))

    def _features(self, said: Forecast) -> FloatArray:
        return features(said.means) if self.intercept else said.means

    def _noise(self, said: Forecast) -> FloatArray:
        return np.asarray(said.variance**self.tempering) if self.tempering else np.ones(len(said))


def student_t_covariance(df: float, shape: FloatArray) -> FloatArray:
    """Return the covariance of a Student-t, infinite with two degrees of freedom or fewer unless it is a point mass."""
    return shape / (1.0 - 2.0 / df) if df > 2.0 else np.where(shape == 0.0, 0.0, np.inf)


def combine(
    said: Forecast,
    y: ArrayLike,
    counts: ArrayLike | None = None,
    *,
    prior_variance: str | float = "exact",
    tempering: str | float = "evidence",
    tails: str = "loo",
) -> Combination:
    """Return how to combine members, learned from what they ``said`` about rows they had not seen.

    ``prior_variance`` is as in ``choose_prior_variance``. ``tempering`` is τ, or "evidence" to choose it between 0 and
    2. ``tails`` is "loo", chosen by the leave-one-out score, or "posterior", the posterior's own.
    """
    check_choice("tails", tails, ("loo", "posterior"))
    share = None if counts is None else np.asarray(counts, dtype=np.float64)
    rows = _Rows(features(said.means), np.asarray(y, dtype=np.float64), said.variance, share, prior_variance)
    if isinstance(tempering, str):
        check_choice("tempering", tempering, ("evidence",))
        tempering = rows.best_tempering()
    else:
        check_number("tempering", tempering, low=0.0, high=MAX_TEMPERING)
    post, t, evidence = rows.fit(float(tempering))
    chosen, score = Tails(post.df, 1.0), np.nan
    if post.a > 0.5:  # a single observation has no others to be predicted by
        others = leave_one_out(post, rows.Phi, rows.y, rows.v**-tempering, share)
        fitted = fit_tails(others, rows.y, share) if tails == "loo" else None
        chosen = fitted or chosen
        score = float(np.average((fitted(others) if fitted else others).logpdf(rows.y), weights=share))
    level = float(np.average(rows.v**tempering, weights=share))
    n = float(len(rows.y) if share is None else share.sum())
    return Combination(post, t, evidence, n, float(tempering), level, chosen, intercept=True, score=score)


def features(means: FloatArray) -> FloatArray:
    """Return [Φ, 1]."""
    Phi = np.empty((len(means), means.shape[1] + 1))
    Phi[:, :-1], Phi[:, -1] = means, 1.0
    return Phi


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows as regression with variances σ² v^τ sees them."""

    Phi: FloatArray
    y: FloatArray
    v: FloatArray
    counts: FloatArray | None
    prior_variance: str | float

    def fit(self, τ: float) -> tuple[Posterior, float, float]:
        """Return the posterior, the prior variance and the log evidence for a given τ."""
        stats = Statistics.from_rows(self.Phi, self.y, precision=self.v**-τ, counts=self.counts)
        H = stats.n_weights - 1
        μ0 = np.append(np.full(H, 1.0 / H), 0.0)
        t = choose_prior_variance(stats, self.prior_variance, mean=μ0, widest=_WIDEST)
        post = posterior(stats, Prior.shrinking(μ0, t))
        return post, t, log_evidence(stats, post)

    def best_tempering(self) -> float:
        """Return the τ of the highest evidence; one or the other end where that is as good."""

        def evidence(τ: float) -> float:
            return min(self.fit(τ)[2], _EXACT)

        best = minimize_scalar(
            lambda τ: -evidence(τ), bounds=(0.0, MAX_TEMPERING), method="bounded", options={"xatol": 1e-3}
        )
        return max((0.0, float(best.x), MAX_TEMPERING), key=evidence)
