"""Check that results do not depend on what mathematics says they do not depend on.

    python tests/stress/invariances.py [--write] [--scale 1] [--seed 0]

The number of jobs and threads, and the memory layout and type of the inputs: predictions must be the same to the last
bit. The other rows of a call: within 1e-12, as NumPy sums a single row in another order than many. The order and
blocks of rows in statistics, combinations and scores: the same up to rounding, 1e-9 of the scale of a prediction.
Networks predict in single precision: within 1e-5 of the spread of the targets of the same networks in double
precision.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from bdkn import BayesianStackingRegressor, BDKNRegressor, DeepEnsembleRegressor
from bdkn.inference import Forecast, Prior, Statistics, combine, posterior
from bdkn.metrics import crps, nll
from bdkn.networks.mlp import exact_outputs
from bdkn.predictive import StudentT
from bdkn.typing import FloatArray
from record import Found, arguments, recording

FOUND = [
    Found(
        "a stack with members of scikit-learn gave other numbers (1e-16 to 1e-5) for equal rows in single precision or "
        "by columns, as members compute in the precision and the order of what they are given",
        "members get arrays in double precision, by rows",
    )
]
Trial = Callable[[np.random.Generator], bool]


def table(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
    """Return rows with columns of several sizes, and targets with noise."""
    X = rng.normal(size=(n, 4)) * [1.0, 10.0, 0.1, 1000.0] + [0.0, 5.0, 1.0, -300.0]
    return X, np.sin(X[:, 0]) + 0.1 * X[:, 1] + 0.3 * rng.normal(size=n)


def model(rng: np.random.Generator, n_jobs: int = 1) -> Any:
    """Return an unfitted regressor of a random kind, with quick settings."""
    seed, kind = int(rng.integers(1000)), int(rng.integers(4))
    if kind == 0:
        return DeepEnsembleRegressor(n_members=3, epochs=5, random_state=seed, n_jobs=n_jobs)
    if kind == 1:
        members = [("ridge", Ridge()), ("tree", DecisionTreeRegressor(max_depth=3, random_state=0))]
        members.append(("near", KNeighborsRegressor(5)))
        return BayesianStackingRegressor(members, random_state=seed, n_jobs=n_jobs)
    density = ("student-t", "auto")[kind - 2]
    return BDKNRegressor(n_members=3, epochs=5, effort="fast", density=density, random_state=seed, n_jobs=n_jobs)


def answers(fitted: Any, X: Any) -> FloatArray:
    """Return mean, standard deviation and an interval of each row."""
    mean, std = fitted.predict(X, return_std=True)
    return np.column_stack([mean, std, fitted.predict_interval(X, 0.8)])


def _same(one: FloatArray, other: FloatArray) -> bool:
    return bool(np.array_equal(one, other))


def _close(one: FloatArray, other: FloatArray, unit: Any = 1.0) -> bool:
    return bool(np.all(np.abs(one - other) <= 1e-9 * (unit + np.abs(one))))


def jobs(rng: np.random.Generator) -> bool:
    """Fit with one, two and four jobs."""
    X, y = table(rng, 80)
    state = rng.bit_generator.state
    found = []
    for n_jobs in (1, 2, 4):
        rng.bit_generator.state = state
        found.append(answers(model(rng, n_jobs).fit(X, y), X))
    return _same(found[0], found[1]) and _same(found[0], found[2])


def threads(rng: np.random.Generator) -> bool:
    """Fit and predict with one thread of BLAS and OpenMP and with as many as there are."""
    X, y = table(rng, 80)
    state = rng.bit_generator.state
    with threadpool_limits(1):
        one = answers(model(rng).fit(X, y), X)
    rng.bit_generator.state = state
    return _same(one, answers(model(rng).fit(X, y), X))


def inputs(rng: np.random.Generator) -> bool:
    """Give the same numbers in another order of memory, byte order, type or as lists."""
    X, y = (numbers.astype(np.float32).astype(np.float64) for numbers in table(rng, 60))
    state = rng.bit_generator.state
    one = answers(model(rng).fit(X, y), X)
    rows, targets = _other_form(rng, X), _other_form(rng, y)
    rng.bit_generator.state = state
    return _same(one, answers(model(rng).fit(rows, targets), rows))


def _other_form(rng: np.random.Generator, numbers: FloatArray) -> Any:
    """Return the same numbers in another form."""
    kept = numbers.copy()
    kept.flags.writeable = False
    backwards = np.ascontiguousarray(numbers[::-1])[::-1]
    forms = (np.asfortranarray(numbers), numbers.astype(np.float32), numbers.astype(">f8"), numbers.tolist())
    return (*forms, np.repeat(numbers, 2, axis=0)[::2], backwards, kept)[int(rng.integers(len(forms) + 3))]


class Blocks:
    """Predict all rows at once, one by one, in blocks, in another order, and many times over."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        X, y = table(rng, 120)
        self.models = [model(np.random.default_rng(seed)).fit(X, y) for seed in range(8)]

    def __call__(self, rng: np.random.Generator) -> bool:
        """Return whether the rows of a random call are predicted as alone."""
        fitted = self.models[int(rng.integers(len(self.models)))]
        X, _ = table(rng, int(rng.integers(1, 400)))
        X[rng.random(len(X)) < 0.05] *= 10.0
        together, order = answers(fitted, X), rng.permutation(len(X))
        cuts = np.sort(rng.integers(0, len(X) + 1, int(rng.integers(0, 5))))
        parts = [part for part in np.split(order, cuts) if len(part)]
        other = np.concatenate([answers(fitted, X[part]) for part in parts])
        return bool(np.allclose(together[order], other, rtol=1e-12, atol=1e-12))


