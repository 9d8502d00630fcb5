"""Write the licences of all packages that an installation brings into ``docs/dependencies.md``.

Run it with ``python docs/tools/licences.py`` in an environment with all extras, after a change of dependencies. What
is written is the licence that each installed package states, and the first of our extras that installs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).parents[1] / "dependencies.md"
PARTS = re.compile(r"(<!-- licences -->\n\n).*?(\n\n<!-- end of licences -->)", re.DOTALL)

EXTRAS = (
    *("", "frames", "files", "plots", "report", "progress", "cli"),
    *("dask", "torch", "gpu", "docs", "test", "release", "bench"),
)
"""Extras in the order in which they are looked at; the first one is the core."""

STATED = {"cuda-toolkit": "of NVIDIA"}
"""Licences of packages that do not state one."""

COPYLEFT = re.compile(r"\b(A?GPL|LGPL|GNU|EUPL|CDDL|EPL|OSL)", re.IGNORECASE)
"""Words of licences under which this library could not be given to others as it is."""


def requirements(name: str, extra: str) -> Iterator[Requirement]:
    """Yield what a distribution asks for here, with an extra if one is given."""
    for line in distribution(name).requires or []:
        found = Requirement(line)
        if found.marker is None or any(found.marker.evaluate({"extra": one}) for one in {"", extra}):
            yield found


def closure(extra: str) -> set[str]:
    """Return the packages that ``bdkn[extra]`` brings, those of other packages among them, as far as they are here."""
    found: set[tuple[str, str]] = set()
    waiting = [("bdkn", extra)]
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in found or not _is_here(name):
            continue
        found.add((name, wanted))
        for one in requirements(name, wanted):
            waiting += [(canonicalize_name(one.name), part) for part in ("", *one.extras)]
    return {name for name, _ in found} - {"bdkn"}


def _is_here(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def licence(name: str) -> str:
    """Return the licence a package states: its expression, else its classifiers, else the first line of its text."""
    about = distribution(name).metadata
    classifiers = [one.rpartition(" :: ")[2] for one in about.get_all("Classifier", []) if one.startswith("License ::")]
    text = (about.get("License") or "").strip().partition("\n")[0]
    return about.get("License-Expression") or ", ".join(classifiers) or text or STATED.get(name, "not stated")


def rows() -> dict[str, tuple[str, str]]:
    """Return the licence of each package and what brings it, by the package's name."""
    found: dict[str, tuple[str, str]] = {}
    for extra in EXTRAS:
        for name in sorted(closure(extra) - found.keys()):
            found[name] = (licence(name), f"`{extra}`" if extra else "core")
    return found


def table() -> str:
    """Return the table of licences as Markdown."""
    lines = ["| package | licence | brought by |", "| --- | --- | --- |"]
    return "\n".join(lines + [f"| {name} | {text} | {by} |" for name, (text, by) in rows().items()])


def main() -> None:
    """Replace the table of the page."""
    text = PAGE.read_text("utf-8")
    PAGE.write_text(PARTS.sub(lambda found: found[1] + table() + found[2], text), "utf-8")
    print(f"written to {PAGE}")


if __name__ == "__main__":
    main()
