"""How long fits of the defaults take, beside NGBoost's, on the training rows of each data set's first split.

    pip install -e 'reproduction[peers]'
    BDKN_DATA=folder python reproduction/benchmarks/fit_cost.py [--sets NAME ...] [--rounds 3] [--stack] [--write]

The contenders take turns; ``--rounds`` times each where a round is short, once where a fit takes a minute. Wall time,
which other work on the machine spoils: the shortest is given, and all are kept. ``--write`` keeps them in
reproduction/results/fit_cost.json, where sets not run this time stay, and the table in
reproduction/results/fit_cost.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bdkn
from bdkn.report.environment import describe_machine
from bdkn_paper import data
from bdkn_paper.peers.boosting import NGBoost

RESULTS = Path(__file__).parent.parent / "results"
SETS = ("yacht", "boston", "energy", "concrete", "wine", "kin8nm", "power", "naval", "protein", "sarcos-clean")
LONG_S = 60.0


def contenders(stack: bool) -> dict[str, Callable[[], Any]]:
    """What to fit, by name."""
    found: dict[str, Callable[[], Any]] = {
        "BDKNRegressor()": lambda: bdkn.BDKNRegressor(random_state=0),
        "NGBoost, default": lambda: NGBoost(random_state=0),
    }
    return found | ({"BayesianStackingRegressor()": bdkn.BayesianStackingRegressor} if stack else {})


def seconds(name: str, rounds: int, stack: bool) -> dict[str, list[float]]:
    """Wall times of fits to a set, by contender."""
    table, first = data.load_dataset(name), data.split(name, 0)
    X, y = table.X[first.train], table.y[first.train]
    taken: dict[str, list[float]] = {}
    for _ in range(rounds):
        for method, make in contenders(stack).items():
            if min(taken.get(method, [0.0])) > LONG_S:
                continue
            model, began = make(), time.perf_counter()
            model.fit(X, y)
            taken.setdefault(method, []).append(time.perf_counter() - began)
            print(f"{name}: {method} {taken[method][-1]:.2f} s", flush=True)
    return taken


def table(record: dict[str, Any]) -> str:
    """The results as Markdown."""
    methods = list(dict.fromkeys(method for times in record["seconds"].values() for method in times))
    lines = [f"Machine: {record['machine']}. Seconds, the shortest of the fits met.", ""]
    lines += ["| data set | " + " | ".join(methods) + " | NGBoost / BDKN |", "| --- |" + " ---: |" * (len(methods) + 1)]
    for name, times in record["seconds"].items():
        best = {method: min(taken) for method, taken in times.items()}
        ratio = best["NGBoost, default"] / best["BDKNRegressor()"]
        cells = [f"{best[m]:.2f}" if m in best else "–" for m in methods]
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stack", action="store_true", help="time the stack as well")
    parser.add_argument("--write", action="store_true", help="keep the table in results/")
    arguments = parser.parse_args()
    bdkn.BDKNRegressor(epochs=1, n_members=2).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 4.0])  # compiles
    path = RESULTS / "fit_cost.json"
    kept = json.loads(path.read_text())["seconds"] if path.exists() else {}
    for name in arguments.sets:
        kept[name] = kept.get(name, {}) | seconds(name, arguments.rounds, arguments.stack)
        record = {"machine": describe_machine(), "seconds": {known: kept[known] for known in SETS if known in kept}}
        if arguments.write:
            path.write_text(json.dumps(record, indent=1) + "\n")
            heading = "# What a fit costs\n\n`python reproduction/benchmarks/fit_cost.py --write`\n\n"
            (RESULTS / "fit_cost.md").write_text(heading + table(record))
    print(table(record))


if __name__ == "__main__":
    main()
