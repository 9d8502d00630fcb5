"""The paper's mathematics: Bayesian linear regression on what the members predict, in closed form; arrays only."""

from bdkn.inference.combination import Combination, combine
from bdkn.inference.conjugate import Posterior, Prior, posterior
from bdkn.inference.evidence import Spectrum, choose_prior_variance, log_evidence
from bdkn.inference.forecast import Forecast
from bdkn.inference.kernel import StudentTProcess, induced_kernel, prior_mean, transformed_features
from bdkn.inference.loo import leave_one_out
from bdkn.inference.plain import plain_combination
from bdkn.inference.statistics import Statistics
from bdkn.inference.tails import Tails, fit_tails

__all__ = [
    "Combination",
    "Forecast",
    "Posterior",
    "Prior",
    "Spectrum",
    "Statistics",
    "StudentTProcess",
    "Tails",
    "choose_prior_variance",
    "combine",
    "fit_tails",
    "induced_kernel",
    "leave_one_out",
    "log_evidence",
    "plain_combination",
    "posterior",
    "prior_mean",
    "transformed_features",
]
