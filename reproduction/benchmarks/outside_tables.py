"""Random, gap and tail splits of the nine sets: who knows what it does not know.

    python reproduction/benchmarks/outside_tables.py run [--workers 8] [--sets energy yacht] [--methods BDKN GP]
    python reproduction/benchmarks/outside_tables.py page

Of each set at most 1000 rows are used, drawn with seed 0. For each input with more than five different values the rows
are sorted by it, ties in the order of the draw: in the *gap* split the middle third is the test set (Foong et al.,
2019), in the *tail* split the upper tenth. Five *random* splits leave out a tenth. Every method has its default
parameters. The Gaussian process (RBF, one length scale per input, constant noise) and the quantile forest (500 trees,
five rows a leaf; it has no density and so no NLL) are scikit-learn's.

``run`` appends one line per fit to reproduction/results/outside.ndjson, and skips fits that are there already, so that
it can be stopped at any time; methods whose package is not installed are skipped with a message. ``page`` writes
docs/outside.md, as ``bdkn-paper results`` does.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bdkn
from bdkn.predictive import Gaussian
from bdkn_paper.analysis.outside import FILE, KINDS, LEVELS, METHOD_TITLES, SETS, outside_results, read_outside
from bdkn_paper.data import load_dataset
from bdkn_paper.pages.outside import write_outside

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "reproduction" / "results" / FILE
PAGE = ROOT / "docs" / "outside.md"
MOST_ROWS, LEAST_VALUES, RANDOM_SPLITS = 1000, 6, 5


@dataclass(frozen=True)
class Split:
    """Row numbers of one split; ``name`` is its kind and the number of the input or of the split."""

    name: str
    train: np.ndarray
    test: np.ndarray


def load_rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets of at most MOST_ROWS rows of a set."""
    data = load_dataset(name)
    some = np.random.default_rng(0).permutation(len(data.y))[:MOST_ROWS]
    return data.X[some], data.y[some]


