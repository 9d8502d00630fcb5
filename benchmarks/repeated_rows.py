"""Measure what repeated rows do to intervals, and what it costs to keep rows with equal inputs together.

    python benchmarks/repeated_rows.py [--write]

Diabetes of scikit-learn with its training rows once, three times, and three times with noise of a millionth: three
splits, 90 % intervals on rows of their own. Then a simulator, three noisy observations for each of 120 settings of
five inputs: scores at settings that were seen and at new ones, with rows of one setting in one fold (the default)
and in any folds (``groups=np.arange(n)``). ``--write`` writes the tables to benchmarks/records/repeated_rows.md.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1

from bdkn import BDKNRegressor
from bdkn.metrics import coverage

RECORDS = Path(__file__).parent / "records"


def scores(model: BDKNRegressor, X: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Return the share of targets in 90 % intervals, the NLL, and the mean width of the intervals."""
    dist = model.predict_dist(X)
    low, high = dist.interval(0.9)
    return coverage(y, dist, 0.9), -float(dist.logpdf(y).mean()), float((high - low).mean())


def diabetes() -> list[str]:
    """Return the lines of the table of diabetes."""
    X, y = load_diabetes(return_X_y=True)
    lines = ["| rows | groups | held by 90 % intervals | NLL | width |", "| --- | --- | --- | --- | --- |"]
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(y))
        train, test = order[:331], order[331:]
        three = np.tile(train, 3)
        jitter = 1e-6 * X.std(axis=0) * rng.normal(size=X[three].shape)
        tables = {"once": (X[train], y[train]), "three times": (X[three], y[three])}
        tables["three times, nearly"] = X[three] + jitter, y[three]
        for name, (rows, targets) in tables.items():
            choices = {"": None} | ({"np.arange(n)": np.arange(len(targets))} if name == "three times" else {})
            for label, groups in choices.items():
                model = BDKNRegressor(random_state=seed, n_jobs=1).fit(rows, targets, groups=groups)
                found.setdefault((name, label), []).append(scores(model, X[test], y[test]))
    for (name, label), values in found.items():
        held, nll, width = np.transpose(values)
        lines.append(
            f"| {name} | {label} | {', '.join(f'{h:.2f}' for h in held)} | {nll.mean():.3f} | {width.mean():.0f} |"
        )
    return lines


def settings() -> list[str]:
    """Return the lines of the table of repeated settings."""
    lines = ["| noise | rows of a setting | held, seen | NLL, seen | held, new | NLL, new |", "| --- " * 6 + "|"]
    for noise in (0.3, 1.0, 3.0):
        found: dict[str, list[tuple[float, ...]]] = {}
        for seed in range(3):
            X, f = make_friedman1(360, n_features=5, noise=0.0, random_state=seed)
            rng = np.random.default_rng(seed)
            seen, new = np.arange(120), np.arange(120, 360)
            three = np.tile(seen, 3)
            y = f[three] + noise * rng.normal(size=360)
            test = {part: f[rows] + noise * rng.normal(size=len(rows)) for part, rows in (("seen", seen), ("new", new))}
            for label, groups in (("one fold", None), ("any folds", np.arange(360))):
                model = BDKNRegressor(random_state=seed, n_jobs=1).fit(X[three], y, groups=groups)
                found.setdefault(label, []).append(
                    (*scores(model, X[seen], test["seen"])[:2], *scores(model, X[new], test["new"])[:2])
                )
        for label, values in found.items():
            a, b, c, d = np.mean(values, axis=0)
            lines.append(f"| {noise} | {label} | {a:.2f} | {b:.3f} | {c:.2f} | {d:.3f} |")
    return lines


def main() -> None:
    """Measure, print and, if requested, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    warnings.simplefilter("ignore")
    text = "\n".join(
        ["# Repeated rows", "", "Written by `benchmarks/repeated_rows.py`.", "", *diabetes(), "", *settings(), ""]
    )
    print(text)
    if write:
        (RECORDS / "repeated_rows.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
