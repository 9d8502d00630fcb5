"""Run variants of a model on the development sets, and keep their scores in a file."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bdkn.environment import describe_machine
from development_sets import LARGER, SMALL, Rows

RECORDS = Path(__file__).parent / "records"
Scores = dict[str, float]
Found = dict[str, dict[str, list[Scores]]]
"""The scores of every split, by variant and data set."""

Variant = TypeVar("Variant")


def splits(X: np.ndarray, y: np.ndarray, count: int) -> Iterator[tuple[Rows, Rows]]:
    """Return random splits into 85 % training rows and 15 % test rows.

    Targets are in units of their standard deviation in the training rows.
    """
    rng = np.random.default_rng(0)
    for _ in range(count):
        train, test = np.split(rng.permutation(len(y)), [int(0.85 * len(y))])
        unit = float(y[train].std())
        yield (X[train], y[train] / unit), (X[test], y[test] / unit)


def run_variants(
    name: str,
    about: str,
    variants: Mapping[str, Variant],
    scores: Callable[[Variant, np.ndarray, np.ndarray, int], list[Scores]],
    line: Callable[[str, Found], str],
    page: Callable[[dict[str, Any]], str],
) -> None:
    """Run the variants that are not recorded yet, print a line of each and, with ``--write``, write the results.

    ``scores`` are those of a variant, of a data set and of a number of splits.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--larger", action="store_true", help="the larger sets, one split each")
    parser.add_argument("--only", nargs="*", default=list(variants), choices=list(variants))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    group, sets = ("Larger sets", LARGER) if options.larger else ("Small sets", SMALL)
    path = RECORDS / f"{name}.json"
    records = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"scores": {}, "machine": describe_machine()}
    )
    found = records["scores"].setdefault(group, {})
    warnings.simplefilter("ignore")
    for variant in options.only:
        mine = found.setdefault(variant, {})
        for dataset, rows in sets.items():
            if dataset not in mine:
                mine[dataset] = scores(variants[variant], *rows(), 1 if options.larger else 2)
                if options.write:
                    path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        print(line(variant, found), flush=True)
    if options.write:
        path.with_suffix(".md").write_text(page(records), encoding="utf-8")


def page_head(name: str, title: str, about: str, machine: str) -> list[str]:
    """Return the first lines of a page: its title, the command, the last paragraph of ``about``, and the machine."""
    text = about.split("\n\n")[2].replace("\n", " ").strip()
    return [f"# {title}", "", f"`python benchmarks/{name}.py --write`. {text}", "", f"Machine: {machine}"]
