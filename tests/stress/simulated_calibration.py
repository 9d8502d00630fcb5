"""Check every posterior by simulation: parameters drawn from the prior must look like draws from the posterior.

    python tests/stress/simulated_calibration.py [--write] [--scale 1] [--seed 0]

Parameters are drawn from the prior, targets given them, and the posterior of the targets is computed. The distribution
function of the posterior at the true parameter (for matrices: the rank of a statistic of the true one among posterior
draws) is then uniform, whatever the problem. The number of trials is that of simulations; each simulation gives one
value per quantity, and a quantity is wrong if the Kolmogorov-Smirnov test rejects uniformity at level 1e-4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats as distributions

from bdkn.inference import Prior, Statistics, StudentTProcess, block_posterior, posterior
from bdkn.typing import FloatArray
from record import Found, arguments, recording

LEVEL = 1e-4
DRAWS = 99
FOUND: list[Found] = []
Values = dict[str, float]


def _prior(rng: np.random.Generator, H: int, q: int | None = None) -> Prior:
    root = rng.normal(size=(H, H)) + np.eye(H)
    return Prior(rng.normal(size=H), root.T @ root, 2.5, 1.5 if q is None else 1.5 * np.eye(q) + 0.3)


def _draw_noise(rng: np.random.Generator, prior: Prior) -> float:
    return float(prior.b0 / rng.gamma(prior.a0))


def _draw_weights(rng: np.random.Generator, prior: Prior, noise: float) -> FloatArray:
    step = np.linalg.solve(np.linalg.cholesky(prior.precision).T, rng.normal(size=prior.n_weights))
    return np.asarray(prior.mean + np.sqrt(noise) * step)


def one_target(rng: np.random.Generator) -> Values:
    """Return the values of weights, noise, a new target, the function, and a row left out."""
    n, H = int(rng.integers(3, 20)), int(rng.integers(1, 5))
    Phi, w = rng.normal(size=(n, H)) + 0.5, 10.0 ** rng.uniform(-1, 1, n)
    prior = _prior(rng, H)
    σ2 = _draw_noise(rng, prior)
    β = _draw_weights(rng, prior, σ2)
    y = Phi @ β + np.sqrt(σ2 / w) * rng.normal(size=n)
    half = n // 2
    parts = [Statistics.from_rows(Phi[s], y[s], precision=w[s]) for s in (slice(half), slice(half, n)) if len(y[s])]
    post = posterior(parts[0] + parts[1] if len(parts) == 2 else parts[0], prior)
    new, v = rng.normal(size=(1, H)), 0.3
    target = float(new[0] @ β + np.sqrt(v * σ2) * rng.normal())
    i = int(rng.integers(n))
    return {
        "weight": float(post.weights().cdf(β)[0]),
        "noise variance": float(distributions.invgamma(post.a, scale=post.b).cdf(σ2)),
        "new target": float(post.predictive(new, noise=v).cdf([target])[0]),
        "function": float(StudentTProcess(post).marginal(new).cdf(new @ β)[0]),
        "row left out": float(post.leave_one_out(Phi, y, precision=w).cdf(y)[i]),
        "draws of weights": _rank(rng, post.draw(DRAWS, rng)[0] @ new[0], float(new[0] @ β)),
        "draws of noise": _rank(rng, post.draw(DRAWS, rng)[1], σ2),
    }


def _rank(rng: np.random.Generator, draws: FloatArray, true: float) -> float:
    """Return the rank of the true value among the draws, as a number in (0, 1)."""
    return float((np.sum(draws < true) + rng.random()) / (len(draws) + 1))


def several_targets(rng: np.random.Generator) -> Values:
    """Return the values of weights, noise covariance and a new row of a block of targets."""
    n, H, q = int(rng.integers(4, 20)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    Phi, w, prior = rng.normal(size=(n, H)) + 0.5, 10.0 ** rng.uniform(-1, 1, n), _prior(rng, H, q)
    Σ = np.atleast_2d(distributions.invwishart(2 * prior.a0 + q - 1, 2 * np.asarray(prior.b0)).rvs(random_state=rng))
    root = np.linalg.cholesky(Σ)
    step = np.linalg.solve(np.linalg.cholesky(prior.precision).T, rng.normal(size=(H, q)))
    β = prior.mean[:, None] + step @ root.T
    Y = Phi @ β + (rng.normal(size=(n, q)) @ root.T) / np.sqrt(w)[:, None]
    post = block_posterior(Statistics.from_rows(Phi, Y, precision=w), prior)
    weights, covariances = post.draw(DRAWS, rng)
    new, c = rng.normal(size=(1, H)), rng.normal(size=q)
    target = (new @ β + rng.normal(size=(1, q)) @ root.T) @ c
    drawn = post.predictive(new).rvs(DRAWS, rng)[0].T @ c
    return {
        "weights": _rank(rng, (new @ weights)[:, 0] @ c, float((new @ β)[0] @ c)),
        "noise covariance": _rank(rng, np.einsum("p,spq,q->s", c, covariances, c), float(c @ Σ @ c)),
        "determinant of the noise": _rank(rng, np.linalg.slogdet(covariances)[1], float(np.linalg.slogdet(Σ)[1])),
        "new row": _rank(rng, drawn, float(target[0])),
        "one target alone": float(
            post.target(0).predictive(new).cdf([float((new @ β)[0, 0] + root[0] @ rng.normal(size=q))])[0]
        ),
    }


def simulate(simulations: int, one: Callable[[np.random.Generator], Values], seed: int) -> dict[str, FloatArray]:
    """Return the values of each quantity over all simulations."""
    found = [one(np.random.default_rng([seed, number])) for number in range(simulations)]
    return {name: np.array([values[name] for values in found]) for name in found[0]}


def main() -> None:
    """Run the simulations and write the record where asked for."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulations (default 0)")
    chosen = parser.parse_args()
    title, command = "Simulated calibration of posteriors", "python tests/stress/simulated_calibration.py --write"
    with recording("simulated_calibration", title, command, FOUND, write=chosen.write) as record:
        for what, number, one in (("one target", 10_000, one_target), ("several targets", 5_000, several_targets)):
            trials = max(50, round(number * chosen.scale))
            for name, values in simulate(trials, one, chosen.seed).items():
                p = float(distributions.kstest(values, "uniform").pvalue)
                record.add(f"{what}: {name}", trials, int(p < LEVEL), f"p = {p:.2g}")


if __name__ == "__main__":
    main()
