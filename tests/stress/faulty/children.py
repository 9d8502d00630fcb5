"""Processes made by fork that do one piece of work, and to which something happens meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bdkn.errors import BDKNError

LONGEST_S = 240.0
TOLD, UNEXPECTED = 10, 20
"""Exit codes: the work raised an error that says what is wrong, or one that does not."""

FINE = (0, 2, TOLD, 130, 143)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ending:
    """How a process ended: its exit code, negative for a signal, None if it had to be killed; and what it printed."""

    code: int | None
    text: str
    cpu_seconds: float = 0.0


def start(work: Callable[[], None], log: Path, arm: Callable[[], None] | None = None) -> int:
    """Start the work in a process made by fork, after ``arm`` was called there; return the number of the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = UNEXPECTED
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.stdout = sys.stderr = log.open("a", buffering=1, encoding="utf-8")
        for stream in (1, 2):
            os.dup2(sys.stdout.fileno(), stream)
        code = _done(work, arm)
    except BaseException:  # a signal while the error is reported
        code = TOLD
    finally:
        os._exit(code)


def _done(work: Callable[[], None], arm: Callable[[], None] | None) -> int:
    """Do the work and return the exit code."""
    try:
        if arm is not None:
            arm()
        work()
    except SystemExit as end:
        return int(end.code or 0)
    except (BDKNError, OSError, MemoryError, KeyboardInterrupt) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return TOLD
    except BaseException:
        traceback.print_exc()
        return UNEXPECTED
    return 0


def wait(pid: int, log: Path, kill: tuple[float, int] | None = None) -> Ending:
    """Wait for a process, and send it a signal when it has used so many seconds of the processor."""
    began, cpu = time.monotonic(), 0.0
    while time.monotonic() - began < LONGEST_S:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            return Ending(os.waitstatus_to_exitcode(status), _text(log), used.ru_utime + used.ru_stime)
        if kill is not None and (cpu := _cpu_seconds(pid, cpu)) >= kill[0]:
            os.kill(pid, kill[1])
            kill = None
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return Ending(None, _text(log))


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


def _cpu_seconds(pid: int, otherwise: float) -> float:
    """Return the seconds of the processor that a process has used, so far as the system tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    except (OSError, IndexError):
        return otherwise + 0.002
