"""The published method: the Bayesian inference of Algorithm 1 of the paper.

Step 1, training: H networks φₕ are trained independently on all rows. Step 2, inference over their outputs: construct
the design matrix Φ, optimize σ_β² by the log marginal likelihood (10), compute μₙ, Λₙ, aₙ, bₙ by (6) to (9), and obtain
the predictive by (5). The numbers of equations are as in the paper and in ``docs/math.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

import numpy as np

from bdkn.inference.combination import Combination, Tails
from bdkn.inference.evidence import choose_prior_variance
from bdkn.inference.posterior import Posterior, Prior, log_evidence, posterior
from bdkn.inference.rowwise import posterior_of_few
from bdkn.inference.statistics import Chunk, Statistics

_MAX_NUMBERS, _MAX_MEMBERS = 2**15, 16
"""Maximum number of entries of [Φ, y] and of members up to which compiled code is used: there LAPACK is slower."""


def published_combination(chunks: Iterable[Chunk], prior_variance: str | float = "evidence") -> Combination:
    """Fit the model of the paper: constant noise variance, prior mean zero, no intercept, tails of the posterior.

    Parameters
    ----------
    chunks : iterable of (Phi, y), (Phi, y, precision) or (Phi, y, precision, counts)
        The rows, as in ``Statistics.from_chunks``.
    prior_variance : {"evidence", "paper"} or float, default="evidence"
        Prior variance of the weights in units of the noise, as in ``choose_prior_variance``.

    Returns
    -------
    Combination
        The fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import published_combination
    >>> Phi, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 4.0])
    >>> combination = published_combination([(Phi, y)], "paper")
    >>> print(combination.weights.round(3), round(combination.prior_variance, 3))
    [0.824 1.343] 1.647
    """
    start: list[Chunk] = []
    if prior_variance == "paper":  # a fit to few rows takes less than a millisecond, if the interpreter does little
        chunks = iter(chunks)
        start = list(islice(chunks, 1))
        Phi, y, *weights = start[0] if start else (np.empty(0), np.empty(0))
        Phi, y = np.asarray(Phi), np.asarray(y)
        is_table = Phi.ndim == 2 and y.shape == Phi.shape[:1] and all(part is None for part in weights)
        if is_table and 0 < Phi.shape[1] <= _MAX_MEMBERS and 0 < Phi.size + y.size <= _MAX_NUMBERS:
            # Copied, since the arrays of a chunk may be reused for the next chunk; Φ in column order.
            Phi, y = np.array(Phi.T, np.float64, order="C").T, np.array(y, np.float64)
            start = [(Phi, y), *islice(chunks, 1)]
            if len(start) == 1 and (found := posterior_of_few(Phi, y)) is not None:
                t, root, μ, b, evidence = found
                n = float(len(y))
                post = Posterior(μ, root, n / 2.0, b, Prior.shrinking(np.zeros(len(μ)), t))
                return Combination(post, t, evidence, n, 0.0, 1.0, Tails(n, 1.0), intercept=False)
    stats = Statistics.from_chunks(chain(start, chunks))  # Φ and y, as a triangle
    t = choose_prior_variance(stats, prior_variance)  # σ_β², by the highest evidence (10) or five steps towards it
    prior = Prior.shrinking(np.zeros(stats.n_weights), t)  # μ₀ = 0, Λ₀ = I/σ_β², a₀ = b₀ = 0
    post = posterior(stats, prior)  # μₙ, Λₙ, aₙ, bₙ: (6) to (9)
    evidence, tails = log_evidence(stats, post), Tails(post.df, 1.0)
    return Combination(post, t, evidence, stats.n, 0.0, 1.0, tails, intercept=False)  # predicts by (5)
