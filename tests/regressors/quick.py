"""Small data, quick settings, and an engine that trains as told."""

from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
import pytest

from bdkn import CombinationOptions, TrainingOptions
from bdkn.estimators import BDKNRegressor, DeepEnsembleRegressor
from bdkn.networks import Networks
from bdkn.networks.reference import ReferenceEngine

QUICK = {
    "n_members": 3,
    "hidden_layer_sizes": (16,),
    "activation": "relu",
    "epochs": 40,
    "learning_rate": 1e-2,
    "schedule": "constant",
    "weight_decay": 0.0,
    "n_bins": 0,  # engines of these tests see the jobs of all members in one call
    "early_stopping": True,
    "random_state": 0,
}

BOTH = (BDKNRegressor, DeepEnsembleRegressor)

DESIGNS = ("cross-fit", "hold-out", "in-sample")

EACH = (
    *(pytest.param(partial(BDKNRegressor, design=design), id=design) for design in DESIGNS),
    pytest.param(DeepEnsembleRegressor, id="deep ensemble"),
)
"""Every design of BDKN, and the deep ensemble."""


def grouped(**flat):
    """Return parameters of a regressor, in which options of training and of the combination are objects."""
    for parameter, options in (("training", TrainingOptions), ("combination", CombinationOptions)):
        given = {field.name: flat.pop(field.name) for field in fields(options) if field.name in flat}
        if given:
            flat[parameter] = options(**given)
    return flat


def table(n=120, seed=0):
    """Return rows and targets of a smooth function with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(2, [1, 5, 0.1], (n, 3))
    return X, 50 + 3 * np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)


@dataclass(frozen=True)
class Stretched:
    """Reference engine that multiplies the predictions of member h, in each fold, by ``factors[h]``."""

    factors: tuple[float, ...]

    def train(self, jobs, rows, *, n_jobs=None, watch=None, on_epoch=None):
        trained = ReferenceEngine().train(jobs, rows, n_jobs=n_jobs, watch=watch, on_epoch=on_epoch)
        *hidden, (W, b) = trained.networks.layers
        W, b, factors = W.copy(), b.copy(), np.resize(np.array(self.factors, np.float32), len(jobs))
        W[:, 0] *= factors[:, None]
        b[:, 0] *= factors
        return replace(trained, networks=Networks(jobs[0].spec, (*hidden, (W, b))))
