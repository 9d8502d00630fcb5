"""The mathematics of the combination: Bayesian linear regression on the members' means, in closed form, on arrays."""

from __future__ import annotations

from bdkn.inference.combination import Combination, Forecast, Outside, Tails, combine
from bdkn.inference.evidence import Spectrum, choose_prior_variance
from bdkn.inference.posterior import BlockPosterior, Posterior, Prior, block_posterior, log_evidence, posterior
from bdkn.inference.process import StudentTProcess, induced_kernel, prior_mean, transformed_features
from bdkn.inference.published import published_combination
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
    "induced_kernel",
    "log_evidence",
    "posterior",
    "prior_mean",
    "published_combination",
    "transformed_features",
]
