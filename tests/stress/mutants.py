"""Change the source a little, in thousands of ways, one at a time: does a test notice each change?

    python tests/compile_all.py                                                 once: compile what the tests load
    python tests/stress/mutants.py --jobs 16 --budget 8 --minutes 9 --out m.jsonl  at random for nine minutes
    python tests/stress/mutants.py --jobs 2 --sample 0.1 --seed 0 --out m.jsonl    a random tenth of all
    python tests/stress/mutants.py --modules inference,metrics --only factor       those of some files
    python tests/stress/mutants.py --out m.jsonl --again --sample 0                try only the survivors again
    python tests/stress/mutants.py --out m.jsonl --report [--write]                list the survivors, try nothing

A mutant is a module with one change (``mutation/operators.py``). It is killed if one of the tests that run the changed
line fails, crashes or hangs. The results are appended to FILE as they come, a line of JSON each, so that a run that was
ended goes on where it was. Mutants that compute the same as the source are listed with the reason in
``mutation/equivalent.toml``, and those that are not worth a test in ``mutation/left.toml``; these count as survivors.
A result of a former run is kept as long as neither the changed file nor the test that noticed the change differs.

Only the tests of the packages themselves count (``TESTS``), hardly any that fit whole models. Hypothesis has 15 fixed
examples.
Needed beside the package: pytest, hypothesis and mpmath. Tests that need more, such as pandas, are left out.
Source and tests must be those that lie beside this folder: PYTHONPATH=src.

Why not a ready program: mutmut leaves out functions with decorators, which are every property and class method here,
and cosmic-ray starts Python anew for each mutant, which takes longer to import NumPy, SciPy and Numba than the tests
need. Here one process has imported everything and collected the tests; each mutant is a fork of it in which the code
of one function is replaced.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

from mutation.mutants import SOURCE, Mutant, mutants_of  # noqa: E402
from mutation.results import Results, first_outcomes, read_results, remember, stamped  # noqa: E402
from mutation.session import FAILED, NOT_APPLIED, SURVIVED, TIMED_OUT, Tests, in_forks, with_tests  # noqa: E402
from record import Found, Record, arguments, recording  # noqa: E402

TESTS = {
    "inference": ["tests/inference"],
    "predictive": ["tests/predictive"],
    "metrics": ["tests/metrics", "tests/regressors/test_wrapped.py"],
    "storage": ["tests/persistence"],
    "data": ["tests/members", "tests/tables", "tests/row_sources", "tests/blocks"],
    "model": ["tests/members", *(f"tests/regressors/test_{name}.py" for name in ("density", "far_rows", "target"))],
    "ensemble": ["tests/members", "tests/ensemble", "tests/blocks"],
}
"""Tests of each package."""

PACKAGES = tuple(TESTS)
EQUIVALENT = Path(__file__).parent / "mutation" / "equivalent.toml"
LEFT = Path(__file__).parent / "mutation" / "left.toml"
OUTCOMES = {SURVIVED: "survived", FAILED: "failed", NOT_APPLIED: "not applied", TIMED_OUT: "timed out"}
TITLE = "Changes of the source that no test notices"
WANTED = 0.9
"""Share of the changes of each package that tests must notice."""
_SHORT = 0.3
"""Seconds of tests for a mutant that is listed, with --trust: it should survive, and would take the whole time."""
FOUND = [
    Found(
        "`Statistics.remove` took rows that had been added for others, in 619 of 4,000 problems in which little of a "
        "column is left after the removal; one of the tests failed on such an example now and then.",
        "Its bound on rounding errors now grows with each rotation as the errors do: none of the 4,000 is refused.",
    ),
    Found(
        "A rule that ends the iteration of `stack_densities` early could be changed at will: it never applied.",
        "It is gone, as are settings that ignored warnings which nothing gave.",
    ),
    Found(
        "The lower ends of conformal intervals, the row of a monitor's alarm, links of the target, quantiles of a "
        "Student-t far down and a monitor read from JSON before its first row could be changed unnoticed.",
        "Tests compare them with their definition.",
    ),
    Found(
        "Predictions through a `TransformedTargetRegressor` with `StandardScaler(with_mean=False)` were off by the "
        "mean of the target: scikit-learn's scaler knows that mean although it does not subtract it.",
        "The mean is used only where the scaler subtracts it.",
    ),
    Found(
        "The CRPS of a `StudentTMixture` without rows raised an error, and infinite for a scale of 1e-300.",
        "It is empty, and the distance from the centre.",
    ),
    Found(
        "Tests of rows absorbed later took the precision of these rows from the code they tested, and no test gave "
        "weights of rows, or too few targets, to the shortcut of the published model for few rows.",
        "Both are compared with their formula.",
    ),
    Found(
        "The expectation of a cost under a Student-t distribution ended at a level of 1e-12, not 1e-16: for the sixth "
        "power and ten degrees of freedom it was 0.03 % too small, without an error.",
        "It ends at the quantile of that level, whatever the degrees of freedom.",
    ),
    Found(
        "The expectation of the logarithm of a target above zero, with a wide prediction, was refused: the function "
        "was asked for its value at zero, which no target has.",
        "Growth near a bound is judged between the last quantile and the bound, not on it.",
    ),
    Found(
        "A test of the score beyond the last quantile compared numbers of 1e-22 with a tolerance of 1e-12: it could "
        "not fail.",
        "The numbers are compared in units of their own size.",
    ),
    Found(
        "Of model files, the longest header, the most axes, the names of parts, that content is on the disk before it "
        "replaces a file, that files which cannot be locked are closed, and defaults of schemas could be changed.",
        "Tests try one step inside and one step outside of each limit, and record the order of the steps.",
    ),
]


def all_mutants(packages: list[str], only: str = "") -> list[Mutant]:
    """Return the mutants of packages, of files whose name contains ``only``."""
    files = sorted(path for package in packages for path in (SOURCE / package).glob("*.py"))
    names = [path.relative_to(SOURCE).as_posix() for path in files if only in path.stem and path.stem != "__init__"]
    return [mutant for name in names for mutant in mutants_of(name)]


@lru_cache(None)
def _listed(path: Path) -> tuple[str, ...]:
    entries = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return tuple(start for kind in entries.values() for entry in kind for start in entry["mutants"])


def is_equivalent(mutant: Mutant) -> bool:
    """Return whether a mutant is listed as computing the same as the source."""
    return mutant.key.startswith(_listed(EQUIVALENT))


def has_verdict(mutant: Mutant) -> bool:
    """Return whether somebody read the survivor and wrote down why there is no test of it."""
    return mutant.key.startswith(_listed(LEFT))


def try_all(tests: Tests, mutants: list[Mutant], options: argparse.Namespace) -> None:
    """Measure the tests, then try the mutants in ``jobs`` processes that each take the next one."""
    start, collected = time.perf_counter(), len(tests.items)
    remember({mutant.file for mutant in mutants}, [item.nodeid for item in tests.items])
    tests.measure(options.jobs, options.out.with_name("measured_tests.jsonl"))
    tests.warm_up(0.2)
    seconds = time.perf_counter() - start
    _say(f"{len(tests.items)} of {collected} tests pass, measured in {seconds:.0f} s; {len(mutants)} mutants")
    following = multiprocessing.Value("l", 0)
    in_forks([lambda: _work(tests, mutants, following, options)] * options.jobs)


def _work(tests: Tests, mutants: list[Mutant], following: Any, options: argparse.Namespace) -> None:
    """Try one mutant after the other and append the results to the file."""
    end = time.perf_counter() + options.minutes * 60.0
    while time.perf_counter() < end:
        with following.get_lock():
            index, following.value = following.value, following.value + 1
        if index >= len(mutants):
            return
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(_result(tests, mutants[index], options), ensure_ascii=False) + "\n")


def _result(tests: Tests, mutant: Mutant, options: argparse.Namespace) -> dict[str, Any]:
    start = time.perf_counter()
    items = tests.that_run(mutant)
    budget = min(options.budget, _SHORT) if options.trust and is_equivalent(mutant) else options.budget
    code, last = tests.try_mutant(mutant, items, budget)
    seconds = round(time.perf_counter() - start, 2)
    outcome = OUTCOMES.get(code, "crashed")
    return {**stamped(mutant, outcome, last), "line": mutant.line, "tests": len(items), "s": seconds}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def survivors(mutants: list[Mutant], results: Results) -> Iterator[tuple[Mutant, dict[str, Any]]]:
    """Yield the mutants that survived and are not known to be equivalent."""
    for mutant in mutants:
        result = results.get(mutant.key)
        if result is not None and result["outcome"] == "survived" and not is_equivalent(mutant):
            yield mutant, result


def report(mutants: list[Mutant], path: Path, *, write: bool) -> None:
    """Print the survivors and the figures of each package, and write the record where asked for."""
    results = read_results(path)
    lived = list(survivors(mutants, results))
    for mutant, result in lived:
        change = f"{mutant.operator}: {mutant.before}  ->  {mutant.after}"
        remark = f" {result['last']}" if result["last"].startswith("(") else ""
        read = "" if has_verdict(mutant) else " to be read"
        print(f"{mutant.file}:{mutant.line} {mutant.owner_name}: {change}  [{result['tests']} tests{remark}{read}]")
    with (
        suppress(SystemExit),  # some survive always: the share counts
        recording("mutants", TITLE, "python tests/stress/mutants.py --write", FOUND, write=write) as record,
    ):
        for package in PACKAGES:
            _add_package(record, package, mutants, results, path)
    record.seconds = sum(result["s"] for result in results.values())
    if write:
        record.write()
    if any(figure.wrong > (1.0 - WANTED) * figure.tried for figure in record.figures):
        raise SystemExit(1)


def _add_package(record: Record, package: str, mutants: list[Mutant], results: Results, path: Path) -> None:
    """Add the figures of a package: how many changes were tried, and how many of them no test noticed."""
    own = [mutant for mutant in mutants if mutant.file.startswith(package)]
    tried = [mutant for mutant in own if mutant.key in results and results[mutant.key]["outcome"] != "not applied"]
    lived = [mutant for mutant in tried if results[mutant.key]["outcome"] == "survived"]
    same, read = sum(map(is_equivalent, lived)), sum(has_verdict(m) and not is_equivalent(m) for m in lived)
    n, wrong = len(tried) - same, len(lived) - same
    if n:
        some = "all tried" if len(tried) == len(own) else f"{len(tried)} of {len(own)} tried, in random order"
        plain = f"{1 - len(lived) / len(tried):.1%} if {same} that compute the same count as unnoticed"
        remark = f"{1 - wrong / n:.1%} noticed, {plain}; {some}; {read} of the unnoticed were read and left"
        remark += _before(tried, first_outcomes(path))
        record.add(f"changes of `bdkn.{package}`", n, wrong, remark)


def _before(tried: list[Mutant], first: dict[str, str]) -> str:
    """Return the share that was noticed at the first try: what to expect of those that were not tried."""
    fresh = [mutant for mutant in tried if mutant.key in first and not is_equivalent(mutant)]
    noticed = sum(first[mutant.key] != "survived" for mutant in fresh)
    return f"; {noticed / len(fresh):.1%} of {len(fresh)} at the first try, before any was read" if fresh else ""


def _options() -> argparse.Namespace:
    parser = arguments(__doc__ or "")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default 1)")
    parser.add_argument("--sample", type=float, default=1.0, help="share of the mutants, chosen at random (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the random choice and order")
    parser.add_argument("--modules", default=",".join(PACKAGES), help="packages (default: all that have tests here)")
    parser.add_argument("--only", default="", help="part of the name of the files")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"), help="file of the results")
    parser.add_argument("--tests", nargs="+", help="folders of tests (default: those of the packages)")
    parser.add_argument("--budget", type=float, default=20.0, help="most seconds of tests for one mutant (default 20)")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no mutant after this many minutes")
    parser.add_argument("--again", action="store_true", help="first try those again that survived")
    parser.add_argument("--trust", action="store_true", help="try those that are listed by few tests only")
    parser.add_argument("--report", action="store_true", help="try nothing, report on the file of results")
    return parser.parse_args()


def main() -> None:
    """Try mutants as the command line says."""
    options = _options()
    packages = options.modules.split(",")
    options.out = options.out.absolute()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    results = read_results(options.out)
    mutants = all_mutants(packages, options.only)
    if not options.report:
        chosen = random.Random(options.seed).sample(
            mutants, round(len(mutants) * min(options.sample * options.scale, 1))
        )
        again = [mutant for mutant, _ in survivors(mutants, results)] if options.again else []
        todo = again + [mutant for mutant in chosen if mutant.key not in results]
        of_packages = dict.fromkeys(folder for package in packages for folder in TESTS[package])
        folders = [str(SOURCE.parents[1] / folder) for folder in options.tests or of_packages]
        with_tests(folders, lambda tests: try_all(tests, todo, options))
    report(mutants, options.out, write=options.write)


if __name__ == "__main__":
    main()
