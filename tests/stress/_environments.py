"""Virtual environments of ``supply.py``: every Python that is here, with the lowest or the newest versions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SETS = {"lowest": "lowest-direct", "newest": "highest"}
"""The name of each set of versions, and what uv calls it."""

TOLD = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow", "typer")
"""The packages whose versions are in the record."""


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
    uv("build", "--quiet", "--out-dir", folder, ROOT)  # by way of the source archive, which holds nothing stale
    return next(folder.glob("*.whl"))


def create(python: str, path: str, versions: str, wheel: Path, folder: Path) -> Environment:
    """Return an environment with the wheel and what its tests need: a new one, or that of a former run."""
    made = Environment(python, versions, folder / f"{python}-{versions}")
    if not made.executable.exists():
        uv("venv", "--quiet", "--python", path, made.folder)
    install = ("pip", "install", "--quiet", "--python", made.executable)
    words = ("--resolution", SETS[versions], "--only-binary", ":all:")
    # From pyproject.toml: of a wheel, uv takes the lowest version of the wheel, but the newest ones of what it needs.
    uv(*install, *words, "--requirements", ROOT / "pyproject.toml", "--extra", "test-core")
    uv(*install, "--no-deps", "--reinstall", wheel)
    return made


def told_versions(environment: Environment) -> str:
    """Return the versions of the packages that matter most."""
    listed = json.loads(uv("pip", "list", "--python", environment.executable, "--format", "json"))
    versions = {one["name"]: one["version"] for one in listed}
    return ", ".join(f"{name} {versions[name]}" for name in TOLD)
