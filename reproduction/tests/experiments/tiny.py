"""Small tasks, quick cells, and sources that do as told."""

from dataclasses import dataclass

import numpy as np

from bdkn.errors import BDKNError
from bdkn_paper.experiments import Task
from bdkn_paper.store import Cell

QUICK = {
    "n_members": 3,
    "hidden_layer_sizes": [8],
    "activation": "relu",
    "epochs": 4,
    "learning_rate": 0.01,
    "weight_decay": 0.0,
    "training": {"schedule": "constant", "early_stopping": False},
}


def cell(**changes):
    """Return a quick BDKN cell."""
    fields = {
        "experiment": "tiny",
        "method": "bdkn",
        "dataset": "waves",
        "split": 0,
        "regressor": "BDKNRegressor",
        "parameters": QUICK,
    }
    return Cell(**(fields | changes))


def task(n=60, splits=3):
    """Return a smooth function with noise, split a few times."""
    rng = np.random.default_rng(0)
    X = rng.normal(3, [1, 20], (n, 2))
    y = 40 + 5 * np.sin(X[:, 0]) + rng.normal(size=n)
    orders = [rng.permutation(n) for _ in range(splits)]
    return Task(X, y, [(order[: n * 3 // 4], order[n * 3 // 4 :]) for order in orders])


@dataclass
class TinySource:
    """Knows one task by the names given, and another that it cannot find."""

    known: tuple[str, ...] = ("waves",)
    loads: int = 0

    def names(self):
        return [*self.known, "missing"]

    def n_splits(self, name):
        return 3

    def train_size(self, name):
        return 45

    def load(self, name):
        self.loads += 1
        if name == "missing":
            raise BDKNError("no file missing.csv.gz; fetch it")
        return task()


def numbers(records):
    """Return what of records must not depend on when, where and how often they were run."""
    return [(r["cell"], r["status"], r.get("metrics"), r.get("model"), r.get("curves")) for r in records]
