"""Schemas of the linear model: posteriors, combinations, and statistics of rows absorbed later."""

from __future__ import annotations

import numpy as np

from bdkn.inference import Absorbed, Combination, Posterior, Prior, Statistics, Tails
from bdkn.inference.factor import Factor
from bdkn.persistence.schema import Flag, Maybe, Number, Part, Schema, floats, must


def weights_of(combination: Combination) -> int:
    """Return the number of weights, the constant included."""
    return len(combination.posterior.mean)


def members_of(combination: Combination) -> int:
    """Return the number of members, without the constant."""
    return weights_of(combination) - combination.intercept


def _check_root(post: Posterior) -> None:
    """Raise unless the root is invertible and upper-triangular up to the order of its columns."""
    H, filled = len(post.mean), post.root != 0.0
    last = H - 1 - filled[::-1].argmax(axis=0)
    must(filled.any(axis=0).all(), "root must be invertible; it has a column of zeros")
    must(np.array_equal(np.sort(last), np.arange(H)), "root must be triangular up to the order of its columns")


def _check_combination(combination: Combination) -> None:
    must(members_of(combination) >= 1, "needs a weight for at least one member")


def _check_factor(factor: Factor) -> None:
    must(not np.tril(factor.root, -1).any(), "root must be an upper triangle")


def _check_absorbed(absorbed: Absorbed) -> None:
    must(absorbed.fitted.intercept, "rows are absorbed by a combination with a constant only")


_POSITIVE = Number(above=0.0)
_SIZE = Number(low=0.0)

SCHEMAS = (
    Schema(
        Prior,
        {"mean": floats("W"), "precision": floats("W", "W"), "a0": Number(), "b0": _SIZE},
        least={"W": 1},
    ),
    Schema(
        Posterior,
        {
            "mean": floats("W"),
            "root": floats("W", "W"),
            "a": _POSITIVE,
            "b": _SIZE,
            "prior": Part(Prior, W=lambda prior: len(prior.mean)),
        },
        _check_root,
        {"W": 1},
    ),
    Schema(Tails, {"df": Number(above=0.0, infinite=True), "scale": _SIZE}),
    Schema(
        Combination,
        {
            "posterior": Part(Posterior),
            "prior_variance": _SIZE,
            "evidence": Number(infinite=True, nan=True),
            "n": _POSITIVE,
            "tempering": _SIZE,
            "noise_level": _SIZE,
            "tails": Part(Tails),
            "intercept": Flag(),
            "score": Number(infinite=True, nan=True),
            "averaging": _SIZE,
        },
        _check_combination,
    ),
    Schema(Factor, {"root": floats("W+1", "W+1"), "ref": floats("W")}, _check_factor, {"W": 1}),
    Schema(Statistics, {"factor": Part(Factor), "n": _SIZE, "sum_log_w": Number()}),
    Schema(
        Absorbed,
        {
            "fitted": Part(Combination, W=weights_of),
            "base": Part(Statistics, W=lambda rows: rows.n_weights),
            "later": Part(Statistics, W=lambda rows: rows.n_weights),
            "base_weight": Number(above=0.0, high=1.0),
            "prior_variance": Maybe(_POSITIVE),
        },
        _check_absorbed,
    ),
)
