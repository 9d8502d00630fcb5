"""Build what would be released, check it, install it into empty environments, and run the demo from there.

python tests/stress/release.py [--write] [--dist FOLDER]

The wheel is built from the source archive, as an index would get them. Nothing is uploaded. Packages come from the
package index; nothing else is fetched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from record import Found, Record, arguments, recording

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bdkn"

CORE = """
import numpy as np, bdkn
X = np.random.default_rng(0).normal(size=(60, 2))
model = bdkn.BDKNRegressor(n_members=2, epochs=5, random_state=0).fit(X, X[:, 0])
model.save("model.bdkn")
assert np.array_equal(bdkn.load("model.bdkn").predict(X), model.predict(X))
"""
"""What the core alone must be able to do."""

FOUND = [
    Found(
        "the source archive held the test files of one folder without all others and without what they import",
        "MANIFEST.in leaves tests out; what the archives hold is compared with the package",
    ),
]


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    """Run a command, and return what it prints or raise an error with it."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*words], cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(dist: Path) -> tuple[Path, Path]:
    """Build source archive and wheel into an emptied folder, and return their paths."""
    shutil.rmtree(dist, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", dist, ROOT)
    (archive,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    return archive, wheel


def package_files() -> set[str]:
    """Return the files of the package that belong into an archive, relative to the folder of the package's parent."""
    kept = (".py", ".typed", ".html", ".css", ".js", ".cu")
    return {path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*") if path.name.endswith(kept)}


def wheel_differences(wheel: Path) -> list[str]:
    """Return what a wheel lacks and what it has too much: it holds the package, metadata and the licence."""
    with zipfile.ZipFile(wheel) as file:
        held = set(file.namelist())
    about = {name for name in held if ".dist-info/" in name}
    told = [] if any(name.endswith("licenses/LICENSE") for name in about) else ["lacks the licence"]
    return told + _differences(held - about, package_files())


def archive_differences(archive: Path) -> list[str]:
    """Return what a source archive lacks and what it has too much: it holds the package and what builds it."""
    with tarfile.open(archive) as file:
        held = {one.name.partition("/")[2] for one in file.getmembers() if one.isfile()}
    held = {name for name in held if not name.startswith("src/bdkn.egg-info/")}
    about = {"CHANGELOG.md", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
    return _differences(held, about | {f"src/{name}" for name in package_files()})


def _differences(held: set[str], expected: set[str]) -> list[str]:
    lacking = [f"lacks {name}" for name in sorted(expected - held)]
    return lacking + [f"has {name}" for name in sorted(held - expected)]


def environment(folder: Path, what: str) -> Path:
    """Install something into a new environment, and return the folder of its commands."""
    run(sys.executable, "-m", "venv", folder)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    run(commands / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", what)
    run(commands / "python", "-m", "pip", "check")
    return commands


def try_core(file: Path, folder: Path) -> None:
    """Fit, save and load with the core alone."""
    commands = environment(folder / "env", str(file))
    run(commands / "python", "-c", CORE, cwd=folder)


def try_demo(file: Path, folder: Path) -> None:
    """Run the demo of an installed file in an empty folder, and see that its page is there."""
    commands = environment(folder / "env", f"{file}[cli]")
    run(commands / "bdkn", "demo", "--out", folder / "report", cwd=folder)
    if not list((folder / "report").glob("*.html")):
        raise RuntimeError("the demo wrote no page")


def add_trial(record: Record, what: str, trial: Callable[[], object]) -> None:
    """Add a line about something that raises an error or returns a list of complaints if it is wrong."""
    try:
        complaints = trial()
    except RuntimeError as error:
        complaints = str(error)
        print(complaints, flush=True)
    wrong = complaints if isinstance(complaints, (list, str)) and complaints else ""
    record.add(what, 1, int(bool(wrong)), str(wrong)[:300])


def try_release(record: Record, dist: Path) -> None:
    """Build into ``dist``, and add a line for each check."""
    archive, wheel = build(dist)
    add_trial(record, "Metadata and description (twine check --strict)", lambda: _checked(archive, wheel))
    add_trial(record, "Files of the wheel are those of the package", lambda: wheel_differences(wheel))
    add_trial(record, "Files of the source archive are those of the package", lambda: archive_differences(archive))
    trials = [
        ("Wheel into an empty environment: fit, save, load", try_core, wheel),
        ("Wheel with the extra `cli` into an empty environment: `bdkn demo`", try_demo, wheel),
        ("Source archive with the extra `cli` into an empty environment: `bdkn demo`", try_demo, archive),
    ]
    for what, trial, file in trials:
        with tempfile.TemporaryDirectory(prefix="bdkn-release-") as folder:
            add_trial(record, what, lambda t=trial, f=file, into=folder: t(f, Path(into)))


def _checked(*files: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *files)


def main() -> None:
    """Build and try what the command line asks for."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder of the built files (default dist)")
    given = parser.parse_args()
    with recording("release", "What is released", "make release", FOUND, write=given.write) as record:
        try_release(record, given.dist.resolve())


if __name__ == "__main__":
    main()
