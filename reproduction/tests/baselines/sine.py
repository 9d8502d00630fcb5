"""The six methods of the paper other than its own, and what they are tried on."""

import numpy as np

from bdkn_paper import BLLRegressor, DKLRegressor, GPRegressor, LDBLLRegressor, MFVIRegressor, VBLLRegressor

SMALL = {"hidden_layer_sizes": (8,), "epochs": 30, "learning_rate": 0.02}

QUICK = {
    GPRegressor: {"epochs": 30, "learning_rate": 0.1},
    DKLRegressor: SMALL,
    BLLRegressor: SMALL,
    LDBLLRegressor: {**SMALL, "hidden_layer_sizes": (32,), "derivative_rows": 20},
    MFVIRegressor: {**SMALL, "epochs": 20, "n_samples": 10},
    VBLLRegressor: {**SMALL, "epochs": 20},
}
"""Parameters with which a fit takes a moment; ``n_jobs=1`` because threads cost more than they bring."""

EVERY = tuple(QUICK)


def quick(cls, **others):
    return cls(**{**QUICK[cls], "n_jobs": 1, "random_state": 0, **others})


def sine(n, seed=0, noise=0.2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 1))
    return X, np.sin(2 * X[:, 0]) + noise * rng.normal(size=n)


def table(n=60, seed=0):
    """Return rows in units of their own and targets far from standardised."""
    rng = np.random.default_rng(seed)
    X = rng.normal(2, [1, 5, 0.1], (n, 3))
    return X, 50 + 3 * np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