def splits(X: np.ndarray) -> Iterator[Split]:
    """Yield all splits of a table."""
    n = len(X)
    for j in range(X.shape[1]):
        if len(np.unique(X[:, j])) >= LEAST_VALUES:
            order = np.argsort(X[:, j], kind="stable")
            yield Split(f"gap {j}", np.r_[order[: n // 3], order[2 * n // 3 :]], order[n // 3 : 2 * n // 3])
            yield Split(f"tail {j}", order[: n - n // 10], order[n - n // 10 :])
    for k in range(RANDOM_SPLITS):
        order = np.random.default_rng(k + 1).permutation(n)
        yield Split(f"random {k}", order[: n - n // 10], order[n - n // 10 :])


class GaussianProcess:
    """scikit-learn's Gaussian process on standardized inputs and targets."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> GaussianProcess:
        """Fit the kernel by evidence."""
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
        from sklearn.preprocessing import StandardScaler

        self.scaler = StandardScaler().fit(X)
        kernel = ConstantKernel() * RBF(np.ones(X.shape[1]), (1e-2, 1e4)) + WhiteKernel(0.1, (1e-8, 10.0))
        self.model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=0)
        self.model.fit(self.scaler.transform(X), y)
        return self

    def predict_dist(self, X: np.ndarray) -> Gaussian:
        """Return the predictive of each row, noise included."""
        return Gaussian(*self.model.predict(self.scaler.transform(X), return_std=True))


class Weighted:
    """Weights (n, m) of m observed targets, as the distribution of each row: quantiles, CRPS, no density."""

    def __init__(self, weights: np.ndarray, targets: np.ndarray) -> None:
        order = np.argsort(targets)
        self.weights, self.targets = weights[:, order], targets[order]

    def mean(self) -> np.ndarray:
        """Return the means."""
        return self.weights @ self.targets

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the central interval of each row."""
        cumulative = np.cumsum(self.weights, axis=1)
        ends = (1 - level) / 2, (1 + level) / 2
        low, high = ((cumulative < end - 1e-12).sum(axis=1) for end in ends)
        last = len(self.targets) - 1
        return self.targets[np.minimum(low, last)], self.targets[np.minimum(high, last)]

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Return E|Y - y| - E|Y - Y'|/2."""
        apart = np.abs(self.targets[:, None] - self.targets)
        return (self.weights * np.abs(self.targets - y[:, None])).sum(axis=1) - 0.5 * np.einsum(
            "ni,ij,nj->n", self.weights, apart, self.weights, optimize=True
        )


class QuantileForest:
    """A forest whose leaves keep their targets (Meinshausen, 2006)."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> QuantileForest:
        """Fit the forest, and keep the leaves of the training rows."""
        from sklearn.ensemble import RandomForestRegressor

        self.model = RandomForestRegressor(500, min_samples_leaf=5, max_features=1 / 3, random_state=0).fit(X, y)
        self.leaves, self.y = self.model.apply(X), y
        return self

    def predict_dist(self, X: np.ndarray) -> Weighted:
        """Return the targets of the leaves that each row falls into, with their weights."""
        weights = np.zeros((len(X), len(self.y)))
        for ours, theirs in zip(self.model.apply(X).T, self.leaves.T, strict=True):
            same = ours[:, None] == theirs
            weights += same / same.sum(axis=1, keepdims=True)
        return Weighted(weights / self.leaves.shape[1], self.y)


def make(method: str) -> Any:
    """Return an unfitted model; raise ImportError if its package is missing."""
    if method in ("NGBoost", "CatBoost"):
        from bdkn_paper.peers import PEERS

        peer = PEERS[method](random_state=0, n_jobs=1)
        peer.library()
        return peer
    made = {
        "BDKN": lambda: bdkn.BDKNRegressor(random_state=0, n_jobs=1),
        "stack": lambda: bdkn.BayesianStackingRegressor(random_state=0, n_jobs=1),
        "deep ensemble": lambda: bdkn.DeepEnsembleRegressor(random_state=0, n_jobs=1),
        "GP": GaussianProcess,
        "quantile forest": QuantileForest,
    }
    return made[method]()


METHODS = tuple(METHOD_TITLES)


def evaluate(name: str, split: Split, method: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return the record of one fit."""
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    dist = make(method).fit(X[split.train], y[split.train]).predict_dist(X[split.test])
    target, took = y[split.test], time.perf_counter() - began
    held = {}
    for level in LEVELS:
        low, high = dist.interval(level)
        held[f"coverage_{level}"] = float(np.mean((low <= target) & (target <= high)))
    scores = {
        "nll": float(-np.mean(dist.logpdf(target))) if hasattr(dist, "logpdf") else None,
        "crps": float(np.mean(dist.crps(target))),
        "rmse": float(np.sqrt(np.mean((dist.mean() - target) ** 2))),
    }
    return {"set": name, "split": split.name, "method": method, **scores, **held, "seconds": round(took, 2)}


def installed(methods: Sequence[str]) -> list[str]:
    """Return the methods that can be run here, and say why others cannot."""
    found = []
    for method in methods:
        try:
            make(method)
        except ImportError as error:
            print(f"skipped {method}: {error}")
        else:
            found.append(method)
    return found


def run(options: argparse.Namespace) -> None:
    """Run all fits that are not recorded yet."""
    done = {(r["set"], r["split"], r["method"]) for r in read_outside(options.records)}
    methods, jobs = installed(options.methods), []
    for name in options.sets:
        X, y = load_rows(name)
        for split in list(splits(X))[:: options.every]:
            if split.name.split()[0] in options.kinds:
                wanted = [method for method in methods if (name, split.name, method) not in done]
                jobs += [(name, split, method, X, y) for method in wanted]
    print(f"{len(jobs)} fits to run, {len(done)} recorded")
    options.records.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.workers) as pool, options.records.open("a", encoding="utf-8") as file:
        for future in as_completed([pool.submit(evaluate, *job) for job in jobs]):
            file.write(json.dumps(future.result()) + "\n")
            file.flush()


def page(options: argparse.Namespace) -> None:
    """Write the page."""
    write_outside(outside_results(read_outside(options.records)), options.page)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "page"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS)
    parser.add_argument("--every", type=int, default=1, help="only every k-th split, for a quick look")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    run(options) if options.verb == "run" else page(options)


if __name__ == "__main__":
    main()
