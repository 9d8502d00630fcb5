"""A Gaussian process given its rows and its hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import check_choice, check_number
from bdkn.predictive import Gaussian, MultivariateT

if TYPE_CHECKING:
    from torch import Tensor

FloatArray = NDArray[np.float64]

DTYPES = ("float64", "float32")

_AT_ONCE = 2**25
"""Numbers in the covariance of new rows with those known: a quarter of a gigabyte."""


@dataclass(frozen=True, eq=False)
class Process:
    """f ~ GP(mean, k) with k(x, x') = outputscale exp(-½ Σⱼ (xⱼ - x'ⱼ)²/ℓⱼ²), seen at rows X as y = f + N(0, noise).

    ``lengthscale`` is ℓ. What is computed, is so by PyTorch on ``device`` in the precision ``dtype``.
    """

    X: FloatArray
    y: FloatArray
    mean: float
    outputscale: float
    lengthscale: FloatArray
    noise: float
    device: str = "cpu"
    dtype: str = "float64"

    def predictive(self, X: FloatArray) -> Gaussian:
        """Return the distribution of y at each of the new rows."""
        parts = [self._moments(part, joint=False) for part in self._parts(X)]
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Gaussian(mean, np.sqrt(variance + self.noise))

    def joint(self, X: FloatArray) -> MultivariateT:
        """Return the distribution of y at all new rows together."""
        mean, covariance = self._moments(X, joint=True)
        return MultivariateT(np.inf, mean, covariance + self.noise * np.eye(len(X)))

    def _moments(self, X: FloatArray, *, joint: bool) -> tuple[FloatArray, FloatArray]:
        import torch

        L, α = self._solved
        k = self._kernel(self._tensor(self.X), self._tensor(X))
        V = torch.linalg.solve_triangular(L, k, upper=False)
        if joint:
            x = self._tensor(X)
            spread = self._kernel(x, x) - V.mT @ V
        else:
            spread = (self.outputscale - (V * V).sum(0)).clamp_min(0)
        return _array(self.mean + k.mT @ α), _array(spread)

    def _parts(self, X: FloatArray) -> Iterator[FloatArray]:
        step = max(1, _AT_ONCE // len(self.X))
        return (X[start : start + step] for start in range(0, len(X), step))

    @cached_property
    def _solved(self) -> tuple[Tensor, Tensor]:
        """The factor L of K + noise I, and (K + noise I)⁻¹ (y - mean)."""
        import torch

        x = self._tensor(self.X)
        K = self._kernel(x, x)
        K.diagonal().add_(self.noise)
        L = safe_cholesky(K)
        return L, torch.cholesky_solve(self._tensor(self.y - self.mean)[:, None], L)[:, 0]

    def _kernel(self, x: Tensor, x2: Tensor) -> Tensor:
        import torch

        scale = self._tensor(self.lengthscale)
        apart = torch.cdist(x / scale, x2 / scale, compute_mode="donot_use_mm_for_euclid_dist")
        return apart.square_().div_(-2).exp_().mul_(self.outputscale)

    def _tensor(self, array: FloatArray) -> Tensor:
        import torch

        here = self.device if self.device != "cuda" or torch.cuda.is_available() else "cpu"  # it may have been loaded
        return torch.as_tensor(array, dtype=getattr(torch, self.dtype), device=here)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_solved"}  # it can be solved again


def safe_cholesky(K: Tensor) -> Tensor:
    """Return the Cholesky factor of K, made positive definite by as little on its diagonal as that takes."""
    import torch

    L: Tensor
    L, failed = torch.linalg.cholesky_ex(K)
    jitter = float(torch.finfo(K.dtype).eps) * len(K) * float(K.diagonal().mean())
    while failed:
        if not (math.isfinite(jitter) and jitter < 1e3 * float(K.diagonal().mean())):
            message = "a covariance must be finite, and positive definite up to rounding"
            raise torch.linalg.LinAlgError(message)  # type: ignore[attr-defined]
        L, failed = torch.linalg.cholesky_ex(K + jitter * torch.eye(len(K), dtype=K.dtype, device=K.device))
        jitter *= 10
    return L


def _array(part: Tensor) -> FloatArray:
    return part.numpy(force=True).astype(np.float64)


def check_process(minimum_noise: object, dtype: object) -> None:
    """Raise unless these parameters of a process are what they may be."""
    check_number("minimum_noise", minimum_noise, low=0, strict=True)
    check_choice("dtype", dtype, DTYPES)
