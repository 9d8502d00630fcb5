"""What a fit of the defaults costs beside boosted trees, by the clock and in seconds of the processor.

    pip install -e 'reproduction[peers]'
    BDKN_DATA=folder python reproduction/benchmarks/fit_cost.py [--sets NAME ...] [--methods NAME ...] [--rounds 3]
        [--threads 1] [--write]

On the training rows of each data set's first split, with ``--threads`` threads each. The methods take turns, so that a
busy minute hits all of them; ``--rounds`` times each where a fit is short, once where it takes a minute. The shortest
is given, and all are kept. The NLL on the split's test rows stands beside it: it is one split, and no comparison of
methods. HistGradientBoosting predicts no distribution. ``--write`` keeps the seconds in
reproduction/results/fit_cost.json, where sets not run this time stay, and the tables in
reproduction/results/fit_cost.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results"
SETS = ("yacht", "boston", "energy", "concrete", "wine", "kin8nm", "power", "naval", "protein", "sarcos-clean")
LONG_S = 60.0

Figures = dict[str, list[float]]
"""Of the fits of a method: ``clock`` and ``cpu`` seconds, and the ``nll`` of the test rows."""


def contenders(threads: int) -> dict[str, Callable[[], Any]]:
    """Return what to fit, by name."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    import bdkn
    from bdkn_paper.peers import PEERS

    common: dict[str, Any] = {"random_state": 0, "n_jobs": threads}
    return {
        "BDKN": lambda: bdkn.BDKNRegressor(**common),
        "BDKN, fast": lambda: bdkn.BDKNRegressor(effort="fast", **common),
        "BDKN, fast, Student-t": lambda: bdkn.BDKNRegressor(effort="fast", density="student-t", **common),
        "NGBoost": lambda: PEERS["NGBoost"](**common),
        "CatBoost": lambda: PEERS["CatBoost"](**common),
        "HistGradientBoosting": lambda: HistGradientBoostingRegressor(random_state=0),
        "Stacking": lambda: bdkn.BayesianStackingRegressor(**common),
    }


def measure(name: str, methods: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Figures]:
    """Return the figures of all fits to a set, by method."""
    from bdkn_paper import data

    table, first = data.load_dataset(name), data.split(name, 0)
    X, y, X_test, y_test = (part[rows] for rows in (first.train, first.test) for part in (table.X, table.y))
    found: dict[str, Figures] = {method: {"clock": [], "cpu": [], "nll": []} for method in methods}
    for _ in range(rounds):
        for method, make in methods.items():
            figures = found[method]
            if min(figures["clock"], default=0.0) > LONG_S:
                continue
            clock, cpu = time.perf_counter(), time.process_time()
            model = make().fit(X, y)
            figures["cpu"].append(time.process_time() - cpu)
            figures["clock"].append(time.perf_counter() - clock)
            if hasattr(model, "predict_dist"):
                figures["nll"].append(-float(model.predict_dist(X_test).logpdf(y_test).mean()))
            print(f"{name}: {method} {figures['clock'][-1]:.2f} s, CPU {figures['cpu'][-1]:.2f} s", flush=True)
    return found


def tables(record: dict[str, Any]) -> str:
    """Return the figures as Markdown: one table per kind."""
    lines = [f"Machine: {record['machine']}; {record['threads']} threads. The shortest of the fits.", ""]
    methods = list(dict.fromkeys(method for found in record["sets"].values() for method in found))
    for kind, title in (("cpu", "Seconds of the processor"), ("clock", "Seconds by the clock"), ("nll", "NLL")):
        lines += [f"## {title}", "", f"| data set | {' | '.join(methods)} |", "| --- |" + " ---: |" * len(methods)]
        for name, found in record["sets"].items():
            numbers = [found.get(method, {}).get(kind) for method in methods]
            lines.append(f"| {name} | " + " | ".join(f"{min(some):.2f}" if some else "–" for some in numbers) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="keep the tables in results/")
    given = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != str(given.threads):  # read when libraries are loaded
        threads = {"OMP_NUM_THREADS": str(given.threads), "OPENBLAS_NUM_THREADS": str(given.threads)}
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | threads)
    warnings.simplefilter("ignore")
    from bdkn.environment import describe_machine

    methods = {
        name: make for name, make in contenders(given.threads).items() if not given.methods or name in given.methods
    }
    measure("yacht", methods, 1)  # compiles, loads
    path = RESULTS / "fit_cost.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    sets = kept.get("sets", {}) if kept.get("threads") == given.threads else {}
    record: dict[str, Any] = {}
    for name in given.sets:
        sets[name] = sets.get(name, {}) | measure(name, methods, given.rounds)
        ordered = {known: sets[known] for known in SETS if known in sets}
        record = {"machine": describe_machine(), "threads": given.threads, "sets": ordered}
        if given.write:
            path.write_text(json.dumps(record, indent=1) + "\n")
            heading = "# What a fit costs\n\n`python reproduction/benchmarks/fit_cost.py --write`\n\n"
            (RESULTS / "fit_cost.md").write_text(heading + tables(record))
    print(tables(record))


if __name__ == "__main__":
    main()
