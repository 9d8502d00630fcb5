"""Leave-one-out predictions in closed form: what all other rows say about each row, without fitting N times.

Taking an observation of row i, of relative precision w, out of the posterior (Λₙ, μₙ, aₙ, bₙ) is a rank-one downdate.
With the residual e = yᵢ - φᵢᵀμₙ and the leverage h = w φᵢᵀΛₙ⁻¹φᵢ, Sherman and Morrison give

    φᵢᵀμ₋ᵢ = yᵢ - e/(1 - h),   a₋ᵢ = aₙ - ½,   b₋ᵢ = bₙ - ½ w e²/(1 - h),   φᵢᵀΛ₋ᵢ⁻¹φᵢ = φᵢᵀΛₙ⁻¹φᵢ/(1 - h).

Of a row that counts q < 1 times no more than that can be taken out: w becomes qw in h and b₋ᵢ, and ½ becomes q/2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import ImproperPosteriorError
from bdkn.inference.conjugate import Posterior
from bdkn.predictive import StudentT
from bdkn.typing import FloatArray

_EPS = float(np.finfo(np.float64).eps)


def leave_one_out(
    post: Posterior, Phi: ArrayLike, y: ArrayLike, precision: ArrayLike = 1.0, counts: ArrayLike | None = None
) -> StudentT:
    """Return the predictive of each row given all the others.

    ``post`` is the posterior of these rows, with these precisions and counts. Where a row counts several times, one of
    its observations is left out. The prior mean and variance are kept as they are.
    """
    phi, targets = np.asarray(Phi, dtype=np.float64), np.asarray(y, dtype=np.float64)
    w = np.broadcast_to(np.asarray(precision, dtype=np.float64), targets.shape)
    q = np.ones_like(targets) if counts is None else np.minimum(np.asarray(counts, dtype=np.float64), 1.0)
    a = post.a - q / 2.0
    if np.any(a <= 0.0):
        raise ImproperPosteriorError(
            f"a₋ᵢ = aₙ - ½ must exceed zero for a row to be predicted by the others; aₙ is {post.a:g}: add rows"
        )
    e, leverage = targets - phi @ post.mean, post.leverage(phi)
    left = np.maximum(1.0 - q * w * leverage, _EPS)  # 1 - h: a row that alone decides a direction rounds to 0
    b = np.maximum(post.b - q * w * e**2 / left / 2.0, _EPS * post.b)
    df: float | FloatArray = post.df - 1.0 if counts is None else 2.0 * a
    return StudentT(df, targets - e / left, np.sqrt(b / a * (1.0 / w + leverage / left)))
