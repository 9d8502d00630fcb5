"""Choose how much predictions widen outside of the training rows, on regions left out of sets of no benchmark.

    pip install -e '.[bench]'
    python benchmarks/outside.py fit FOLDER [--only NAME ...]
    python benchmarks/outside.py table FOLDER [--write]

Each set, at most 800 rows of it, is split by up to three of its columns with more than five different values: the
middle third of the sorted rows is left out (*gap*), or the upper tenth (*tail*); two *random* splits leave out a tenth.
``fit`` writes one file per fit to FOLDER: predictions without widening, and what the variants are computed from; files
that are there already are not computed again. ``table`` compares the variants: the NLL less that of no widening, with
targets in units of their standard deviation, averaged over the splits of a set and then over sets, the share of rows
inside the 90 % intervals, and that share on the worst set. ``--write`` writes it to results/outside.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import t as student

import bdkn
from development_sets import DESIGNED, LARGER, SMALL, Rows

PAGE = Path(__file__).parent.parent / "results" / "outside.md"
OTHERS = {**SMALL, **{name: LARGER[name] for name in ("computers", "arm", "diamonds")}}
MOST_ROWS, MOST_COLUMNS = 800, 3

Fit = Mapping[str, np.ndarray]
"""loc, scale and df without widening; y; spread; ratio; change beyond the range of columns; quantiles of held_out."""


def splits(X: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the names of the splits, their training and their test rows."""
    n = len(X)
    columns = [j for j in range(X.shape[1]) if len(np.unique(X[:, j])) > 5]
    for j in rng.permutation(columns)[:MOST_COLUMNS]:
        order = np.argsort(X[:, j], kind="stable")
        yield f"gap {j}", np.r_[order[: n // 3], order[2 * n // 3 :]], order[n // 3 : 2 * n // 3]
        yield f"tail {j}", order[: n - n // 10], order[n - n // 10 :]
    for k in range(2):
        order = rng.permutation(n)
        yield f"random {k}", order[: n - n // 10], order[n - n // 10 :]


def fit(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> Fit:
    """Return the predictions of one fit, in scaled units, and what variants are computed from."""
    model = bdkn.BDKNRegressor(random_state=0).fit(X[train], y[train])
    combined = model.fitted_.combined
    widening, held_out, forecast = combined.widening, combined.held_out, model._forecast(X[test])
    dist, nearest = combined.combination.predictive(forecast), widening.support.nearest(X[test])
    spread = combined.combination.spread(replace(held_out.forecast(), fold_variance=held_out.fold_variance))
    return {
        "loc": dist.loc,
        "scale": dist.scale,
        "df": np.broadcast_to(dist.df, dist.loc.shape),
        "y": combined.targets.transform(y[test]),
        "spread": combined.combination.spread(forecast),
        "ratio": nearest.ratio,
        "change": np.square(widening.support.columns.beyond(nearest.table) * widening.slopes).sum(axis=1),
        "held_out": np.quantile(spread, [0.5, 0.9, 0.95]),
    }


def fit_all(folder: Path, only: list[str]) -> None:
    """Fit to every split that has no file yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, load in {**DESIGNED, **OTHERS}.items():
        if name in only:
            rng = np.random.default_rng(7)
            X, y = take(load(), rng)
            for split, train, test in splits(X, rng):
                path = folder / f"{name}, {split}.npz"
                if not path.exists():
                    np.savez(path, **fit(X, y, train, test))
                    print(path.stem, flush=True)


def take(rows: Rows, rng: np.random.Generator) -> Rows:
    """Return at most MOST_ROWS rows."""
    some = rng.permutation(len(rows[1]))[:MOST_ROWS]
    return rows[0][some], rows[1][some]


def excess(f: Fit, level: int, factor: float) -> np.ndarray:
    """Return the disagreement in excess of a quantile on held-out rows; zero on training rows."""
    return factor * np.minimum(4 * f["ratio"], 1) * np.maximum(f["spread"] - f["held_out"][level], 0)


def gated(f: Fit) -> np.ndarray:
    """Return the disagreement of rows far away."""
    return np.clip(f["ratio"] - 1, 0, 1) * np.maximum(f["spread"] - f["held_out"][0], 0)


def beyond(f: Fit, factor: float) -> np.ndarray:
    """Return the squared change beyond the range of the columns."""
    return factor * np.clip(f["ratio"] - 1, 0, 1) * f["change"]


def either(f: Fit, factor: float, c: float) -> np.ndarray:
    """Return the variance of the default, with other factors."""
    return np.maximum(np.maximum(excess(f, 1, factor), gated(f)), beyond(f, c))


VARIANTS: dict[str, Callable[[Fit], np.ndarray]] = {
    "nothing": lambda f: np.zeros_like(f["loc"]),
    "excess over the median": lambda f: excess(f, 0, 1.0),
    "excess over the 90 % quantile": lambda f: excess(f, 1, 1.0),
    "… twice": lambda f: excess(f, 1, 2.0),
    "… four times": lambda f: excess(f, 1, 4.0),
    "disagreement of rows far away": gated,
    "three times the excess, or disagreement far away": lambda f: either(f, 3.0, 0.0),
    "… or .03 of the change beyond": lambda f: either(f, 3.0, 0.03),
    "**… or .1 of it (default)**": lambda f: either(f, 3.0, 0.1),
    "… or .3 of it": lambda f: either(f, 3.0, 0.3),
    "excess once, far away, .1 beyond": lambda f: either(f, 1.0, 0.1),
    "excess four times, far away, .1 beyond": lambda f: either(f, 4.0, 0.1),
}


def score(f: Fit, variance: np.ndarray) -> tuple[float, float]:
    """Return the NLL and the share of rows inside the 90 % intervals."""
    scale = np.hypot(f["scale"], np.sqrt(variance))
    z = (f["y"] - f["loc"]) / scale
    held = np.abs(z) <= student.ppf(0.95, f["df"])
    return float(np.mean(np.log(scale) - student.logpdf(z, f["df"]))), float(held.mean())


def cells(fits: Mapping[str, Fit], kind: str, variant: Callable[[Fit], np.ndarray]) -> str:
    """Return mean difference of NLL, mean share and smallest share over sets."""
    found: dict[str, list[tuple[float, float]]] = {}
    for stem, f in fits.items():
        name, split = stem.rsplit(", ", 1)
        if split.startswith(kind):
            nll, held = score(f, variant(f))
            found.setdefault(name, []).append((nll - score(f, VARIANTS["nothing"](f))[0], held))
    mean = np.array([np.mean(values, axis=0) for values in found.values()])
    return f"{mean[:, 0].mean():+.3f} | {100 * mean[:, 1].mean():.0f} | {100 * mean[:, 1].min():.0f}"


def page(folder: Path) -> str:
    """Return the tables."""
    fits = {path.stem: dict(np.load(path)) for path in sorted(folder.glob("*.npz"))}
    groups = {"Designed experiments": DESIGNED, "Other sets": OTHERS}
    head = "| added to the squared scale | " + " | ".join(f"{kind}: NLL | % held | least" for kind in KINDS) + " |"
    lines = ["# How much predictions widen outside of the training rows", "", (__doc__ or "").split("\n\n")[2]]
    for title, names in groups.items():
        ours = {stem: f for stem, f in fits.items() if stem.rsplit(", ", 1)[0] in names}
        if ours:
            lines += ["", f"## {title}, {len(ours)} fits", "", head, "| --- |" + " ---: |" * 9]
            lines += [
                f"| {name} | " + " | ".join(cells(ours, kind, variant) for kind in KINDS) + " |"
                for name, variant in VARIANTS.items()
            ]
    return "\n".join(lines) + "\n"


KINDS = ("gap", "tail", "random")


def main() -> None:
    """Read the command line."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("fit", "table"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[*DESIGNED, *OTHERS])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.verb == "fit":
        fit_all(options.folder, options.only)
        return
    text = page(options.folder)
    print(text)
    if options.write:
        PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
