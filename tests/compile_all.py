"""Compile the inner loops of this library and keep the code on disk: python tests/compile_all.py.

Small fits call all of them. Tests that follow, in whatever number of processes, load what was compiled here. That gives
the same bits: another process, which loads the code, makes the same fits.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import bdkn
from bdkn.ensemble.scikit_learn import copy_estimator


def models() -> list[bdkn.ProbabilisticRegressor]:
    """Return models that, together, train, combine and predict in every compiled way."""
    small = {"n_members": 2, "epochs": 1, "random_state": 0}
    members = [("networks", bdkn.DeepEnsembleRegressor(**small)), ("trees", RandomForestRegressor(10, random_state=0))]
    return [
        bdkn.BDKNRegressor(**small),
        bdkn.BDKNRegressor(**small, training=bdkn.TrainingOptions(early_stopping=True)),
        bdkn.BDKNRegressor.from_paper(1, **small),
        bdkn.BayesianStackingRegressor(members, random_state=0),
    ]


def digest() -> str:
    """Fit the models, let each predict whatever it can, and return a digest of all of these numbers."""
    X = np.random.default_rng(0).normal(size=(120, 3))
    y = X[:, 0] + 0.1 * X[:, 1]
    numbers = hashlib.sha256()
    for model in models():
        model.fit(X, y)
        found = [
            *model.predict_var(X, decompose=True).values(),
            model.predict_interval(X),
            model.log_score(X, y),
            model.crps(X, y),
            model.predict_dist(X).cdf(y),
        ]
        for part in found:
            numbers.update(np.ascontiguousarray(part).tobytes())
    copied = copy_estimator(RandomForestRegressor(2, random_state=0).fit(X, y))
    assert copied is not None
    for rows in (X, np.where(X > 1.0, np.nan, X)):
        numbers.update(copied.predict(rows).tobytes())
    return numbers.hexdigest()


def main() -> None:
    """Compile, and end with an error if the code from disk computes something else."""
    if "--digest" in sys.argv:
        print(digest())
        return
    compiled = digest()
    loaded = subprocess.run([sys.executable, __file__, "--digest"], stdout=subprocess.PIPE, text=True, check=True)
    if loaded.stdout.split()[-1] != compiled:
        sys.exit("freshly compiled code and the same code from disk must give the same bits; they do not")


if __name__ == "__main__":
    main()
