"""A Gaussian process conditioned on its training rows, with known hyperparameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bdkn.errors import DivergedError, check_choice, check_number
from bdkn.predictive import Gaussian, MultivariateT
from bdkn.threads import settle_torch
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = ("float64", "float32")

BOUND = 0.95
"""Bounded features lie within ±BOUND, as in GPyTorch's tutorial."""

_BLOCK_CELLS = 2**25
"""Cells of the covariance between new rows and training rows that are held at once: a quarter of a gigabyte."""


@dataclass(frozen=True, eq=False)
class ConditionedGP:
    """f ~ GP(mean, k) with k(x, x') = outputscale exp(-½ Σⱼ (xⱼ - x'ⱼ)²/ℓⱼ²), given y = f(X) + N(0, noise).

    ``lengthscale`` is ℓ. With ``inducing`` points Z the rows are used through f(Z) only, by the optimal variational
    approximation (Titsias, 2009); time then grows linearly with the number of rows, not with its cube. PyTorch computes
    on ``device`` in the precision ``dtype``.
    """

    X: FloatArray
    y: FloatArray
    mean: float
    outputscale: float
    lengthscale: FloatArray
    noise: float
    device: str = "cpu"
    dtype: str = "float64"
    inducing: FloatArray | None = None

    def predictive(self, X: FloatArray) -> Gaussian:
        """Return the predictive distribution of each new row."""
        parts = [self._moments(part, joint=False) for part in self._parts(X)]
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Gaussian(mean, np.sqrt(variance + self.noise))

    def joint(self, X: FloatArray) -> MultivariateT:
        """Return the joint predictive distribution of all new rows.

        It is computed in double precision: in single precision the covariance may not be positive definite.
        """
        exact = self if self.dtype == "float64" else replace(self, dtype="float64")
        mean, covariance = exact._moments(X, joint=True)
        return MultivariateT(np.inf, mean, covariance + self.noise * np.eye(len(X)))

    def _moments(self, X: FloatArray, *, joint: bool) -> tuple[FloatArray, FloatArray]:
        import torch

        x, (L, LB, c) = self._tensor(X), self._solved
        V = torch.linalg.solve_triangular(L, self._kernel(self._tensor(self._anchors), x), upper=False)
        U = None if LB is None else torch.linalg.solve_triangular(LB, V, upper=False)
        if joint:
            variance = self._kernel(x, x) - V.mT @ V + (0 if U is None else U.mT @ U)
        else:
            explained = (V * V).sum(0) - (0 if U is None else (U * U).sum(0))
            variance = (self.outputscale - explained).clamp_min(0)
        return _array(self.mean + (V if U is None else U).mT @ c), _array(variance)

    @property
    def _anchors(self) -> FloatArray:
        return self.X if self.inducing is None else self.inducing

    def _parts(self, X: FloatArray) -> Iterator[FloatArray]:
        step = max(1, _BLOCK_CELLS // len(self._anchors))
        return (X[start : start + step] for start in range(0, len(X), step))

    @cached_property
    def _solved(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """L with L Lᵀ = K + noise I, None, and L⁻¹(y - mean); with inducing points L, LB and c of ``condition``."""
        import torch

        x, r = self._tensor(self.X), self._tensor(self.y - self.mean)
        if self.inducing is not None:
            z = self._tensor(self.inducing)
            return condition(self._kernel(z, z), self._kernel(z, x), r, self.noise)[:3]
        K = self._kernel(x, x)
        K.diagonal().add_(self.noise)
        L = safe_cholesky(K)
        return L, None, torch.linalg.solve_triangular(L, r[:, None], upper=False)[:, 0]

    def _kernel(self, x: Tensor, x2: Tensor) -> Tensor:
        import torch

        scale = self._tensor(self.lengthscale)
        distances = torch.cdist(x / scale, x2 / scale, compute_mode="donot_use_mm_for_euclid_dist")
        return distances.square_().div_(-2).exp_().mul_(self.outputscale)

    def _tensor(self, array: FloatArray) -> Tensor:
        import torch

        settle_torch()
        return torch.as_tensor(array, dtype=getattr(torch, self.dtype), device=_available_device(self.device))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_solved"}  # computed again when needed


def condition(Kuu: Tensor, Kuf: Tensor, r: Tensor, noise: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the factors L, LB, c and A of a posterior given inducing points u.

    L Lᵀ = K_uu, A = L⁻¹ K_uf/σ, LB LBᵀ = I + A Aᵀ and c = LB⁻¹ A r/σ.
    """
    import torch

    L = safe_cholesky(Kuu + 1e-6 * Kuu.diagonal().mean().detach() * torch.eye(len(Kuu)).to(Kuu))
    A = torch.linalg.solve_triangular(L, Kuf, upper=False) / noise**0.5
    LB = safe_cholesky(A @ A.mT + torch.eye(len(A)).to(A))
    c = torch.linalg.solve_triangular(LB, (A @ r / noise**0.5)[:, None], upper=False)[:, 0]
    return L, LB, c, A


def safe_cholesky(K: Tensor) -> Tensor:
    """Return the Cholesky factor of K; as little as needed is added to the diagonal to make K positive definite."""
    import torch

    L: Tensor
    L, failed = torch.linalg.cholesky_ex(K)
    scale = K.detach().diagonal().mean().item()
    jitter = float(torch.finfo(K.dtype).eps) * len(K) * scale
    while failed:
        if not jitter < 1e3 * scale:  # true for NaN, too
            raise DivergedError("a covariance must be finite, and positive definite up to rounding: check the rows")
        L, failed = torch.linalg.cholesky_ex(K + jitter * torch.eye(len(K), dtype=K.dtype, device=K.device))
        jitter *= 10
    return L


def _available_device(device: str) -> str:
    """Return the device, or "cpu" if this machine has no such device: the model may be from a pickle."""
    import torch

    requested = torch.device(device)
    if requested.type == "cuda" and (requested.index or 0) >= torch.cuda.device_count():
        return "cpu"
    return "cpu" if requested.type == "mps" and not torch.backends.mps.is_available() else device


def _array(part: Tensor) -> FloatArray:
    return part.numpy(force=True).astype(np.float64)


def gp_step_work(n_rows: int, n_inducing: int | None) -> float:
    """Return the approximate number of multiplications of one marginal likelihood."""
    return float(n_rows) * min(n_rows, n_inducing or n_rows) ** 2


def check_gp_parameters(minimum_noise: object, dtype: object, n_inducing: object) -> None:
    """Raise unless these parameters of a Gaussian process are valid."""
    if n_inducing is not None:
        check_number("n_inducing, if not None,", n_inducing, low=1, whole=True)
    check_number("minimum_noise", minimum_noise, low=0, strict=True)
    check_choice("dtype", dtype, DTYPES)
