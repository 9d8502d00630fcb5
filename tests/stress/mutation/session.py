"""A pytest session that stays in memory: it knows which test runs which lines, and runs chosen tests in a fork."""

from __future__ import annotations

import ast
import gc
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from mutation.applying import CannotApplyError, Functions, apply, caches, living_functions
from mutation.mutants import SOURCE, Mutant

ROOT = SOURCE.parents[1]
EXAMPLES = 15
"""Most examples of a hypothesis test: fewer than a test run has, the same ones each time, and none made smaller."""

_PATIENCE = 4.0, 12.0
"""A test that computes longer than the first plus the second times its usual time has noticed the mutant."""
_WAITING = 5.0
"""So many times longer a test may take on the clock, since other programs may run."""

Lines = set[tuple[str, int]]
SURVIVED, FAILED, NOT_APPLIED, TIMED_OUT = 0, 1, 2, -signal.SIGALRM
_TOO_LONG = -signal.SIGALRM, -signal.SIGPROF


@dataclass(eq=False)  # pytest keeps plugins by their hash
class Tests:
    """The tests that pass without a mutant: how long each takes, and the lines of the package that it runs."""

    items: list[pytest.Item]
    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, Lines] = field(default_factory=dict)
    functions: Functions = field(default_factory=dict)
    caches: list[Any] = field(default_factory=caches)
    failed: bool = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember that a test failed."""
        self.failed |= report.failed

    def passes(self, item: pytest.Item) -> bool:
        """Run one test with all of its fixtures and return whether it passed."""
        self.failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self.failed

    def measure(self, jobs: int, known: Path) -> None:
        """Run each test once, in ``jobs`` forks, and remember times and lines; forget those that do not pass.

        What is measured is kept in a file, and holds as long as neither the test nor the source that it runs changes.
        """
        self._read(known)
        items = [item for item in self.items if item.nodeid not in self.seconds]
        in_forks([lambda part=items[i::jobs]: self._measure(part, known) for i in range(jobs)])
        self._read(known)
        passing = [item for item in self.items if self.seconds.get(item.nodeid, -1.0) >= 0.0]
        self.items = sorted(passing, key=lambda item: self.seconds[item.nodeid])

    def _read(self, known: Path) -> None:
        for line in known.read_text(encoding="utf-8").splitlines() if known.exists() else []:
            name, stamp, seconds, lines = json.loads(line)
            if stamp == _stamp(name, lines):
                self.seconds[name] = seconds
                self.lines[name] = {(str(SOURCE / file), number) for file in lines for number in lines[file]}

    def _measure(self, items: list[pytest.Item], known: Path) -> None:
        _be_quiet()
        for item in items:
            self._forget()
            start = time.perf_counter()
            with _tracing() as run:
                passed = self.passes(item)
            lines: dict[str, list[int]] = defaultdict(list)
            for path, number in sorted(run):
                lines[str(Path(path).relative_to(SOURCE))].append(number)
            seconds = time.perf_counter() - start if passed else -1.0
            with known.open("a", encoding="utf-8") as file:
                file.write(json.dumps([item.nodeid, _stamp(item.nodeid, lines), seconds, lines]) + "\n")

    def warm_up(self, limit: float) -> None:
        """Run quick tests in this process, so that its forks find compiled code loaded; list all functions."""
        self.items = [item for item in self.items if self.seconds[item.nodeid] >= limit or self.passes(item)]
        self.functions = living_functions()
        gc.collect()
        gc.freeze()

    def that_run(self, mutant: Mutant) -> list[pytest.Item]:
        """Return the tests that run the changed lines, quick ones first."""
        wanted = lines_of(mutant)
        return [item for item in self.items if not wanted.isdisjoint(self.lines[item.nodeid])]

    def try_mutant(self, mutant: Mutant, items: Sequence[pytest.Item], budget: float) -> tuple[int, str]:
        """Run tests on a mutant in a fork and return the outcome and the test that ended it."""
        reading, writing = os.pipe()
        child = fork()
        if child == 0:
            os.close(reading)
            os._exit(self._outcome(mutant, items, budget, writing))
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            last = pipe.read().decode().rstrip("\n").rpartition("\n")[2]
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return TIMED_OUT if code in _TOO_LONG else code, last

    def _forget(self) -> None:
        for cache in self.caches:
            cache.cache_clear()

    def _outcome(self, mutant: Mutant, items: Sequence[pytest.Item], budget: float, log: int) -> int:
        _be_quiet()
        self._forget()
        try:
            apply(mutant, self.functions)
        except CannotApplyError as error:
            os.write(log, str(error).replace("\n", " ").encode())
            return NOT_APPLIED
        except Exception:  # the module could not even be imported
            return FAILED
        start = time.process_time()
        for item in items:
            if time.process_time() - start > budget:
                os.write(log, b"\n(not all tests were run)")
                break
            os.write(log, f"\n{item.nodeid}".encode())
            limit = _PATIENCE[0] + _PATIENCE[1] * self.seconds[item.nodeid]
            signal.setitimer(signal.ITIMER_PROF, limit)
            signal.setitimer(signal.ITIMER_REAL, _WAITING * limit)
            if not self.passes(item):
                return FAILED
        return SURVIVED


def _be_quiet() -> None:
    """Send what is printed to nowhere, and let timers end the process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    for timer in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(timer, signal.SIG_DFL)


