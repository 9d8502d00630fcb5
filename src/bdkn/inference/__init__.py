"""The mathematics of the combination: Bayesian linear regression on the members' means, in closed form, on arrays."""

from __future__ import annotations

import warnings
from typing import Any

from bdkn.inference.combination import Combination, Tails, fit_tails
from bdkn.inference.conjugate import Prior, log_evidence
from bdkn.inference.evidence import Spectrum, choose_prior_variance
from bdkn.inference.forecast import Forecast, Outside
from bdkn.inference.posteriors import (
    BlockPosterior,
    Posterior,
    StudentTProcess,
    block_posterior,
    induced_kernel,
    leave_one_out,
    posterior,
    prior_mean,
    transformed_features,
)
from bdkn.inference.published import published_combination
from bdkn.inference.regression import combine
from bdkn.inference.rowwise import compiled
from bdkn.inference.statistics import Statistics
from bdkn.inference.updating import Absorbed
from bdkn.inference.weights import WeightPosterior, average_weights

__all__ = [
    "Absorbed",
    "BlockPosterior",
    "Combination",
    "Forecast",
    "Outside",
    "Posterior",
    "Prior",
    "Spectrum",
    "Statistics",
    "StudentTProcess",
    "Tails",
    "WeightPosterior",
    "average_weights",
    "block_posterior",
    "choose_prior_variance",
    "combine",
    "compiled",
    "fit_tails",
    "induced_kernel",
    "leave_one_out",
    "log_evidence",
    "posterior",
    "prior_mean",
    "published_combination",
    "transformed_features",
]


def __getattr__(name: str) -> Any:
    if name == "plain_combination":
        text = "plain_combination is now called published_combination; the old name will be removed in bdkn 0.3"
        warnings.warn(text, FutureWarning, stacklevel=2)
        return published_combination
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
