"""Run tests with the lowest and the newest versions of all dependencies, on every Python that is there.

python torture/supply.py [--write] [--scale S] [--python PATH ...]

For each Python from 3.11 to 3.14 that is found and each of the two sets there is a new environment, into which the
wheel of this repository is installed with what its tests need, without PyTorch. "lowest" is the lowest version of each
dependency that pyproject.toml allows and that has a wheel for this Python; "newest" is what pip would install. A trial
is a test of ``TESTS``; the bits of the predictions of small fits and kept model files are compared, too. Packages come
from the package index; nothing is built but bdkn. With a scale below 1, that share of the environments is tried.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from record import Found, Record, arguments, recording

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SETS = {"lowest": "lowest-direct", "newest": "highest"}
"""The name of each set of versions, and what uv calls it."""

TESTS = (
    *("tests/golden", "tests/inference", "tests/predictive", "tests/metrics", "tests/persistence", "tests/members"),
    *("tests/tables", "tests/table_files", "tests/test_public_names.py", "tests/test_extras.py"),
    *("tests/cli/test_fit_command.py", "tests/cli/test_predict_command.py", "tests/report/test_tables.py"),
    *("tests/regressors/test_save_load.py", "tests/regressors/test_every_regressor.py"),
    *("tests/regressors/test_frames.py", "tests/regressors/test_former_names.py"),
)
"""What is run: everything a user of the core meets once. The whole suite is for ``make test``."""

TOLD = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow", "typer")
"""The packages whose versions are in the record."""

OTHERS_WARNINGS = ("ignore:'click.:DeprecationWarning",)
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
        "a test failed if it was the first one in a new environment: it took the note about compiling for a warning",
        "the test knows the note",
    ),
]


@dataclass(frozen=True)
class Environment:
    """A virtual environment with one set of versions."""

    python: str
    versions: str
    folder: Path

    @property
    def executable(self) -> Path:
        """The interpreter of the environment."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@dataclass(frozen=True)
class Outcome:
    """What the tests in one environment came to."""

    passed: int
    skipped: int
    failed: tuple[str, ...]
    versions: str
    bits: dict[str, str]


def uv(*words: str | Path) -> str:
    """Run uv, which installs packages, and return what it prints."""
    done = subprocess.run([sys.executable, "-m", "uv", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"uv {' '.join(map(str, words))}\n{done.stderr}")
    return done.stdout.strip()


def pythons(given: Sequence[str] = ()) -> dict[str, str]:
    """Return the interpreters to try, by version: each of ``PYTHONS`` that is here, and those given."""
    found = {}
    for name in (*PYTHONS, *given):
        path = find_python(name)
        if path is None:
            print(f"Python {name} is not on this machine", flush=True)
            continue
        code = "import platform; print(platform.python_version())"
        version = subprocess.run([path, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        found[version] = path
    return found


def find_python(name: str) -> str | None:
    """Return the path of an interpreter: where uv finds one, or among those that pyenv keeps; nothing is downloaded."""
    command = [sys.executable, "-m", "uv", "python", "find", "--no-python-downloads", "--system", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout.strip()
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return next((str(path) for path in sorted(kept.glob(f"{name}.*/bin/python"), reverse=True)), None)


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this repository and return its path."""
    uv("build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
    return next(folder.glob("*.whl"))


def create(python: str, path: str, versions: str, wheel: Path, folder: Path) -> Environment:
    """Return a new environment with the wheel and what its tests need."""
    made = Environment(python, versions, folder / f"{python}-{versions}")
    uv("venv", "--quiet", "--python", path, made.folder)
    words = ("--resolution", SETS[versions], "--only-binary", ":all:")
    uv("pip", "install", "--quiet", "--python", made.executable, *words, f"bdkn[test-core] @ {wheel.as_uri()}")
    return made


def told_versions(environment: Environment) -> str:
    """Return the versions of the packages that matter most."""
    listed = json.loads(uv("pip", "list", "--python", environment.executable, "--format", "json"))
    versions = {one["name"]: one["version"] for one in listed}
    return ", ".join(f"{name} {versions[name]}" for name in TOLD)


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
    options = ("-q", "-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}", *ignored, "-n", "2")
    variables = os.environ | {"OMP_WAIT_POLICY": "passive", "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}
    variables.pop("PYTHONPATH", None)
    # Compiled once, before there are two processes, each of which would compile.
    subprocess.run([environment.executable, "tests/compile_all.py"], cwd=ROOT, env=variables, check=False)
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


def add_outcome(record: Record, name: str, outcome: Outcome) -> None:
    """Add the line of one environment to the record."""
    failed = f"; failed: {', '.join(outcome.failed)}" if outcome.failed else ""
    skipped = f"{outcome.skipped} skipped, without PyTorch or a browser; " if outcome.skipped else ""
    tried = outcome.passed + len(outcome.failed)
    record.add(name, tried, len(outcome.failed), f"{skipped}{outcome.versions}{failed}")


def compare_bits(outcomes: dict[str, Outcome]) -> tuple[int, str]:
    """Return how many arrays were compared between environments, and which of them differ in a bit anywhere."""
    tables = [outcome.bits for outcome in outcomes.values() if outcome.bits]
    names = set().union(*tables)
    differing = sorted({name.partition(":")[2].strip() for name in names if len({t.get(name) for t in tables}) > 1})
    return len(names) * len(tables), ", ".join(differing)


def run(record: Record, given: Namespace, tests: Sequence[str] = TESTS) -> dict[str, Outcome]:
    """Try every environment, fill the record, and return the outcomes."""
    outcomes = {}
    found = pythons(given.python)
    pairs = [(python, versions) for python in found for versions in SETS]
    with tempfile.TemporaryDirectory(prefix="bdkn-matrix-") as folder:
        wheel = build_wheel(Path(folder))
        for python, versions in pairs[: math.ceil(given.scale * len(pairs))]:
            name = f"Python {python}, {versions} versions"
            outcomes[name] = try_tests(create(python, found[python], versions, wheel, Path(folder)), tests)
            add_outcome(record, name, outcomes[name])
    compared, differing = compare_bits(outcomes)
    without = Counter(bool(outcome.bits) for outcome in outcomes.values())[False]
    remark = f"other bits in: {differing}" if differing else "the same bits everywhere"
    record.add("Arrays of predictions computed in all environments", compared, without, remark)
    return outcomes


def main() -> None:
    """Run the matrix that the command line asks for."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--python", action="append", default=[], help="another interpreter; may be repeated")
    given = parser.parse_args()
    command = "make matrix"
    title = "Versions of Python and of dependencies"
    with recording("supply", title, command, FOUND, write=given.write) as record:
        run(record, given)


if __name__ == "__main__":
    main()
