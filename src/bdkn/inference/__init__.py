"""The paper's mathematics: Bayesian linear regression on what the members predict, in closed form; arrays only."""

from bdkn.inference.conjugate import Posterior, Prior, posterior
from bdkn.inference.evidence import Spectrum, choose_prior_variance, log_evidence
from bdkn.inference.kernel import StudentTProcess, induced_kernel, prior_mean, transformed_features
from bdkn.inference.statistics import Statistics

__all__ = [
    "Posterior",
    "Prior",
    "Spectrum",
    "Statistics",
    "StudentTProcess",
    "choose_prior_variance",
    "induced_kernel",
    "log_evidence",
    "posterior",
    "prior_mean",
    "transformed_features",
]
