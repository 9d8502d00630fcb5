"""Measure the CPU seconds of default fits beside those of NGBoost.

    pip install ngboost
    python benchmarks/cpu_seconds.py [--data FOLDER] [--rounds 3] [--write]

Each fit runs on one thread, on the training rows of the first split of a set of the paper, BDKN and NGBoost in turn.
CPU seconds are those of the process, less what reading and compiling took before; the table has medians over rounds.
``--write`` writes results/cpu_seconds.json and results/cpu_seconds.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import bdkn
from bdkn.report.environment import describe_machine
from bdkn_paper.data import load_dataset, splits

RESULTS = Path(__file__).parent.parent / "results"
SETS = ("yacht", "boston", "energy", "concrete", "wine", "kin8nm", "power")
"""Sets of 277 to 8611 training rows."""


def programs() -> dict[str, Callable[[], Any]]:
    """Return what is fitted, by name."""
    from ngboost import NGBRegressor

    return {
        "BDKN": lambda: bdkn.BDKNRegressor(random_state=0, n_jobs=1),
        'BDKN, effort="fast"': lambda: bdkn.BDKNRegressor(random_state=0, n_jobs=1, effort="fast"),
        "NGBoost": lambda: NGBRegressor(random_state=0, verbose=False),
    }


def measure(folder: str | None, rounds: int) -> dict[str, Any]:
    """Return the CPU seconds of every fit."""
    found: dict[str, Any] = {"machine": describe_machine()}
    made = programs()
    for name in SETS:
        data, (train, _) = load_dataset(name, folder), splits(name)[0]
        X, y = data.X[train], data.y[train]
        times: dict[str, list[float]] = {program: [] for program in made}
        for turn in range(rounds + (name == SETS[0])):
            for program, make in made.items():
                began = time.process_time()
                with threadpool_limits(1):
                    make().fit(X, y)
                if turn or name != SETS[0]:  # before, compiled code is loaded
                    times[program].append(time.process_time() - began)
        found[name] = {"rows": len(y), "columns": X.shape[1], "cpu_seconds": times}
        print(name, {program: [round(t, 2) for t in some] for program, some in times.items()}, flush=True)
    return found


def page(found: dict[str, Any]) -> str:
    """Return the table of medians."""
    names = [name for name in found if name != "machine"]
    kinds = list(found[names[0]]["cpu_seconds"])
    lines = ["# CPU seconds of default fits", "", "`python benchmarks/cpu_seconds.py --write`", ""]
    lines += [f"Machine: {found['machine']}.", "", f"| set | rows | {' | '.join(kinds)} | BDKN by NGBoost |"]
    lines += ["| --- | ---: |" + " ---: |" * (len(kinds) + 1)]
    ratios = []
    for name in names:
        medians = {kind: statistics.median(some) for kind, some in found[name]["cpu_seconds"].items()}
        ratios.append(medians["BDKN"] / medians["NGBoost"])
        shown = " | ".join(f"{value:.2f}" for value in medians.values())
        lines.append(f"| {name} | {found[name]['rows']} | {shown} | {ratios[-1]:.2f} |")
    lines += ["", f"Median over the sets: {statistics.median(ratios):.2f} times the CPU seconds of NGBoost."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and, with ``--write``, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data sets; without it, that of BDKN_DATA")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = measure(given.data, given.rounds)
    print(page(found))
    if given.write:
        (RESULTS / "cpu_seconds.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        (RESULTS / "cpu_seconds.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
