"""The textbook formulas in 50-digit arithmetic, on the exact values of the floating-point inputs."""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp
import numpy as np

DIGITS = 120  # of the arithmetic; the textbook formulas cancel, and the answers must still hold 50


@dataclass
class Reference:
    mean: np.ndarray
    a: float
    b: float
    scale_matrix: np.ndarray
    log_evidence: float
    loc: np.ndarray
    scale: np.ndarray


def matrix(values):
    return mp.matrix(np.asarray(values, dtype=float).tolist())


def floats(values):
    return np.array([float(value) for value in values])


def solve(Phi, y, *, mean, precision, a0=0.0, b0=0.0, w=None, new=None):
    """Return posterior, evidence and predictive at the rows ``new`` by the formulas as the paper prints them."""
    with mp.workdps(DIGITS):
        N, H = np.shape(Phi)
        Φ, y, μ0, Λ0 = matrix(Phi), matrix(y), matrix(mean), matrix(precision)
        w = np.ones(N) if w is None else w
        W = mp.diag([mp.mpf(float(value)) for value in w])
        Λn = Λ0 + Φ.T * W * Φ
        inverse = Λn**-1
        μn = inverse * (Λ0 * μ0 + Φ.T * W * y)
        a = mp.mpf(a0) + mp.mpf(N) / 2
        b = mp.mpf(b0) + ((y.T * W * y)[0] + (μ0.T * Λ0 * μ0)[0] - (μn.T * Λn * μn)[0]) / 2
        evidence = mp.loggamma(a) - a * mp.log(b) + (mp.log(mp.det(Λ0)) - mp.log(mp.det(Λn))) / 2
        evidence += sum(mp.log(mp.mpf(float(value))) for value in w) / 2 - mp.mpf(N) / 2 * mp.log(2 * mp.pi)
        if a0 > 0 and b0 > 0:
            evidence += mp.mpf(a0) * mp.log(mp.mpf(b0)) - mp.loggamma(mp.mpf(a0))
        new = matrix(Phi if new is None else new)
        s2 = [b / a * (1 + (new[i, :] * inverse * new[i, :].T)[0]) for i in range(new.rows)]
        return Reference(
            mean=floats(μn),
            a=float(a),
            b=float(b),
            scale_matrix=floats(b / a * inverse).reshape(H, H),
            log_evidence=float(evidence),
            loc=floats(new * μn),
            scale=floats([mp.sqrt(value) for value in s2]),
        )


@dataclass
class BlockReference:
    mean: np.ndarray
    b: np.ndarray
    log_evidence: float
    loc: np.ndarray
    shape: np.ndarray


def solve_block(Phi, Y, *, mean, precision, a0=0.0, b0=None, w=None, new=None):
    """Return posterior, evidence and the shape (k, q, q) of predictions of a block of targets, by explicit inverses."""
    with mp.workdps(DIGITS):
        (N, H), q = np.shape(Phi), np.shape(Y)[1]
        Φ, Y, μ0, Λ0 = matrix(Phi), matrix(Y), matrix(mean), matrix(precision)
        b0 = np.zeros((q, q)) if b0 is None else b0
        w = np.ones(N) if w is None else w
        W = mp.diag([mp.mpf(float(value)) for value in w])
        Λn = Λ0 + Φ.T * W * Φ
        inverse = Λn**-1
        μn = inverse * (Λ0 * μ0 + Φ.T * W * Y)
        a = mp.mpf(a0) + mp.mpf(N) / 2
        b = matrix(b0) + (Y.T * W * Y + μ0.T * Λ0 * μ0 - μn.T * Λn * μn) / 2
        evidence = log_multigamma(a, q) - (a + mp.mpf(q - 1) / 2) * mp.log(mp.det(b))
        evidence += q * (mp.log(mp.det(Λ0)) - mp.log(mp.det(Λn))) / 2 - mp.mpf(N * q) / 2 * mp.log(2 * mp.pi)
        evidence += q * sum(mp.log(mp.mpf(float(value))) for value in w) / 2
        if a0 > 0 and mp.det(matrix(b0)) > 0:
            evidence += (mp.mpf(a0) + mp.mpf(q - 1) / 2) * mp.log(mp.det(matrix(b0))) - log_multigamma(mp.mpf(a0), q)
        new = matrix(Phi if new is None else new)
        factors = [1 + (new[i, :] * inverse * new[i, :].T)[0] for i in range(new.rows)]
        return BlockReference(
            mean=floats(μn).reshape(H, q),
            b=floats(b).reshape(q, q),
            log_evidence=float(evidence),
            loc=floats(new * μn).reshape(-1, q),
            shape=np.array([floats(factor * b / a).reshape(q, q) for factor in factors]),
        )


def log_multigamma(a, q):
    """Return log Γ_q(a + (q - 1)/2) from its definition as a product of gamma functions."""
    x = a + mp.mpf(q - 1) / 2
    return mp.mpf(q * (q - 1)) / 4 * mp.log(mp.pi) + sum(mp.loggamma(x + mp.mpf(1 - j) / 2) for j in range(1, q + 1))
