"""The published model of rows that come in chunks: constant noise, prior mean zero, no constant."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

import numpy as np

from bdkn.inference.combination import Combination
from bdkn.inference.conjugate import Prior, log_evidence
from bdkn.inference.evidence import choose_prior_variance, renamed_exact
from bdkn.inference.posteriors import Posterior, posterior
from bdkn.inference.rowwise import posterior_of_few
from bdkn.inference.statistics import Chunk, Statistics
from bdkn.typing import FloatArray

_FEW = 2**15
"""Numbers in [Φ, y] up to which the compiled step is faster; beyond, LAPACK's blocks are."""

_NARROW = 16
"""Members up to which it is."""


def published_combination(chunks: Iterable[Chunk], prior_variance: str | float = "evidence") -> Combination:
    """Fit the published model: constant noise, prior mean zero, no constant, the posterior's own tails.

    A fit may take milliseconds, of which the interpreter would take more for this than LAPACK does. So few rows, unless
    they need care, are done in one compiled step.

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
    if prior_variance == "exact":
        prior_variance = renamed_exact()
    left = iter(chunks)
    start = list(islice(left, 1)) if prior_variance == "paper" else []
    if start and _are_few(start[0]):
        Phi, y, *_ = start[0]
        # Copied, for whoever yields chunks may use an array again; Φ by column.
        start = [(np.array(np.transpose(Phi), np.float64, order="C").T, np.array(y, np.float64))]
        start += islice(left, 1)  # a second chunk, though there is rarely one
        found = _of_few(*start[0]) if len(start) == 1 else None
        if found is not None:
            return found
    return published_from_statistics(Statistics.from_chunks(chain(start, left)), prior_variance)


def published_from_statistics(stats: Statistics, prior_variance: str | float) -> Combination:
    """Return the model of all rows behind the statistics."""
    t = choose_prior_variance(stats, prior_variance)
    post = posterior(stats, Prior.shrinking(np.zeros(stats.n_weights), t))
    return Combination.with_constant_noise(post, t, log_evidence(stats, post), stats.n)


def _are_few(chunk: Chunk) -> bool:
    """Return whether a chunk is few rows of few members, each counted once."""
    phi, y, *weights = chunk
    phi, y = np.asarray(phi), np.asarray(y)
    few = phi.ndim == 2 and y.shape == phi.shape[:1] and 0 < phi.shape[1] <= _NARROW and 0 < phi.size + y.size <= _FEW
    return few and all(part is None for part in weights)


def _of_few(Phi: FloatArray, y: FloatArray) -> Combination | None:
    """Return the model by the compiled step, None if the rows need more care than that."""
    found = posterior_of_few(Phi, y)
    if found is None:
        return None
    t, root, μ, b, evidence = found
    post = Posterior(μ, root, len(y) / 2.0, b, Prior.shrinking(np.zeros(len(μ)), t))
    return Combination.with_constant_noise(post, t, evidence, float(len(y)))


def prepare() -> None:
    """Compile that step and the predictive for this CPU, or load them from disk, by a model of two rows."""
    Phi = np.ones((2, 1))
    published_combination([(Phi, np.array([1.0, 2.0]))], "paper").posterior.location_scale(Phi)
