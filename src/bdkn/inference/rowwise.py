"""Leverage and predictive scale of rows, by compiled loops or by NumPy.

Each formula is written twice: in NumPy here, and as compiled loops in ``bdkn.kernels.conjugate``, which give the same
numbers up to rounding in a fraction of the time if rows are few. Compiled code is used unless ``compiled(False)`` is
active. In ``bdkn.inference`` only this module calls it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from bdkn.errors import InvalidParameterError
from bdkn.inference.statistics import RANK_TOLERANCE
from bdkn.typing import FloatArray, IndexArray

_are_compiled = True
"""Whether the functions of this module call compiled code (True) or use NumPy (False); set by ``compiled``."""


@contextmanager
def compiled(enabled: bool) -> Iterator[None]:
    """Use compiled code for the Bayesian linear model, or NumPy only, inside a ``with`` block.

    Both give the same numbers to rounding. The choice holds for all threads of the process.

    Parameters
    ----------
    enabled : bool
        Whether to use compiled code. Outside of any block it is used.

    Returns
    -------
    context manager
        At the end of the block, the earlier choice holds again.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn.inference import Prior, Statistics, compiled, posterior
    >>> Phi, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 4.0])
    >>> post = posterior(Statistics.from_rows(Phi, y), Prior.isotropic(2, 1.0))
    >>> with compiled(False):
    ...     print(post.leverage(Phi).round(3))
    [0.4   0.267 0.667]
    """
    global _are_compiled
    before, _are_compiled = _are_compiled, enabled
    try:
        yield
    finally:
        _are_compiled = before


def location_scale(
    root: FloatArray, μ: FloatArray, Phi: FloatArray, noise: FloatArray, unit: float
) -> tuple[FloatArray, FloatArray]:
    """Return location φᵀμ and scale √(unit (noise + φᵀ(RᵀR)⁻¹φ)) of the prediction of each row φ; R is ``root``."""
    if _are_compiled:
        from bdkn.kernels import conjugate

        _check_shapes(root, Phi)
        if μ.shape != root.shape[:1] or noise.shape != Phi.shape[:1]:
            raise InvalidParameterError(f"μ and noise must have shapes {root.shape[:1]} and {Phi.shape[:1]}")
        return conjugate.location_scale(root, μ, Phi, noise, unit)
    return Phi @ μ, np.sqrt(unit) * np.sqrt(noise + leverage(root, Phi))


def leverage(root: FloatArray, Phi: FloatArray) -> FloatArray:
    """Return the leverage φᵀ(RᵀR)⁻¹φ of each row φ of ``Phi``; ``root`` is R, with the posterior precision RᵀR."""
    if _are_compiled:
        from bdkn.kernels import conjugate

        _check_shapes(root, Phi)
        return conjugate.leverage(root, Phi)
    return np.asarray(np.sum(whitened(root, Phi) ** 2, axis=0))


def whitened(root: FloatArray, Phi: FloatArray) -> FloatArray:
    """Whiten the rows of ``Phi``: return R⁻ᵀΦᵀ (H, n), where ``root`` is R, with the posterior precision RᵀR.

    R is upper triangular after a permutation of its columns. A remainder of the forward substitution that is only
    rounding error is set to zero, since the division by a small pivot would make it large.
    """
    if _are_compiled:
        from bdkn.kernels import conjugate

        _check_shapes(root, Phi)
        return conjugate.whitened(root, Phi)
    H = len(root)
    x = np.zeros((H, len(Phi)))
    for k, j in enumerate(triangular_order(root)):
        explained = root[:k, j, None] * x[:k]
        left = Phi[:, j] - explained.sum(axis=0)
        is_noise = np.abs(left) <= H * RANK_TOLERANCE * (np.abs(explained).sum(axis=0) + np.abs(left))
        x[k] = np.where(is_noise, 0.0, left / root[k, j])
    return x


def triangular_order(root: FloatArray) -> IndexArray:
    """Return the order of columns in which the invertible ``root`` is upper triangular: by last nonzero entry."""
    zeros_below: IndexArray = (root[::-1] != 0.0).argmax(axis=0)
    return (-zeros_below).argsort()


def posterior_of_few(Phi: FloatArray, y: FloatArray) -> tuple[float, FloatArray, FloatArray, float, float] | None:
    """Fit the model of the paper to few rows; return σ_β², a root of Λₙ, μₙ, bₙ and the log evidence.

    None if compiled code is not used, or if the rows need more accurate code: members are nearly collinear, reproduce
    the targets up to rounding, or are not finite.
    """
    if not _are_compiled:
        return None
    if Phi.ndim != 2 or y.shape != Phi.shape[:1]:
        raise InvalidParameterError(f"y must have an entry for each row of Phi; got {y.shape} and {Phi.shape}")
    from bdkn.kernels import conjugate

    succeeded, t, root, μ, b, evidence = conjugate.conjugate(Phi.T, y)
    return (t, root, μ, b, evidence) if succeeded else None


def _check_shapes(root: FloatArray, Phi: FloatArray) -> None:
    """Raise unless ``root`` is (H, H) for rows ``Phi`` (n, H), since compiled code does not check its indices."""
    if Phi.ndim != 2 or root.shape != (Phi.shape[1], Phi.shape[1]):
        raise InvalidParameterError(f"root must be (H, H) for Phi (n, H); got {root.shape} and {Phi.shape}")
