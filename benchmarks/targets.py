"""Transformed targets and values: positive, count, share, zero-inflated and rated targets, before and after.

    python benchmarks/targets.py --write

Each problem is fitted with ``target="identity"`` (before) and ``target="auto"`` (after). Reported on new rows: NLL and
CRPS of the density, the share of 90 % intervals that hold the target (of the density, and of ``predict_interval``), the
share of intervals with an end beyond the target's bounds, and the mean log probability of the values. The last column
compares the quick score that chooses the link with the leave-one-out score of the full fits, both in nats per row.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bdkn import BDKNRegressor
from bdkn.metrics import coverage, crps, nll
from bdkn.model.target_choice import link_scores
from bdkn.predictive.links import IDENTITY
from development_sets import SMALL

RECORD = Path(__file__).parent / "records" / "targets.md"
Rows = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def rated(rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
    """Return ratings from 0 to 10, most of them 5."""
    some = np.clip(np.round(5 + 2 * f + 2 * rng.normal(size=len(f))), 0, 10)
    return np.where(rng.random(len(f)) < 0.55, 5.0, some)


def share(rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
    """Return shares between 0 and 1."""
    return 1 / (1 + np.exp(-f - 0.5 * rng.normal(size=len(f))))


def zero_inflated(rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
    """Return amounts, of which half are zero."""
    amounts = np.exp(1 + f + 0.4 * rng.normal(size=len(f)))
    return np.where(rng.random(len(f)) < 1 / (1 + np.exp(-2 * f)), 0.0, amounts)


DRAWS: dict[str, tuple[Draw, tuple[float, float]]] = {
    "normal": (lambda rng, f: f + 0.3 * rng.normal(size=len(f)), (-np.inf, np.inf)),
    "prices": (lambda rng, f: np.exp(3 + f + 0.3 * rng.normal(size=len(f))), (0.0, np.inf)),
    "counts": (lambda rng, f: rng.poisson(np.exp(0.5 + 0.7 * f)).astype(float), (0.0, np.inf)),
    "large counts": (lambda rng, f: rng.poisson(np.exp(4 + 0.7 * f)).astype(float), (0.0, np.inf)),
    "shares": (share, (0.0, 1.0)),
    "clipped shares": (lambda rng, f: np.clip(0.5 + 0.35 * f + 0.1 * rng.normal(size=len(f)), 0, 1), (0.0, 1.0)),
    "zero-inflated": (zero_inflated, (0.0, np.inf)),
    "ratings": (rated, (0.0, 10.0)),
}
DEVELOPMENT = {"diabetes": (0.0, np.inf), "borehole": (0.0, np.inf), "piston": (0.0, np.inf)}


def drawn(draw: Draw, n: int = 2000) -> Rows:
    """Return rows of a problem with four inputs."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 4))
    return X, draw(rng, np.sin(X[:, 0]) + 0.6 * X[:, 1])


def leave_one_out(model: BDKNRegressor) -> float:
    """Return the leave-one-out score in the units of the target."""
    slopes = model.target_scaler_.log_derivative(model.held_out_.y)
    return model.combination_.score + float(slopes.mean())


def quick_gain(X: np.ndarray, y: np.ndarray, model: BDKNRegressor) -> float:
    """Return by how much the quick score of the chosen link exceeds that of the identity."""
    scores = link_scores(X, y, [IDENTITY, model.link_])
    return float((scores[1] - scores[0]).mean())


def line(name: str, rows: Rows, bounds: tuple[float, float], n: int) -> list[str]:
    """Return the lines of the record about a problem, whose first ``n`` rows are trained on."""
    (X, y), (new, observed), lines, scores = (rows[0][:n], rows[1][:n]), (rows[0][n:], rows[1][n:]), [], []
    for target in ("identity", "auto"):
        model = BDKNRegressor(target=target, n_members=4, cv=4, epochs=150, n_jobs=1, random_state=0).fit(X, y)
        dist, ends = model.predict_dist(new), model.predict_interval(new)
        inside = np.mean((ends[:, 0] <= observed) & (observed <= ends[:, 1]))
        lower, upper = dist.interval(0.9)
        beyond = np.mean((lower < bounds[0]) | (upper > bounds[1]))
        link = type(getattr(model.link_, "link", model.link_)).__name__.removesuffix("Link")
        values = "" if model.target_values_ is None else f"{model.value_log_score(new, observed):.3f}"
        scores.append(leave_one_out(model))
        gain = "" if target == "identity" else f"{quick_gain(X, y, model):+.3f} / {scores[1] - scores[0]:+.3f}"
        held = f"{100 * coverage(observed, dist):.0f} | {100 * inside:.0f} | {100 * beyond:.0f}"
        numbers = f"{nll(observed, dist):.3f} | {crps(observed, dist):.4g} | {held}"
        lines.append(f"| {name} | {target}: {link} | {numbers} | {values} | {gain} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Run all problems; with --write, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {RECORD.name}")
    write = parser.parse_args().write
    lines = [one for name, (draw, bounds) in DRAWS.items() for one in line(name, drawn(draw), bounds, 600)]
    for name, bounds in DEVELOPMENT.items():
        X, y = SMALL[name]()
        lines += line(name, (X, y), bounds, 2 * len(y) // 3)
    if write:
        head = (
            "`python benchmarks/targets.py --write`: four members; 600 rows, or two thirds of a development set.\n\n"
            "| targets | link | NLL | CRPS | held by 90 %, density | held by `predict_interval` | beyond bounds, % "
            "| log probability of values | gain: quick / full |\n"
            "| :-- | :-- | --: | --: | --: | --: | --: | --: | --: |\n"
        )
        RECORD.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
