"""Print the walk of one fit through the code: functions in the order of their first call, and how often files change.

Comprehensions, generator expressions and lambdas count as part of their function. Compiled code is not traced.

    python benchmarks/walk.py           # the counts
    python benchmarks/walk.py --list    # the walk, one line per visit of a file
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

import numpy as np

import bdkn

PACKAGE = Path(bdkn.__file__).parent
Step = tuple[str, str]
"""A file relative to the package, and a function in it."""


def walk() -> list[Step]:
    """Return the functions of the package that one fit calls, in the order of their first call."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    y = X[:, 0] + 0.1 * generator.normal(size=200)
    model = bdkn.BDKNRegressor(n_members=3, epochs=2, random_state=0)
    model.fit(X, y)  # compiles
    seen: dict[CodeType, Step] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code not in seen and code.co_filename.startswith(str(PACKAGE)):
            seen[code] = (os.path.relpath(code.co_filename, PACKAGE), code.co_qualname)

    sys.setprofile(note)
    try:
        model.fit(X, y)
    finally:
        sys.setprofile(None)
    return [step for step in seen.values() if not step[1].endswith(">")]


def switches(places: Sequence[str]) -> int:
    """Return how often a place differs from the one before it."""
    return sum(1 for _ in groupby(places)) - 1


def counts(steps: Sequence[Step]) -> dict[str, int]:
    """Return the counts that describe a walk."""
    files = [file for file, _ in steps]
    return {
        "functions": len(steps),
        "files": len({*files}),
        "file switches": switches(files),
        "package switches": switches([file.split(os.sep)[0] for file in files]),
        "file switches inside regressors": switches([file for file in files if file.startswith("regressors")]),
    }


def main() -> None:
    """Print the walk or its counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the walk itself, too")
    steps = walk()
    if parser.parse_args().list:
        for file, stay in groupby(steps, key=lambda step: step[0]):
            print(f"{file:32} {', '.join(name for _, name in stay)}")
    for name, count in counts(steps).items():
        print(f"{count:5} {name}")


if __name__ == "__main__":
    main()
