"""Count how often the code changes file during a fit and a prediction, and list the functions that are called.

A walk is the sequence of the functions of the package in the order of their first call. Comprehensions, generator
expressions and lambdas are part of their function. Compiled code is not traced. All work is done on one thread, since
other threads are not traced either.

    python benchmarks/walk.py                        # the counts
    python benchmarks/walk.py --list                 # also the walk of a default fit, one line per visit of a file
    python benchmarks/walk.py --list predict_dist    # also another walk
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

import numpy as np
from sklearn.linear_model import BayesianRidge

import bdkn

PACKAGE = Path(bdkn.__file__).parent
Step = tuple[str, str]
"""A file relative to the package, and a function in it."""


def walk(call: Callable[[], object]) -> list[Step]:
    """Return the functions of the package that a second call runs, in the order of their first call.

    The first call compiles code and fills caches.
    """
    call()
    seen: dict[CodeType, Step] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code not in seen and code.co_filename.startswith(str(PACKAGE)):
            seen[code] = (os.path.relpath(code.co_filename, PACKAGE), code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return [step for step in seen.values() if not step[1].endswith(">")]


def walks() -> dict[str, list[Step]]:
    """Return the walks of three fits and a prediction by their names."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    y = X[:, 0] + 0.1 * generator.normal(size=200)
    default = bdkn.BDKNRegressor(n_members=3, epochs=2, random_state=0, n_jobs=1)
    paper = bdkn.BDKNRegressor.from_paper(1, epochs=2, n_members=3, random_state=0, n_jobs=1)
    net = bdkn.DeepEnsembleRegressor(n_members=2, epochs=2, random_state=0, n_jobs=1)
    stack = bdkn.BayesianStackingRegressor([("net", net), ("line", BayesianRidge())], random_state=0, n_jobs=1)
    return {
        "default fit": walk(lambda: default.fit(X, y)),
        "predict_dist": walk(lambda: default.predict_dist(X)),
        "from_paper fit": walk(lambda: paper.fit(X, y)),
        "stack fit": walk(lambda: stack.fit(X, y)),
    }


def switches(places: Sequence[str]) -> int:
    """Return how often a place differs from the one before it."""
    return max(sum(1 for _ in groupby(places)) - 1, 0)


def counts(steps: Sequence[Step]) -> dict[str, int]:
    """Return the counts that describe a walk; a module at the top level counts as a package."""
    files = [file for file, _ in steps]
    return {
        "functions": len(steps),
        "files": len({*files}),
        "file switches": switches(files),
        "package switches": switches([file.split(os.sep)[0] for file in files]),
    }


def table(all_counts: dict[str, dict[str, int]]) -> str:
    """Return the counts of all walks as a table in Markdown."""
    names = list(next(iter(all_counts.values())))
    lines = [f"| walk | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
    lines += [f"| {walk} | {' | '.join(map(str, found.values()))} |" for walk, found in all_counts.items()]
    return "\n".join(lines)


def main() -> None:
    """Print the counts, and a walk if asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", nargs="?", const="default fit", metavar="WALK", help="print this walk, too")
    listed = parser.parse_args().list
    found = walks()
    if listed is not None and listed not in found:
        parser.error(f"WALK must be one of {', '.join(map(repr, found))}, got {listed!r}")
    for file, visit in groupby(found.get(listed, []), key=lambda step: step[0]):
        print(f"{file:32} {', '.join(name for _, name in visit)}")
    print(table({name: counts(steps) for name, steps in found.items()}))


if __name__ == "__main__":
    main()
