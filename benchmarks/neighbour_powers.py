"""What neighbours say, weighted by what the Student-t finds likely: powers of its density, compared.

    pip install -e '.[bench]' -e reproduction
    BDKN_DATA=... python benchmarks/neighbour_powers.py [--workers N] [--only NAME ...] [--write]

Each set, at most 10 000 rows of it, is fitted once by ``BDKNRegressor`` and once by ``BayesianStackingRegressor`` with
``density="student-t"``, a fifth of its rows held back. For the same fit the shape of predictions is learned with each
variant of the kinds of components (``bdkn.model.density.KINDS``), as in benchmarks/density.py. The sets are
development sets in which the mixture is chosen, and training rows of the first split of benchmark sets, whose test
rows are not used.

``--write`` writes the scores to benchmarks/records/neighbour_powers.json, after each fit, and the tables to
benchmarks/records/neighbour_powers.md; fits that are in the file are not run again.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from bdkn import BayesianStackingRegressor, BDKNRegressor
from bdkn.model import density as module
from bdkn.model.density import KINDS, Kind
from density import divide, scores, with_shape
from development_sets import LARGER, SMALL, training_rows
from recorded_fits import Record, run_missing

RECORDS = Path(__file__).parent / "records"
OPTIONS = {"density": "student-t", "random_state": 0, "n_jobs": 1}
MOST_ROWS = 10_000
DEVELOPMENT = ("Saratoga", "computers", "diamonds", "biomass", "Auto", "College")
TRAINING = ("power", "protein", "concrete", "energy", "boston")
SETS = {
    **{name: (SMALL | LARGER)[name] for name in DEVELOPMENT},
    **{name: partial(training_rows, name, MOST_ROWS) for name in TRAINING},
}
SCORES = ("nll", "crps", "rmse")
MEANING = """\
Differences to the Student-t alone, of CRPS and RMSE those of their logarithms; means over all fits, ± standard error.
% in 50 % and 90 %: rows inside these intervals. Mixtures: fits in which the mixture was chosen."""
REGRESSORS = {"BDKN": BDKNRegressor, "stack": BayesianStackingRegressor}


def with_powers(leaves: float, broad: float) -> tuple[Kind, ...]:
    """Return the kinds with these powers for targets in leaves and in broad nodes."""
    return tuple(kind if kind.of_errors else kind._replace(power=broad if kind.is_broad else leaves) for kind in KINDS)


VARIANTS = {
    "no power": with_powers(0.0, 0.0),
    "0.3": with_powers(0.3, 0.3),
    "0.5": with_powers(0.5, 0.5),
    "0.7": with_powers(0.7, 0.7),
    "0.3 in leaves, 1 in broad nodes (default)": with_powers(0.3, 1.0),
    "these beside those without power": with_powers(0.3, 1.0)
    + tuple(kind for kind in with_powers(0.0, 0.0) if not kind.of_errors),
}


def sets(only: list[str]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the name, inputs and target of each set."""
    for name, load in SETS.items():
        if not only or name in only:
            yield name, *load()


def fits(only: list[str]) -> Iterator[tuple[str, tuple]]:
    """Yield the name of each fit and the arguments of ``fit``."""
    for name, X, y in sets(only):
        for regressor in REGRESSORS:
            yield f"{name}, {regressor}", (regressor, X[:MOST_ROWS], y[:MOST_ROWS])


def fit(regressor: str, X: np.ndarray, y: np.ndarray) -> Record:
    """Return the scores of the Student-t and of the mixtures of all variants on the rows held back."""
    warnings.simplefilter("ignore")
    train, test = divide(len(y), 0)
    alone = REGRESSORS[regressor](**OPTIONS).fit(X[train], y[train])
    found: Record = {"rows": len(train), "student-t": scores(alone.predict_dist(X[test]), y[test])}
    for variant, kinds in VARIANTS.items():
        with patch.object(module, "KINDS", kinds):
            mixed = with_shape(alone, X[train], y[train])
        found[variant] = {"shape": mixed.density_ is not None, **scores(mixed.predict_dist(X[test]), y[test])}
    return found


def difference(record: Record, variant: str, score: str) -> float:
    """Return the difference of a variant to the Student-t; of CRPS and RMSE, that of their logarithms."""
    ours, others = record[variant][score], record["student-t"][score]
    return ours - others if score == "nll" else float(np.log(ours / others))


def row(records: list[Record], variant: str) -> str:
    """Return the line of a variant: means over fits, the standard error of the first, and shares held."""
    nll, crps, rmse = ([difference(one, variant, score) for one in records] for score in SCORES)
    more = np.subtract(nll, [difference(one, "no power", "nll") for one in records])
    error = more.std(ddof=1) / np.sqrt(len(more)) if len(more) > 1 else np.nan
    held = [100 * np.mean([one[variant][f"held {level}"] for one in records]) for level in ("0.5", "0.9")]
    chosen = sum(one[variant]["shape"] for one in records)
    cells = [f"{np.mean(nll):+.3f}", f"{more.mean():+.3f} ± {error:.3f}", f"{np.mean(crps):+.1%}"]
    cells += [f"{np.mean(rmse):+.1%}", *(f"{share:.1f}" for share in held), f"{chosen}"]
    return f"| {variant} | " + " | ".join(cells) + " |"


def page(records: dict[str, Record]) -> str:
    """Return the means over fits, and the scores of each fit."""
    head, _, *about = (__doc__ or "").strip().split("\n\n")
    columns = ["NLL", "less that of no power", "CRPS", "RMSE", "% in 50 %", "% in 90 %", "mixtures"]
    lines = [f"# {head.rstrip('.')}", "", "\n\n".join(about), "", MEANING, "", f"| power | {' | '.join(columns)} |"]
    lines += ["| --- |" + " ---: |" * len(columns), *(row(list(records.values()), variant) for variant in VARIANTS)]
    lines += ["", "NLL, CRPS and RMSE of each fit:", "", "| fit | rows | student-t | " + " | ".join(VARIANTS) + " |"]
    lines += ["| --- |" + " ---: |" * (2 + len(VARIANTS))]
    for name, one in records.items():
        cells = [" ".join(f"{one[of][score]:.4g}" for score in SCORES) for of in ("student-t", *VARIANTS)]
        lines.append(f"| {name} | {one['rows']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    path = RECORDS / "neighbour_powers.json"
    records = run_missing(path, fits(given.only), fit, given.workers, write=given.write)
    text = page(records)
    print(text)
    if given.write:
        path.with_suffix(".md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
