"""One trial: a fault during some work, what is in the folder afterwards, and whether the next run repairs it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faulty.children import FINE, Ending, start, wait
from faulty.kinds import clean
from faulty.works import Signs, Work, leftovers, signs

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Reference:
    """A work without a fault: what is in the folder before and after, its processor time, and its steps on files."""

    old: Signs
    new: Signs
    cpu_seconds: float
    steps: int


def log_of(folder: Path) -> Path:
    """Return the file beside a folder to which processes print."""
    return folder.with_name("log.txt")


def reference(work: Work, folder: Path) -> Reference:
    """Do the work without a fault."""
    work.begin(clean(folder))
    old, log = signs(folder), log_of(folder)
    ending = run(work, folder)
    if ending.code != 0:
        raise RuntimeError(f"{work.name} fails without a fault: {ending}")
    new = signs(folder)
    work.begin(clean(folder))
    log.unlink(missing_ok=True)
    wait(start(lambda: work.run(folder), log, _counting(folder)), log)
    steps = log.read_text(encoding="utf-8").count("step\n")
    return Reference(old, new, ending.cpu_seconds, steps)


def _counting(folder: Path) -> Callable[[], None]:
    """Return what makes a process print a line for each of its operations on files of a folder."""
    from faulty.kinds import _TOUCHING, _is_below

    def arm() -> None:
        def hook(event: str, args: tuple[object, ...]) -> None:
            if event in _TOUCHING and args and isinstance(args[0], str | Path) and _is_below(args[0], folder):
                sys.stderr.write("step\n")
                sys.stderr.flush()

        sys.addaudithook(hook)

    return arm


def run(
    work: Work, folder: Path, arm: Callable[[], None] | None = None, kill: tuple[float, int] | None = None
) -> Ending:
    """Do the work in a process of its own, to which a fault may happen."""
    log = log_of(folder)
    log.unlink(missing_ok=True)
    return wait(start(lambda: work.run(folder), log, arm), log, kill)


def problems(folder: Path, known: Reference, ending: Ending, *, aborts: bool = False) -> list[str]:
    """Return what is wrong after a fault; ``aborts`` if a library may end the process for lack of memory."""
    found = [*_of_ending(ending, aborts=aborts), *_of_files(folder, known)]
    if ending.code == 0 and not found and signs(folder) != known.new:
        found.append("it ended well, but not everything was written")
    return found


def _of_ending(ending: Ending, *, aborts: bool) -> list[str]:
    told = ending.text.strip().rpartition("\n")[2]
    if ending.code is None:
        return ["it waited for ever"]
    if ending.code < 0 and -ending.code not in SIGNALS and not aborts:
        return [f"it crashed by signal {-ending.code}: {told}"]
    if ending.code > 0 and ending.code not in FINE and not aborts:
        return [f"an error that does not say what to do: {told}"]
    return []


def _of_files(folder: Path, known: Reference) -> list[str]:
    """Return which files are neither as before nor complete."""
    try:
        now = signs(folder)
    except Exception as error:
        return [f"a file cannot be read: {type(error).__name__}: {error}"]
    lost = [f"{name} is lost" for name in known.old if name not in now]
    other = [name for name, sign in now.items() if sign not in (known.old.get(name), known.new.get(name))]
    return lost + [f"{name} is neither the old one nor the new one" for name in other]


def not_repaired(work: Work, folder: Path, known: Reference) -> list[str]:
    """Do the work once more, without a fault; return what is wrong then."""
    if not work.again and signs(folder) == known.new:
        for name, content in work.files().items():
            (folder / name).write_bytes(content)
    ending = run(work, folder)
    if ending.code != 0:
        return [f"the next run failed: {ending.code} {ending.text[-300:]}"]
    found = [] if signs(folder) == known.new else ["the next run gave something else"]
    return found + [f"{name} is left behind" for name in leftovers(folder)]
