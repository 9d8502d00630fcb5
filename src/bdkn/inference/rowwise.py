"""Closed forms row by row: leverage, centre and scale, leave-one-out; and the only door to compiled code.

The loops over rows are written in NumPy, as the mathematics reads, and have twins in ``bdkn.kernels.conjugate`` that
give the same numbers to rounding, in a fraction of the time where rows are few. The twins are used unless
``compiled(False)`` is in force.

Leave-one-out predictions need no second fit. To take an observation of row i, of relative precision w, out of the
posterior (Λₙ, μₙ, aₙ, bₙ) is a rank-one downdate. With the residual e = yᵢ - φᵢᵀμₙ and the leverage h = w φᵢᵀΛₙ⁻¹φᵢ,
Sherman and Morrison give

    φᵢᵀμ₋ᵢ = yᵢ - e/(1 - h),   a₋ᵢ = aₙ - ½,   b₋ᵢ = bₙ - ½ w e²/(1 - h),   φᵢᵀΛ₋ᵢ⁻¹φᵢ = φᵢᵀΛₙ⁻¹φᵢ/(1 - h).

Of a row that counts c < 1 times no more than that can be taken out: w becomes cw in h and b₋ᵢ, and ½ becomes c/2. For a
block of targets, e is a row of q residuals and e² becomes eeᵀ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from bdkn.errors import ImproperPosteriorError, InvalidParameterError
from bdkn.typing import FloatArray, IndexArray

_EPS = float(np.finfo(np.float64).eps)
_NOISE = 4.0 * _EPS
_are_compiled = True


@contextmanager
def compiled(enabled: bool) -> Iterator[None]:
    """Use compiled code for the closed form, or NumPy only, inside a ``with`` block.

    Both give the same numbers to rounding. The choice holds for all threads of the process.

    Parameters
    ----------
    enabled : bool
        Whether to use compiled code. Outside of any block it is used.

    Returns
    -------
    context manager
        On leaving it, the choice before it holds again.

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
    """Return φᵀμ and √(unit (v + φᵀ(RᵀR)⁻¹φ)) for each row φ of ``Phi``, with R as in ``whitened``, v the ``noise``."""
    if _are_compiled:
        from bdkn.kernels import conjugate

        _check_shapes(root, Phi)
        if μ.shape != root.shape[:1] or noise.shape != Phi.shape[:1]:
            raise InvalidParameterError(f"μ and noise must have shapes {root.shape[:1]} and {Phi.shape[:1]}")
        return conjugate.location_scale(root, μ, Phi, noise, unit)
    return Phi @ μ, np.sqrt(unit) * np.sqrt(noise + leverage(root, Phi))


def leverage(root: FloatArray, Phi: FloatArray) -> FloatArray:
    """Return φᵀ(RᵀR)⁻¹φ for each row φ of ``Phi``, with R as in ``whitened``."""
    if _are_compiled:
        from bdkn.kernels import conjugate

        _check_shapes(root, Phi)
        return conjugate.leverage(root, Phi)
    return np.asarray(np.sum(whitened(root, Phi) ** 2, axis=0))


