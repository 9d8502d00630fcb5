"""The file that type checkers see as a user's runs, too."""

import runpy
from pathlib import Path

import numpy as np


def test_a_users_file_runs(tmp_path):
    user = runpy.run_path(str(Path(__file__).parent / "typing" / "user.py"))
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0]
    model = user["fit"](X, y)
    assert user["files"](model, X, tmp_path).shape == (60,)
    user["distribution"](model.predict_dist(X), y)
    user["predict"](model, X + 0.01, y)
