"""How much predictions widen outside of the training rows: variants of the formula, on regions left out.

    pip install -e '.[bench]' -e reproduction
    BDKN_DATA=... python benchmarks/outside.py [--workers N] [--only NAME ...] [--write]

Each set, at most 1000 rows of it, is split by up to four of its columns with more than five different values: the
middle third of the sorted rows is left out (*gap*), or the upper tenth (*tail*). Four *random* splits leave out a
tenth. The sets are development sets, designed experiments, and training rows of the first split of the nine benchmark
sets, whose test rows are not used.

Each split is fitted once, by ``BDKNRegressor(density="student-t", target="identity")``, and its left-out rows are
scored with each variant of the variance that is added. ``--write`` writes the scores to
benchmarks/records/outside.json, after each fit, and the tables to benchmarks/records/outside.md; fits that are in the
file are not run again.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist

import bdkn
from bdkn.inference import Combination, Forecast, Outside
from bdkn.model.extrapolation import Widening, gate
from development_sets import BENCHMARK, DESIGNED, SMALL, training_rows
from recorded_fits import Record, run_missing

RECORDS = Path(__file__).parent / "records"
OPTIONS = {"density": "student-t", "target": "identity", "random_state": 0, "n_jobs": 1}
MOST_ROWS, MOST_COLUMNS, RANDOM_SPLITS = 1000, 4, 4
SETS = {**SMALL, **DESIGNED, **{name: partial(training_rows, name, MOST_ROWS) for name in BENCHMARK}}


@dataclass(frozen=True)
class Parts:
    """What the formula needs of the rows of one fit, with the names of docs/math.md."""

    forecast: Forecast
    combination: Combination
    d: np.ndarray
    w: np.ndarray
    change: np.ndarray
    D: np.ndarray
    G: np.ndarray
    q50: float
    q90: float

    @classmethod
    def of(cls, model: bdkn.BDKNRegressor, X: np.ndarray) -> Parts:
        """Return the parts for new rows."""
        widening, combination, forecast = model.model_.extrapolation, model.combination_, model.model_.forecast(X)
        support = widening.support
        table, Z = support.place(X)
        _, ratio = support.nearest(Z)
        change = np.square(support.columns.beyond(table) * widening.slopes).sum(axis=1)
        spread, G = combination.spread(forecast), squared_changes(widening, Z)
        return cls(forecast, combination, ratio, gate(ratio), change, spread, G, widening.typical, widening.usual)

    def scores(self, variance: np.ndarray, y: np.ndarray) -> dict[str, float]:
        """Return the NLL and the share of rows inside the 90 % intervals if this variance is added."""
        dist = self.combination.predictive(replace(self.forecast, outside=Outside(variance)))
        return {"nll": bdkn.nll(y, dist), "held": bdkn.coverage(y, dist, 0.9)}


def squared_changes(widening: Widening, Z: np.ndarray) -> np.ndarray:
    """Return how much the square of Σ a²z², from the nearest prototype, exceeds what is usual among prototypes."""
    known, new = (rows * widening.slopes for rows in (widening.support.prototypes, Z))
    between = cdist(known, known, "sqeuclidean")
    np.fill_diagonal(between, np.inf)
    usual = np.quantile(between.min(axis=1), 0.9)
    return np.maximum(cdist(new, known, "sqeuclidean").min(axis=1) - usual, 0.0)


def formula(
    p: Parts, near: float = 1.0, far: float = 3.0, beyond: float = 0.1, extreme: float = 10.0, from_: float = 10.0
) -> np.ndarray:
    """Return the variance that is added; the excess counts ``near`` times at training rows, and ``far`` times far away.

    ``beyond`` is the factor c of the change beyond the range of the columns; disagreement above ``from_`` times q₉₀
    counts ``extreme`` times more.
    """
    excess = (near + (far - near) * p.w) * (p.D - p.q90) + extreme * np.maximum(p.D - from_ * p.q90, 0)
    return np.maximum(np.maximum(np.minimum(4 * p.d, 1) * excess, p.w * (p.D - p.q50)), beyond * p.w * p.change)


Variant = Callable[[Parts], np.ndarray]

VARIANTS: dict[str, tuple[str, Variant]] = {
    "no widening": ("Nothing is added.", lambda p: np.zeros_like(p.D)),
    "disagreement alone": (
        "(D − q₅₀)₊: how much the fits disagree about a row, above the median on held-out rows, however far it is.",
        lambda p: np.maximum(p.D - p.q50, 0),
    ),
    "far rows only": (
        "Nothing on rows as near as training rows are to each other; the default without its first term.",
        lambda p: formula(p, near=0, far=0, extreme=0),
    ),
    "no extremes": ("As the default, without the second term of its first part (γ = 0).", partial(formula, extreme=0)),
    "extremes half": ("As the default, with half of that term.", partial(formula, extreme=5)),
    "extremes twice": ("As the default, with twice that term.", partial(formula, extreme=20)),
    "extremes later": ("As the default, with that term from twenty times q₉₀ on.", partial(formula, from_=20)),
    "excess once": (
        "As the default, but D − q₉₀ counts once far away, too (λ = 0).",
        partial(formula, far=1),
    ),
    "excess three times": ("As the default, but D − q₉₀ counts three times near, too.", partial(formula, near=3)),
    "nothing beyond ranges": (
        "As the default, without the change that usual slopes give beyond the range of the columns (c = 0).",
        partial(formula, beyond=0),
    ),
    "half beyond ranges": ("As the default, with half of its constant c (0.05).", partial(formula, beyond=0.05)),
    "double beyond ranges": ("As the default, with twice its constant c (0.2).", partial(formula, beyond=0.2)),
    "or .01 of changes": (
        "The default, or c G if that is larger, with c = .01 and G the squared change that usual slopes give from the "
        "nearest training row, above the 90 % quantile of the same among training rows.",
        lambda p: np.maximum(formula(p), 0.01 * p.G),
    ),
    "or .1 of changes": ("The same with c = .1.", lambda p: np.maximum(formula(p), 0.1 * p.G)),
    "default": (
        "The largest of min(4d, 1) {(1 + 2w) (D − q₉₀)₊ + 10 (D − 10 q₉₀)₊}, w (D − q₅₀)₊ and 0.1 w Σ a²B²: "
        "disagreement that is unusual counts once near training rows and three times far away, and what is more than "
        "ten times the usual ten times more; far away any above the median counts; and what lies beyond the range of "
        "the columns counts by its distance.",
        formula,
    ),
}
"""By name: what a variant is, and its variance."""

KINDS = {"gap": "Gaps", "tail": "Tails", "random": "Random splits", "": "All splits"}

COLUMNS = """\
NLL: less that of no widening, with targets in units of their standard deviation; means over the fits of a set, then
over sets, and the set with the largest. % held: rows inside the 90 % intervals, and the set with the smallest share."""


def sets(only: list[str]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the name, inputs and target of each set."""
    for name, load in SETS.items():
        if not only or name in only:
            yield name, *load()


