"""All rivals as members: their Bayesian stack, each of them alone, and a greedy weighted ensemble, on the same fits.

    BDKN_RIVALS=folder BDKN_DATA=folder python reproduction/benchmarks/rivals_as_members.py [--sets NAME ...]
        [--splits 5] [--rivals NAME ...] [--write]

Every rival is fitted once per fold, in its own environment (``reproduction/rivals``). The stack and the ensemble learn
from the same held-out predictions and combine the same fits, so that they differ only in their weights and their
noise. The ensemble is that of Caruana et al. (2004), which AutoGluon and others use: from none, the member that lowers
the squared error most is added fifty times, the same one again if that is best; weights are its shares. Like a rival
alone, it predicts a Gaussian with the standard deviation of its held-out errors. ``--write`` writes each result to
reproduction/results/rivals_as_members.json when it is there; what was run before stays and is not run again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bdkn
from bdkn.predictive import Gaussian, Predictive
from bdkn_paper import data
from bdkn_paper.experiments.evaluate import metrics
from bdkn_paper.rivals import RIVALS, Rival

RESULT = Path(__file__).parent.parent / "results" / "rivals_as_members.json"
SETS = ("yacht", "boston", "energy", "concrete", "wine", "power", "kin8nm", "naval", "protein")
_ROUNDS = 50


def greedy_weights(means: np.ndarray, y: np.ndarray, rounds: int = _ROUNDS) -> np.ndarray:
    """Return the weights of greedy ensemble selection with replacement, by squared error."""
    counts, total = np.zeros(means.shape[1]), np.zeros(len(y))
    for chosen in range(1, rounds + 1):
        errors = np.mean(((total[:, None] + means) / chosen - y[:, None]) ** 2, axis=0)
        best = int(np.argmin(errors))
        counts[best] += 1
        total += means[:, best]
    return counts / rounds


def contenders(stack: Any, X: np.ndarray, y: np.ndarray) -> dict[str, Predictive]:
    """Return the predictions of the stack, of the greedy ensemble and of each member, from a stack of all members."""
    held, targets = stack.held_out_, stack.target_scaler_
    means = targets.mean + targets.scale * held.means
    weights = greedy_weights(means, y)
    predicted = np.column_stack([member.predict(X)[0] for member in stack.members_])

    def gaussian(shares: np.ndarray) -> Gaussian:
        spread = float(np.sqrt(np.mean((means @ shares - y) ** 2)))
        return Gaussian(predicted @ shares, np.full(len(X), spread))

    alone = {name: gaussian(share) for name, share in zip(stack.member_names_, np.eye(len(weights)), strict=True)}
    return {"stack": stack.predict_dist(X), "greedy ensemble": gaussian(weights), **alone}


def run(name: str, split: int, rivals: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the metrics of all contenders on a split."""
    table, part = data.load_dataset(name), data.split(name, split)
    X, y = table.X[part.train], table.y[part.train]
    members = [(rival, Rival(rival=rival, random_state=split)) for rival in rivals]
    stack = bdkn.BayesianStackingRegressor(
        members, random_state=split, combination=bdkn.CombinationOptions(select_members=False)
    ).fit(X, y)
    found = contenders(stack, table.X[part.test], y)
    return {title: metrics(table.y[part.test], dist) for title, dist in found.items()}


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--rivals", nargs="*", default=list(RIVALS))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    records = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for name in arguments.sets:
        for split in range(arguments.splits):
            key = f"{name} {split} {' '.join(arguments.rivals)}"
            records[key] = records.get(key) or run(name, split, arguments.rivals)
            print(name, split, {title: round(each["nll"], 3) for title, each in records[key].items()}, flush=True)
            if arguments.write:
                RESULT.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
