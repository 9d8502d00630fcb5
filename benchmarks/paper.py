"""The paper's protocol on its own splits: BDKN and the deep ensemble on Boston, Energy and Yacht, both settings.

    BDKN_DATA=folder python benchmarks/paper.py [--write]

Each cell is the mean over the 20 customary splits beside the number the paper prints, and their difference in combined
standard errors. ``--write`` keeps all splits in results/paper_core.json and the table in results/paper_core.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bdkn import BDKNRegressor, DeepEnsembleRegressor
from bdkn.metrics import nll, rmse
from machine import describe_machine

SPLITS = 20
METHODS = {"BDKN": BDKNRegressor, "DE": DeepEnsembleRegressor}
RESULTS = Path(__file__).parent.parent / "results"

# Mean and standard deviation of RMSE, then of NLL, as printed in the tables of settings 1 and 2 of "Efficient Bayesian
# Deep Ensembles via Analytic Predictive Inference".
PAPER = {
    ("BDKN", 1, "boston"): ((3.03, 0.78), (2.61, 0.42)),
    ("BDKN", 1, "energy"): ((1.38, 0.33), (1.73, 0.24)),
    ("BDKN", 1, "yacht"): ((0.82, 0.38), (1.23, 0.55)),
    ("BDKN", 2, "boston"): ((3.01, 0.78), (2.81, 0.62)),
    ("BDKN", 2, "energy"): ((0.76, 0.21), (1.17, 0.3)),
    ("BDKN", 2, "yacht"): ((0.85, 0.38), (1.48, 0.84)),
    ("DE", 1, "boston"): ((3.6, 1.76), (3.03, 0.79)),
    ("DE", 1, "energy"): ((2.54, 1.11), (2.79, 0.6)),
    ("DE", 1, "yacht"): ((1.68, 1.06), (2.1, 0.73)),
    ("DE", 2, "boston"): ((2.99, 0.85), (2.52, 0.37)),
    ("DE", 2, "energy"): ((1.42, 0.29), (1.71, 1.74)),
    ("DE", 2, "yacht"): ((1.17, 0.44), (-0.2, 0.26)),
}


def load(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return inputs and targets of a data set in the folder BDKN_DATA."""
    folder = os.environ.get("BDKN_DATA")
    if not folder:
        sys.exit("set BDKN_DATA to the folder that holds boston.csv.gz, energy.csv.gz and yacht.csv.gz")
    with gzip.open(Path(folder) / f"{name}.csv.gz", "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1]


def splits(n: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return the customary splits: one generator draws a permutation for each in turn."""
    rng, cut = np.random.RandomState(1), round(0.9 * n)
    orders = [rng.choice(range(n), n, replace=False) for _ in range(SPLITS)]
    return [(order[:cut], order[cut:]) for order in orders]


def cell(method: str, setting: int, dataset: str) -> dict[str, object]:
    """Run all splits of one cell."""
    X, y = load(dataset)
    errors, scores, began = [], [], time.perf_counter()
    for split, (train, test) in enumerate(splits(len(y))):
        model = METHODS[method].from_paper(setting, random_state=split).fit(X[train], y[train])
        predictive = model.predict_dist(X[test])
        errors.append(float(rmse(y[test], predictive)))
        scores.append(float(nll(y[test], predictive)))
    minutes = (time.perf_counter() - began) / 60
    return {"method": method, "setting": setting, "dataset": dataset, "rmse": errors, "nll": scores, "minutes": minutes}


def line(record: dict[str, object]) -> str:
    """Return one cell beside the paper's."""
    key = (record["method"], record["setting"], record["dataset"])
    parts = [f"| {key[0]} | {key[1]} | {key[2]} "]
    for name, (mean, std) in zip(("rmse", "nll"), PAPER[key], strict=True):  # type: ignore[index]
        values = np.array(record[name])
        error = math.sqrt((values.var(ddof=1) + std**2) / SPLITS)
        parts.append(f"| {values.mean():.2f} ± {values.std(ddof=1):.2f} | {mean:.2f} ± {std:.2f} ")
        parts.append(f"| {(values.mean() - mean) / error:+.1f} ")
    return "".join(parts) + f"| {record['minutes']:.2f} |"


HEADER = """| method | setting | set | RMSE | paper | difference, s.e. | NLL | paper | difference, s.e. | minutes |
| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


def main() -> None:
    """Run, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the records in results/")
    write = parser.parse_args().write
    print(HEADER)
    records = []
    for key in PAPER:
        records.append(cell(*key))
        print(line(records[-1]), flush=True)
    if write:
        document = {"machine": describe_machine(), "splits": SPLITS, "cells": records}
        (RESULTS / "paper_core.json").write_text(json.dumps(document, indent=1) + "\n")
        text = "\n".join([HEADER, *map(line, records)])
        (RESULTS / "paper_core.md").write_text(
            "# The paper's protocol, 20 splits\n\n`python benchmarks/paper.py --write`\n\n"
            f"Machine: {describe_machine()}\n\n{text}\n"
        )


if __name__ == "__main__":
    main()