def splits(X: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each split and the numbers of the rows left out."""
    n = len(X)
    columns = [j for j in range(X.shape[1]) if len(np.unique(X[:, j])) > 5]
    for j in np.random.default_rng(1).permutation(columns)[:MOST_COLUMNS]:
        order = np.argsort(X[:, int(j)], kind="stable")
        yield f"gap {j:.0f}", order[n // 3 : 2 * n // 3]
        yield f"tail {j:.0f}", order[n - n // 10 :]
    for k in range(RANDOM_SPLITS):
        yield f"random {k}", np.random.default_rng(10 + k).permutation(n)[: n // 10]


def fits(only: list[str]) -> Iterator[tuple[str, tuple]]:
    """Yield the name of each fit and the arguments of ``fit``."""
    for name, X, y in sets(only):
        some = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
        for split, held_out in splits(X[some]):
            yield f"{name}, {split}", (name, split, X[some], y[some], held_out)


def fit(name: str, split: str, X: np.ndarray, y: np.ndarray, held_out: np.ndarray) -> Record:
    """Return the scores of all variants on the rows left out, with targets in scaled units."""
    warnings.simplefilter("ignore")
    model = bdkn.BDKNRegressor(**OPTIONS).fit(np.delete(X, held_out, axis=0), np.delete(y, held_out))
    parts, target = Parts.of(model, X[held_out]), model.target_scaler_.transform(y[held_out])
    own = model.model_.predict(X[held_out]).forecast.outside.variance
    np.testing.assert_allclose(
        formula(parts), own, err_msg="the default is not the formula of bdkn.model.extrapolation"
    )
    found = {variant: parts.scores(variance(parts), target) for variant, (_, variance) in VARIANTS.items()}
    return {"set": name, "kind": split.split()[0], "rows": len(y) - len(held_out), **found}


def row(records: list[Record], variant: str) -> str:
    """Return the line of a variant: means over the fits of a set, then over sets, and the worst sets."""
    found: dict[str, list[tuple[float, float]]] = {}
    for one in records:
        scores = one[variant]["nll"] - one["no widening"]["nll"], one[variant]["held"]
        found.setdefault(one["set"], []).append(scores)
    names, mean = list(found), np.array([np.mean(scores, axis=0) for scores in found.values()])
    worst, least = np.argmax(mean[:, 0]), np.argmin(mean[:, 1])
    cells = [f"{mean[:, 0].mean():+.3f}", f"{mean[worst, 0]:+.3f} ({names[worst]})" if mean[:, 0].any() else ""]
    cells += [f"{100 * mean[:, 1].mean():.1f}", f"{100 * mean[least, 1]:.0f} ({names[least]})"]
    return f"| {variant} | " + " | ".join(cells) + " |"


def page(records: list[Record]) -> str:
    """Return the variants in words, and one table for each kind of split."""
    head, _, *about = (__doc__ or "").strip().split("\n\n")
    lines = [f"# {head.rstrip('.')}", "", "\n\n".join(about), "", "| variant | what is added to the squared scale |"]
    lines += ["| --- | --- |", *(f"| {name} | {words} |" for name, (words, _) in VARIANTS.items()), ""]
    lines += [COLUMNS]
    for kind, title in KINDS.items():
        of = [record for record in records if record["kind"].startswith(kind)]
        if of:
            lines += ["", f"## {title}: {len(of)} fits of {len({record['set'] for record in of})} sets", ""]
            lines += ["| variant | NLL | worst set | % held | worst set |", "| --- | ---: | ---: | ---: | ---: |"]
            lines += [row(of, variant) for variant in VARIANTS]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    path = RECORDS / "outside.json"
    records = run_missing(path, fits(given.only), fit, given.workers, write=given.write)
    text = page(list(records.values()))
    print(text)
    if given.write:
        path.with_suffix(".md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
