"""Results of mutants, and which of those of former runs still hold."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from mutation.mutants import SOURCE, Mutant

Results = dict[str, dict[str, Any]]
NOT_KILLED = "survived", "not applied"


def read_results(path: Path) -> Results:
    """Return the last result of each mutant, if it still holds.

    A result holds as long as the file of the mutant does not change and, for a mutant that was killed, the test that
    killed it. A survivor is not tried again by itself when tests are added: ``--again`` does that.
    """
    last = {line["key"]: line for line in _lines(path)}
    return {key: line for key, line in last.items() if _holds(line)}


def first_outcomes(path: Path) -> dict[str, str]:
    """Return how each mutant ended when it was first tried, before survivors were read; no results taken over."""
    first: dict[str, dict[str, Any]] = {}
    for line in _lines(path):
        first.setdefault(line["key"], line)
    return {key: line["outcome"] for key, line in first.items() if not line.get("taken_over")}


def _lines(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def _holds(line: dict[str, Any]) -> bool:
    if line.get("source") != digest_of_source(line["key"].partition("::")[0]):
        return False
    if line["outcome"] in NOT_KILLED:
        return line["outcome"] == "survived"  # what could not be applied takes no time to be tried
    return bool(line["test"] == digest_of_test(line["last"]))


def stamped(mutant: Mutant, outcome: str, last: str) -> dict[str, Any]:
    """Return a result with the digests of what it depends on."""
    test = "" if outcome in NOT_KILLED else digest_of_test(last)
    return {"key": mutant.key, "outcome": outcome, "last": last, "source": digest_of_source(mutant.file), "test": test}


def remember(files: Iterable[str], tests: Iterable[str]) -> None:
    """Compute digests now, so that what is edited during a run does not count as what was tried."""
    for file in files:
        digest_of_source(file)
    for test in tests:
        digest_of_test(test)


@lru_cache(None)
def digest_of_source(file: str) -> str:
    """Return a digest of a file of the package."""
    path = SOURCE / file
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.exists() else ""


@lru_cache(None)
def digest_of_test(name: str) -> str:
    """Return a digest of a test: of its file without imports and without the other tests."""
    file, _, inside = name.partition("::")
    own = inside.partition("::")[0].partition("[")[0]
    parts = [part for found, part in _parts(file) if found in ("", own)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12] if file else ""


@lru_cache(None)
def _parts(file: str) -> list[tuple[str, str]]:
    """Return the statements of a file of tests, each with the name of the test or of the class of tests that it is."""
    path = SOURCE.parents[1] / file
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
    return [(_test_name(part), ast.dump(part)) for part in body if not isinstance(part, ast.Import | ast.ImportFrom)]


def _test_name(statement: ast.stmt) -> str:
    name = getattr(statement, "name", "")
    return name if name.startswith(("test", "Test")) else ""
