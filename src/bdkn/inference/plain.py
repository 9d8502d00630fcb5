"""The paper's model of rows that come in chunks: in one compiled step if they are few, with all care otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

import numpy as np

from bdkn.inference.combination import Combination
from bdkn.inference.conjugate import Posterior, Prior
from bdkn.inference.statistics import Chunk, Statistics
from bdkn.typing import FloatArray

_FEW = 2**15
"""Numbers in [Φ, y] up to which a compiled step is quicker; beyond, LAPACK's blocks are."""

_NARROW = 16
"""Members up to which it is."""


def plain_combination(chunks: Iterable[Chunk], prior_variance: str | float = "exact") -> Combination:
    """Return ``Combination.plain`` of all rows.

    Of a fit of milliseconds the interpreter would spend more on that than LAPACK does: few rows, unless they want care,
    are done in one compiled step.
    """
    left = iter(chunks)
    start = list(islice(left, 1)) if prior_variance == "paper" else []
    if start and _are_few(start[0]):
        Phi, y, *_ = start[0]
        # Copied, for whoever yields chunks may use an array again; Φ by column.
        start = [(np.array(np.transpose(Phi), np.float64, order="C").T, np.array(y, np.float64))]
        start += islice(left, 1)  # a second chunk, though there hardly is one
        found = _at_once(*start[0]) if len(start) == 1 else None
        if found is not None:
            return found
    return Combination.plain(Statistics.from_chunks(chain(start, left)), prior_variance)


def _are_few(chunk: Chunk) -> bool:
    """Tell whether a chunk is few rows of few members, each counted once."""
    phi, y, *weights = chunk
    phi, y = np.asarray(phi), np.asarray(y)
    few = phi.ndim == 2 and y.shape == phi.shape[:1] and 0 < phi.shape[1] <= _NARROW and 0 < phi.size + y.size <= _FEW
    return few and all(part is None for part in weights)


def _at_once(Phi: FloatArray, y: FloatArray) -> Combination | None:
    """Return the combination by the compiled step, None if the rows want more care than that."""
    from bdkn.kernels.conjugate import conjugate

    fine, t, root, μ, b, evidence = conjugate(Phi.T, y)
    if not fine:
        return None
    post = Posterior(μ, root, len(y) / 2.0, b, Prior.shrinking(np.zeros(len(μ)), t))
    return Combination.with_constant_noise(post, t, evidence, float(len(y)))


def prepare() -> None:
    """Compile that step and the predictive for this CPU, or load them from disk, by a model of two rows."""
    Phi = np.ones((2, 1))
    plain_combination([(Phi, np.array([1.0, 2.0]))], "paper").posterior.location_scale(Phi)
