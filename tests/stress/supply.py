"""Run tests with the lowest and the newest versions of all dependencies, on every Python that is there.

python tests/stress/supply.py [--write] [--scale S] [--python PATH ...] [--tests TEST ...] [--keep FOLDER]

For each Python from 3.11 to 3.14 that is found and each of the two sets there is a new environment, into which the
wheel of this repository is installed with what its tests need, without PyTorch. "lowest" is the lowest version of each
dependency that pyproject.toml allows and that has a wheel for this Python; "newest" is what pip would install. A trial
is a test of ``TESTS`` or of those given; the bits of the predictions of small fits and kept model files are compared,
too. Packages come from the package index; nothing is built but bdkn. With a scale below 1, that share of the
environments is tried, the outermost ones first. The record is written after each environment. With ``--keep``,
environments and what their tests came to stay in a folder: a run that was interrupted goes on there, and tests that
passed are not run again for the same package.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from _environments import SETS, Environment, build_wheel, create, pythons, told_versions
from record import Found, Record, arguments, recording

ROOT = Path(__file__).parents[2]
TESTS = (
    *("tests/golden", "tests/tables", "tests/table_files", "tests/persistence", "tests/test_public_names.py"),
    *("tests/predictive/test_student_t.py", "tests/inference/test_conjugate.py"),
    *("tests/regressors/test_save_load.py", "tests/regressors/test_frames.py", "tests/report/test_model_page.py"),
    *("tests/cli/test_help.py", "tests/cli/test_fit_command.py", "tests/cli/test_predict_command.py"),
    "tests/plots/test_plots.py",
)
"""What is run: where this library meets others. 80 s of one core; the whole suite is for ``make test``."""

LEFT_OUT = (
    "tests/golden/test_golden.py::test_a_fit_gives_the_kept_numbers[stack-default]",
    "tests/test_public_names.py::test_the_regressors_load_neither_torch_nor_matplotlib_nor_numba",
    "tests/plots/test_plots.py::test_nothing_heavy_is_loaded_before_it_is_needed",
    "tests/cli/test_help.py::test_help_of_no_verb_loads_anything_heavy",
)
"""Long ones of these, in which versions matter little; a smaller stack is among the tests, too."""

OTHERS_WARNINGS = (
    "ignore:'click.:DeprecationWarning",
    "ignore::DeprecationWarning:matplotlib._fontconfig_pattern",  # old Matplotlib, new pyparsing
    "ignore::DeprecationWarning:matplotlib._mathtext",
    "ignore::DeprecationWarning:pyparsing.util",
)
"""Warnings of one dependency about another one, old with new, that no code of ours can avoid."""

BITS = """
import hashlib, json, pathlib, sys
sys.path.insert(0, "tests")
import bdkn
from golden.cases import predictions, fitted, SAVED
fits = {name: predictions(fitted(name)) for name in ("bdkn-small", "bdkn-hold-out", "ensemble-default")}
files = {"file " + name: predictions(bdkn.load(f"tests/golden/files/{name}.bdkn")) for name in SAVED[:4]}
print(json.dumps({
    f"{case}: {key}": hashlib.sha256(part.tobytes()).hexdigest()[:16]
    for case, parts in (fits | files).items() for key, part in parts.items()
}))
"""

FOUND = [
    Found(
        "`bdkn --help` raised a TypeError with Typer 0.15 and any click since 8.2, which that Typer allows",
        "the extra `cli` asks for Typer 0.16",
    ),
    Found(
        "polars 1.0 with NumPy 2 ends the interpreter when a column becomes an array: tests allowed it",
        "tests ask for polars 1.1; frames of users come from the version they have, and 1.0 crashes without bdkn, too",
    ),
    Found(
        "the environments of the lowest versions had the newest ones: uv takes only the wheel itself at its lowest",
        "dependencies are installed from pyproject.toml, and both sets are compared",
    ),
    Found(
        "durations of which some are missing, as Python objects, gave a DeprecationWarning of NumPy 2.5",
        "the missing ones have a unit",
    ),
    Found(
        "every plot raised a TypeError with Matplotlib 3.9, which has no `get_figure(root=True)` but was allowed",
        "the extra `plots` asks for Matplotlib 3.10",
    ),
    Found(
        "a test failed if it was the first one in a new environment: it took the note about compiling for a warning",
        "the test knows the note",
    ),
]


@dataclass(frozen=True)
class Outcome:
    """What the tests in one environment came to."""

    passed: int
    skipped: int
    failed: tuple[str, ...]
    versions: str
    bits: dict[str, str]
    seconds: float = 0.0


def read_results(report: Path) -> tuple[int, int, tuple[str, ...]]:
    """Return from a JUnit report how many tests passed and were skipped, and the names of those that failed."""
    passed, skipped, failed = 0, 0, []
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}.{case.get('name')}")
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, skipped, tuple(failed)


def try_tests(environment: Environment, tests: Sequence[str]) -> Outcome:
    """Run tests in an environment."""
    report = environment.folder / "report.xml"
    ignored = [word for warning in OTHERS_WARNINGS for word in ("-W", warning)]
    left_out = [f"--deselect={test}" for test in LEFT_OUT]
    options = ("-q", "-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}", *ignored, *left_out)
    variables = os.environ | {"OMP_WAIT_POLICY": "passive", "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}
    variables.pop("PYTHONPATH", None)
    command = [environment.executable, "-m", "pytest", *options, *tests]
    ran = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    if not report.exists():
        return Outcome(0, 0, (f"pytest itself: {(ran.stdout + ran.stderr)[-500:]}",), told_versions(environment), {})
    passed, skipped, failed = read_results(report)
    if failed:
        print(ran.stdout[-6000:], flush=True)
    done = subprocess.run([environment.executable, "-c", BITS], cwd=ROOT, env=variables, capture_output=True, text=True)
    bits = json.loads(done.stdout) if done.returncode == 0 else {}
    return Outcome(passed, skipped, failed, told_versions(environment), bits)


def digest(tests: Sequence[str]) -> str:
    """Return a digest of the package, what it asks for, and the tests that are run."""
    paths = [ROOT / "pyproject.toml", *sorted((ROOT / "src").rglob("*.py"))]
    paths += [path for test in tests for path in sorted(_test_files(ROOT / test.partition("::")[0]))]
    content = hashlib.sha256(" ".join((*tests, *LEFT_OUT)).encode())
    for path in paths:
        content.update(path.read_bytes())
    return content.hexdigest()[:16]


def _test_files(test: Path) -> list[Path]:
    return list(test.rglob("*.py")) if test.is_dir() else [test]


def kept_outcome(path: Path) -> Outcome | None:
    """Return what the tests of a former run came to, if none of them failed."""
    if not path.exists():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    outcome = Outcome(**(content | {"failed": tuple(content["failed"])}))
    return None if outcome.failed else outcome


def keep_outcome(path: Path, outcome: Outcome) -> None:
    """Write what tests came to, for ``kept_outcome``."""
    path.write_text(json.dumps(asdict(outcome), indent=2), encoding="utf-8")


def add_outcome(record: Record, name: str, outcome: Outcome) -> None:
    """Add the line of one environment to the record."""
    failed = f"; failed: {', '.join(outcome.failed)}" if outcome.failed else ""
    skipped = f"{outcome.skipped} skipped, without PyTorch or a browser; " if outcome.skipped else ""
    tried = outcome.passed + len(outcome.failed)
    record.add(name, tried, len(outcome.failed), f"{skipped}{outcome.versions}{failed}")


def compare_versions(outcomes: dict[str, Outcome]) -> tuple[int, int]:
    """Return for how many Pythons both sets were tried, and for how many of these both have the same versions."""
    told: dict[str, list[str]] = {}
    for name, outcome in outcomes.items():
        told.setdefault(name.partition(",")[0], []).append(outcome.versions)
    pairs = [versions for versions in told.values() if len(versions) == len(SETS)]
    return len(pairs), sum(len(set(versions)) == 1 for versions in pairs)


def compare_bits(outcomes: dict[str, Outcome]) -> tuple[int, str]:
    """Return how many arrays were compared between environments, and which of them differ in a bit anywhere."""
    tables = [outcome.bits for outcome in outcomes.values() if outcome.bits]
    names = set().union(*tables)
    differing = sorted({name.partition(":")[2].strip() for name in names if len({t.get(name) for t in tables}) > 1})
    return len(names) * len(tables), ", ".join(differing)


def outermost_first(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return pairs in another order: newest Python and versions, oldest ones, and so on to those between."""
    middle = (len(pairs) - 1) / 2
    return [pairs[k] for k in sorted(range(len(pairs)), key=lambda k: (-abs(k - middle), -k))]