def fork() -> int:
    """Return ``os.fork()`` without the warning that other threads do not go with the child: here they are idle."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def in_forks(jobs: Sequence[Callable[[], None]]) -> None:
    """Run functions in forks of this process, all at once."""
    children = []
    for job in jobs:
        child = fork()
        if child == 0:
            try:
                job()
            except BaseException:
                traceback.print_exc(file=sys.__stderr__)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _stamp(name: str, files: Iterable[str]) -> str:
    """Return a digest of the file of a test and of the files of the package that it runs."""
    return "".join(
        _digest(path) for path in (ROOT / name.partition("::")[0], *(SOURCE / file for file in sorted(files)))
    )


@lru_cache(None)
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:6] if path.exists() else "none"


class _tracing:
    """Collect the lines of the package that run inside a with block."""

    def __enter__(self) -> Lines:
        lines: Lines = set()
        source = str(SOURCE)

        def line(frame: FrameType, event: str, _: object) -> Any:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            return line

        def call(frame: FrameType, event: str, _: object) -> Any:
            return line(frame, event, None) if frame.f_code.co_filename.startswith(source) else None

        sys.settrace(call)
        return lines

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


def lines_of(mutant: Mutant) -> Lines:
    """Return the lines of which a test must run one to notice a mutant."""
    path = str(SOURCE / mutant.file)
    if isinstance(mutant.owner, ast.FunctionDef):
        if mutant.line >= mutant.owner.body[0].lineno:
            return {(path, line) for line in range(mutant.line, mutant.last_line + 1)}
        return _all_lines(path, mutant.owner)
    if isinstance(mutant.owner, ast.ClassDef):
        return _all_lines(path, mutant.owner) | _all_lines(path, mutant.module)
    return _lines_that_read(_names_set(mutant))


def _all_lines(path: str, node: Any) -> Lines:
    return {(path, inner.lineno) for inner in ast.walk(node) if isinstance(inner, ast.stmt)}


def _names_set(mutant: Mutant) -> set[str]:
    """Return the names that depend on a changed constant of a module."""
    names: set[str] = set()
    for statement in mutant.module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            read = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
            if statement.lineno == mutant.line or read & names:
                names |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} - read
    return names


def _lines_that_read(names: set[str]) -> Lines:
    return {place for name in names for place in _readers()[name]}


@lru_cache(1)
def _readers() -> dict[str, Lines]:
    """Return, for each name, the lines of the package in which it stands."""
    found: dict[str, Lines] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name | ast.Attribute):
                found[node.id if isinstance(node, ast.Name) else node.attr].add((str(path), node.lineno))
    return found


class _Plugin:
    """Takes over after the tests are collected."""

    def __init__(self, then: Callable[[Tests], None]) -> None:
        self.then = then

    def pytest_sessionstart(self) -> None:
        """Set how hypothesis chooses examples, before any test is imported."""
        settings.register_profile(
            "mutants", deadline=None, derandomize=True, database=None, max_examples=EXAMPLES,
            phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False, print_blob=False,
        )  # fmt: skip
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do what was asked for instead of running the tests."""
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        for item in session.items:
            _limit_examples(item)
        tests = Tests(session.items)
        session.config.pluginmanager.register(tests)
        self.then(tests)
        return True


def _limit_examples(item: pytest.Item) -> None:
    function = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    given = getattr(function, "_hypothesis_internal_use_settings", None)
    if given is not None and given.max_examples > EXAMPLES:
        function._hypothesis_internal_use_settings = settings(given, max_examples=EXAMPLES)  # type: ignore[union-attr]


def with_tests(folders: Sequence[str], then: Callable[[Tests], None]) -> None:
    """Collect the tests of folders and call a function with them."""
    own = Path(tempfile.gettempdir(), f"mutants-{os.getpid()}")
    options = ["-q", "-s", "-p", "no:cacheprovider", "--tb=native", "--basetemp", str(own),
               "-o", "tmp_path_retention_policy=none", "--continue-on-collection-errors"]  # fmt: skip
    os.chdir(ROOT)
    pytest.main([*options, *folders], plugins=[_Plugin(then)])