def whitened(root: FloatArray, Phi: FloatArray) -> FloatArray:
    """Return R⁻ᵀΦᵀ (H, n) for R upper-triangular up to the order of its columns.

    Entry k is the part of φ that the entries before it do not explain, divided by the pivot. If that part is rounding
    error, it means zero: a small pivot would make it large.
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
        is_noise = np.abs(left) <= H * _NOISE * (np.abs(explained).sum(axis=0) + np.abs(left))
        x[k] = np.where(is_noise, 0.0, left / root[k, j])
    return x


def _check_shapes(root: FloatArray, Phi: FloatArray) -> None:
    """Raise unless R is (H, H) for rows (n, H): compiled code does not check where it reads."""
    if Phi.ndim != 2 or root.shape != (Phi.shape[1], Phi.shape[1]):
        raise InvalidParameterError(f"root must be (H, H) for Phi (n, H); got {root.shape} and {Phi.shape}")


def triangular_order(root: FloatArray) -> IndexArray:
    """Return the order of the columns that makes ``root``, invertible, triangular: that of their last entries."""
    zeros_below: IndexArray = (root[::-1] != 0.0).argmax(axis=0)
    return (-zeros_below).argsort()


class AnyPosterior(Protocol):
    """A posterior of one target or of a block."""

    @property
    def mean(self) -> FloatArray:
        """μₙ, (H,) or (H, q)."""

    @property
    def root(self) -> FloatArray:
        """Rₙ (H, H)."""

    @property
    def a(self) -> float:
        """aₙ."""

    @property
    def b(self) -> Any:
        """bₙ, a number or (q, q)."""


def leave_out(
    post: AnyPosterior, phi: FloatArray, y: FloatArray, w: FloatArray, counts: FloatArray | None
) -> tuple[float | FloatArray, FloatArray, FloatArray]:
    """Return degrees of freedom, centre and scale of each row's predictive given all other rows, for one target."""
    c, a, e, h, left = _without_each_row(post, phi, y, w, counts)
    b = np.maximum(post.b - c * w * e**2 / left / 2.0, _EPS * post.b)
    df: float | FloatArray = 2.0 * post.a - 1.0 if counts is None else 2.0 * a
    return df, y - e / left, np.sqrt(b / a * (1.0 / w + h / left))


def leave_out_of_block(
    post: AnyPosterior, phi: FloatArray, Y: FloatArray, w: FloatArray, counts: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return degrees of freedom (n,), centres (n, q) and shapes (n, q, q) of ``leave_out`` for a block of targets."""
    c, a, e, h, left = _without_each_row(post, phi, Y, w, counts)
    u = e * np.sqrt(c * w / left / 2.0)[:, None]  # b₋ᵢ = b - uuᵀ
    size = np.sqrt(post.b.diagonal())
    size = np.where(size > 0.0, size, 1.0)  # in units of their own, so that those of the targets do not matter
    inverse = np.linalg.pinv(post.b / np.outer(size, size), hermitian=True)
    share = np.einsum("np,pq,nq->n", u / size, inverse, u / size)
    u *= np.sqrt(np.minimum(1.0, (1.0 - _EPS) / np.maximum(share, _EPS)))[:, None]  # of b, no more than there is
    b = post.b - u[:, :, None] * u[:, None, :]
    return 2.0 * a, Y - e / left[:, None], b * (1.0 / a * (1.0 / w + h / left))[:, None, None]


def _without_each_row(
    post: AnyPosterior, phi: FloatArray, y: FloatArray, w: FloatArray, counts: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return for each row: what of it is left out, a₋ᵢ, the residual e, φᵢᵀΛₙ⁻¹φᵢ, and 1 - h."""
    c = np.ones(len(y)) if counts is None else np.minimum(counts, 1.0)
    a = post.a - c / 2.0
    if np.any(a <= 0.0):
        raise ImproperPosteriorError(
            f"a₋ᵢ = aₙ - ½ must exceed zero for a row to be predicted by the others; aₙ is {post.a:g}: add rows"
        )
    e, h = y - phi @ post.mean, leverage(post.root, phi)
    left = np.maximum(1.0 - c * w * h, _EPS)  # a row that alone decides a direction rounds to 0
    return c, a, e, h, left


def posterior_of_few(Phi: FloatArray, y: FloatArray) -> tuple[float, FloatArray, FloatArray, float, float] | None:
    """Return σ_β², the root of Λₙ, μₙ, bₙ and the log evidence of the published model of few rows, or None.

    This is a compiled twin only: in NumPy it is ``choose_prior_variance`` with "paper", ``posterior`` and
    ``log_evidence``. None means that these are needed: the twins are off, or members are nearly collinear, or right but
    for rounding, or not finite.
    """
    if not _are_compiled:
        return None
    from bdkn.kernels import conjugate

    if Phi.ndim != 2 or y.shape != Phi.shape[:1]:
        raise InvalidParameterError(f"y must have an entry for each row of Phi; got {y.shape} and {Phi.shape}")
    succeeded, t, root, μ, b, evidence = conjugate.conjugate(Phi.T, y)
    return (t, root, μ, b, evidence) if succeeded else None
