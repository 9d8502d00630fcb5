"""Compile the inner loops of this library and keep the code on disk: python tests/compile_all.py.

Small fits call all of them. Tests that follow, in whatever number of processes, load what was compiled here.
"""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import bdkn


def models() -> list[bdkn.ProbabilisticRegressor]:
    """Return models that, together, train, combine and predict in every compiled way."""
    small = {"n_members": 2, "epochs": 1, "random_state": 0}
    members = [("networks", bdkn.DeepEnsembleRegressor(**small)), ("trees", RandomForestRegressor(10, random_state=0))]
    return [
        bdkn.BDKNRegressor(**small),
        bdkn.BDKNRegressor(**small, early_stopping=True),
        bdkn.BDKNRegressor.from_paper(1, **small),
        bdkn.BayesianStackingRegressor(members, random_state=0),
    ]


def main() -> None:
    """Fit the models, and let each predict whatever it can."""
    X = np.random.default_rng(0).normal(size=(120, 3))
    y = X[:, 0] + 0.1 * X[:, 1]
    for model in models():
        model.fit(X, y)
        model.predict_var(X, decompose=True)
        model.predict_interval(X)
        model.log_score(X, y)
        model.crps(X, y)
        model.predict_dist(X).cdf(y)


if __name__ == "__main__":
    main()