def statistics(rng: np.random.Generator) -> bool:
    """Take rows in another order and other blocks, merged as another tree."""
    n, H = int(rng.integers(5, 200)), int(rng.integers(1, 8))
    Phi = rng.normal(size=(n, 1)) + 10.0 ** -rng.uniform(0, 6) * rng.normal(size=(n, H))
    y, w = Phi.mean(axis=1) + 10.0 ** -rng.uniform(0, 6) * rng.normal(size=n), 10.0 ** rng.uniform(-3, 3, n)
    prior = Prior.isotropic(H, 10.0 ** rng.uniform(-3, 6), 1.0 / H)
    one = posterior(Statistics.from_rows(Phi, y, precision=w), prior).predictive(Phi)
    parts = np.array_split(rng.permutation(n), int(rng.integers(1, 6)))
    parts = [Statistics.from_rows(Phi[p], y[p], precision=w[p]) for p in parts if len(p)]
    while len(parts) > 1:
        parts.append(parts.pop(int(rng.integers(len(parts)))) + parts.pop(int(rng.integers(len(parts)))))
    other = posterior(parts[0], prior).predictive(Phi)
    return _close(one.loc, other.loc, one.scale) and bool(np.allclose(one.scale, other.scale, rtol=1e-8, atol=0.0))


def combinations(rng: np.random.Generator) -> bool:
    """Combine members on rows in another order."""
    n, H = int(rng.integers(30, 200)), int(rng.integers(2, 6))
    truth = rng.normal(size=n)
    means, variances = truth[:, None] + 0.3 * rng.normal(size=(n, H)), rng.uniform(0.05, 0.2, (n, H))
    y, order = truth + 0.2 * rng.normal(size=n), rng.permutation(n)
    one = combine(Forecast.of(means, variances), y)
    other = combine(Forecast.of(means[order], variances[order]), y[order])
    return bool(np.allclose(one.weights, other.weights, rtol=1e-4, atol=1e-5)) and bool(
        np.isclose(one.evidence, other.evidence, rtol=1e-6)
    )


def scores(rng: np.random.Generator) -> bool:
    """Score rows in another order."""
    n = int(rng.integers(2, 300))
    loc, scale, y = rng.normal(size=n), rng.uniform(0.1, 3, n), 3 * rng.normal(size=n)
    order, df = rng.permutation(n), float(rng.uniform(1.5, 30))
    one, other = StudentT(df, loc, scale), StudentT(df, loc[order], scale[order])
    return all(np.isclose(score(y, one), score(y[order], other), rtol=1e-12) for score in (nll, crps))


def precision(rng: np.random.Generator) -> bool:
    """Predict with networks in single and in double precision."""
    X, y = table(rng, 60)
    fitted = DeepEnsembleRegressor(n_members=2, epochs=20, random_state=int(rng.integers(1000))).fit(X, y)
    networks = fitted.ensemble_.networks
    stacks = getattr(networks, "stacks", (networks,))
    Z = np.random.default_rng(0).normal(size=(200, stacks[0].spec.n_inputs)).astype(np.float32)
    wide = tuple((W.astype(np.float64), b.astype(np.float64)) for W, b in stacks[0].layers)
    single, double = stacks[0].outputs(Z), exact_outputs(stacks[0].spec, wide, Z.astype(np.float64))
    return all(bool(np.allclose(s, d, rtol=1e-4, atol=1e-5)) for s, d in zip(single, double, strict=True))


TASKS: tuple[tuple[str, int, Callable[[], Trial]], ...] = (
    ("fits with 1, 2 and 4 jobs: the same bits", 60, lambda: jobs),
    ("fits with one thread and with all: the same bits", 60, lambda: threads),
    ("fits to the same numbers in other types and orders of memory: the same bits", 150, lambda: inputs),
    ("predictions of rows in other blocks and orders: within 1e-12", 1000, Blocks),
    ("statistics of rows in other orders, blocks and trees", 5000, lambda: statistics),
    ("combinations of rows in another order", 500, lambda: combinations),
    ("scores of rows in another order", 2000, lambda: scores),
    ("networks in single and in double precision", 40, lambda: precision),
)


def run(trial: Trial, trials: int, seed: int) -> int:
    """Return how many of the trials went wrong."""
    wrong = 0
    for number in range(trials):
        if not trial(np.random.default_rng([seed, number])):
            wrong += 1
            print(f"trial {number} is wrong", flush=True)
    return wrong


def main() -> None:
    """Run all trials and write the record where asked for."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seed", type=int, default=0, help="seed of the trials (default 0)")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    title, command = "What results do not depend on", "python tests/stress/invariances.py --write"
    with recording("invariances", title, command, FOUND, write=chosen.write) as record:
        for what, number, make in TASKS:
            trials = max(1, round(number * chosen.scale))
            record.add(what, trials, run(make(), trials, chosen.seed))


if __name__ == "__main__":
    main()
