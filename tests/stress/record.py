"""Records of reliability runs: what a script of this folder tried, what went wrong, and where it is written."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path

from bdkn.environment import describe_machine

RECORDS = Path(__file__).parents[2] / "benchmarks" / "records" / "reliability"


@dataclass(frozen=True)
class Figure:
    """One line of a table: what was tried how many times, and how many times the result was wrong."""

    what: str
    tried: int
    wrong: int
    remark: str = ""


@dataclass(frozen=True)
class Found:
    """A fault that a run of the script found once, and how it was mended (or why not)."""

    what: str
    mended: str


@dataclass
class Record:
    """All that one script writes: its title, command, figures and former faults."""

    name: str
    title: str
    command: str
    figures: list[Figure] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    machine: str = ""
    day: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def add(self, what: str, tried: int, wrong: int, remark: str = "") -> None:
        """Add a line to the table and print it."""
        self.figures.append(Figure(what, tried, wrong, remark))
        print(f"{what}: {tried} tried, {wrong} wrong" + (f" ({remark})" if remark else ""), flush=True)

    def write(self) -> Path:
        """Write the record to benchmarks/records/reliability/NAME.json and return the path."""
        RECORDS.mkdir(parents=True, exist_ok=True)
        path = RECORDS / f"{self.name}.json"
        path.write_text(json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return path


def read_records() -> list[Record]:
    """Return the records that are there, in the order of their names."""
    records = []
    for path in sorted(RECORDS.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        content["figures"] = [Figure(**line) for line in content["figures"]]
        content["found"] = [Found(**line) for line in content["found"]]
        records.append(Record(**content))
    return records


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every script of this folder has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the record to benchmarks/records/reliability")
    parser.add_argument("--scale", type=float, default=1.0, help="multiply the numbers of trials (default 1)")
    return parser


def _smaller(arguments: list[str]) -> list[str]:
    """Return the option that changes the numbers of trials, as it was given."""
    given = [k for k, word in enumerate(arguments) if word == "--scale"]
    return arguments[given[-1] : given[-1] + 2] if given else []


@contextmanager
def recording(name: str, title: str, command: str, found: list[Found], *, write: bool) -> Iterator[Record]:
    """Yield a record to fill, time what happens meanwhile, and write it at the end where asked for.

    A line with ``wrong > 0`` ends the script with exit status 1 after the record is written.
    """
    command = f"{command} {' '.join(_smaller(sys.argv))}".rstrip() if "--scale" not in command else command
    record = Record(name, title, command, found=list(found), machine=describe_machine(), day=date.today().isoformat())
    start, used = time.perf_counter(), sum(os.times()[:4])
    yield record
    record.seconds += time.perf_counter() - start
    record.cpu_seconds += sum(os.times()[:4]) - used  # of child processes that have ended, too
    if write:
        print(f"written to {record.write()}")
    if any(figure.wrong for figure in record.figures):
        raise SystemExit(1)