def try_environments(record: Record, given: Namespace, folder: Path) -> Iterator[tuple[str, Outcome]]:
    """Yield the name of each environment, and what its tests came to; the seconds of those kept go to the record."""
    found = pythons(given.python)
    pairs = outermost_first([(python, versions) for python in found for versions in SETS])
    wheel, code = build_wheel(folder), digest(given.tests)
    for python, versions in pairs[: math.ceil(given.scale * len(pairs))]:
        path = folder / f"{python}-{versions}-{code}.json"
        outcome = kept_outcome(path)
        if outcome is not None:
            record.seconds += outcome.seconds
        else:
            start = time.perf_counter()
            outcome = try_tests(create(python, found[python], versions, wheel, folder), given.tests)
            outcome = replace(outcome, seconds=time.perf_counter() - start)
            keep_outcome(path, outcome)
        yield f"Python {python}, {versions} versions", outcome


def run(record: Record, given: Namespace) -> None:
    """Try every environment and fill the record."""
    outcomes = {}
    with folder_for(given.keep) as folder:
        for name, outcome in try_environments(record, given, Path(folder)):
            outcomes[name] = outcome
            add_outcome(record, name, outcome)
            if given.write:
                record.write()
    pairs, same = compare_versions(outcomes)
    record.add("Lowest versions are not the newest ones", pairs, same)
    compared, differing = compare_bits(outcomes)
    without = Counter(bool(outcome.bits) for outcome in outcomes.values())[False]
    remark = f"other bits in: {differing}" if differing else "the same bits everywhere"
    record.add("Arrays of predictions computed in all environments", compared, without, remark)


def folder_for(kept: Path | None) -> AbstractContextManager[str | Path]:
    """Return the folder of the environments: one that stays, or a temporary one."""
    if kept is None:
        return tempfile.TemporaryDirectory(prefix="bdkn-matrix-")
    kept.mkdir(parents=True, exist_ok=True)
    return nullcontext(kept.resolve())


def main() -> None:
    """Run the matrix that the command line asks for."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--python", action="append", default=[], help="another interpreter; may be repeated")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files, folders or names of tests to run")
    parser.add_argument("--keep", type=Path, help="folder in which environments and results stay")
    given = parser.parse_args()
    command = f'make matrix MATRIX="--tests {" ".join(given.tests)}"'
    title = "Versions of Python and of dependencies"
    with recording("supply", title, command, FOUND, write=given.write) as record:
        run(record, given)


if __name__ == "__main__":
    main()
