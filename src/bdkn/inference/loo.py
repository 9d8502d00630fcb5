"""Leave-one-out predictions in closed form: what all other rows say about each row, without fitting N times.

Taking one observation of row i, of relative precision w, out of the posterior (Λₙ, μₙ, aₙ, bₙ) is a rank-one downdate.
With the residual e = yᵢ - φᵢᵀμₙ and the leverage h = w φᵢᵀΛₙ⁻¹φᵢ, Sherman and Morrison give

    φᵢᵀμ₋ᵢ = yᵢ - e/(1 - h),   a₋ᵢ = aₙ - ½,   b₋ᵢ = bₙ - ½ w e²/(1 - h),   1/w + φᵢᵀΛ₋ᵢ⁻¹φᵢ = 1/(w (1 - h)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.errors import ImproperPosteriorError
from bdkn.inference.conjugate import Posterior
from bdkn.predictive import StudentT

FloatArray = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


def leave_one_out(post: Posterior, Phi: ArrayLike, y: ArrayLike, precision: ArrayLike = 1.0) -> StudentT:
    """Return the predictive of each row given all the others.

    ``post`` is the posterior of these rows, with these precisions. Where a row counts several times, one of its
    observations is left out. The prior mean and variance are kept as they are.
    """
    if post.a <= 0.5:
        raise ImproperPosteriorError(
            f"a₋ᵢ = aₙ - ½ must exceed zero for a row to be predicted by the others; aₙ is {post.a:g}: add rows"
        )
    phi, targets = np.asarray(Phi, dtype=np.float64), np.asarray(y, dtype=np.float64)
    w = np.broadcast_to(np.asarray(precision, dtype=np.float64), targets.shape)
    e = targets - phi @ post.mean
    left = np.maximum(1.0 - w * post.leverage(phi), _EPS)  # 1 - h: a row that alone decides a direction rounds to 0
    b = np.maximum(post.b - w * e**2 / left / 2.0, _EPS * post.b)
    return StudentT(post.df - 1.0, targets - e / left, np.sqrt(b / (post.a - 0.5) / w / left))
