"""What a network minimises, row by row, and the gradient with respect to its two outputs.

With v = softplus(r) + 1e-6 the variance and e = μ - y the error of a row:

- ``nll``: ½ (log v + e²/v), the Gaussian likelihood of the paper without its constant;
- ``beta_nll``: the same times v^β held constant (Seitzer et al., 2022), which gives badly fitted rows their say again;
- ``mse``: ½ e², which leaves the variance output alone.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from bdkn.networks import MIN_VARIANCE, softplus
from bdkn.typing import Array


def loss_and_gradient(objective: str, beta: float, mean: Array, raw: Array, y: Array) -> tuple[Array, Array, Array]:
    """Return each row's loss and its derivatives by the mean and by the raw variance."""
    error = mean - y
    if objective == "mse":
        return error * error / 2, error, np.zeros_like(raw)
    v = softplus(raw) + raw.dtype.type(MIN_VARIANCE)
    loss = (np.log(v) + error * error / v) / 2
    d_mean = error / v
    d_raw = (1 - error * error / v) / v / 2 * expit(raw)
    if objective == "nll":
        return loss, d_mean, d_raw
    factor = v**beta
    return loss * factor, d_mean * factor, d_raw * factor
