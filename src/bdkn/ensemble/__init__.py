"""Members of an ensemble as data: fitted scikit-learn estimators copied into arrays."""

from bdkn.ensemble.copied_models import CopiedModel, StorableEstimator, from_stored, make_estimators, to_stored
from bdkn.ensemble.scikit_learn import copy_estimator

__all__ = [
    "CopiedModel",
    "StorableEstimator",
    "copy_estimator",
    "from_stored",
    "make_estimators",
    "to_stored",
]
