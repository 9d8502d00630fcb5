"""Write docs/reliability.md from the records in benchmarks/records/reliability.

python tests/stress/page.py
"""

from __future__ import annotations

from pathlib import Path

from record import Record, read_records

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
START = """# Reliability

What was done to break `bdkn`, and how often it broke. Each table is made by the command above it; `make stress` runs
all of them, which takes longer than `make test`. "Wrong" counts trials in which the process crashed, something written
was lost, the result was not what it had to be, or the error was not one that says what to do.
"""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(record: Record) -> str:
    lines = ["| tried | trials | wrong | remark |", "| --- | ---: | ---: | --- |"]
    lines += [f"| {_cell(f.what)} | {f.tried:,} | {f.wrong:,} | {_cell(f.remark)} |" for f in record.figures]
    return "\n".join(lines)


def _found(record: Record) -> str:
    if not record.found:
        return ""
    lines = ["", "Found and mended:", "", "| what broke | how it was mended |", "| --- | --- |"]
    lines += [f"| {_cell(f.what)} | {_cell(f.mended)} |" for f in record.found]
    return "\n".join(lines) + "\n"


def section(record: Record) -> str:
    """Return the part of the page about one record."""
    seconds = f"{record.seconds:.0f} s, {record.cpu_seconds:.0f} CPU s"
    told = f"`{record.command}` ({record.day}; {record.machine}; {seconds})"
    return f"\n## {record.title}\n\n{told}\n\n{_table(record)}\n{_found(record)}"


def page(records: list[Record]) -> str:
    """Return the page as Markdown."""
    return START + "".join(section(record) for record in records)


if __name__ == "__main__":
    PAGE.write_text(page(read_records()), encoding="utf-8")
    print(f"written to {PAGE}")
