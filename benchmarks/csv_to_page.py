"""Measure the way from a CSV file to a page in a browser: `bdkn fit`, `bdkn report`, and Chromium.

    python benchmarks/csv_to_page.py [--write] [--rows 10000] [--effort balanced]

The table has 20 columns: numbers, some with gaps, categories of 5 and of 200 values, dates and booleans. A fifth of the
rows is kept for the page. Each command runs in a process of its own; CPU seconds are those of all threads. With
``--write`` the results are written to benchmarks/records/csv_to_page.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bdkn.environment import describe_machine

RECORDS = Path(__file__).parent / "records"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
BAR = 120.0
"""Seconds that all steps together should take on two cores."""


@dataclass(frozen=True)
class Step:
    """One step: its name, seconds by the clock and of the processor; the latter are not known of the browser."""

    name: str
    wall: float
    cpu: float | None


def mixed_table(n: int, seed: int = 0) -> pd.DataFrame:
    """Return a table with 20 columns of all kinds and the target ``price``; the same for the same seed."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 12))
    frame = pd.DataFrame(numbers.round(4), columns=[f"x{j}" for j in range(12)])
    for name in ("x3", "x7"):
        frame.loc[rng.random(n) < 0.08, name] = np.nan
    colour, shop = rng.integers(0, 5, n), rng.integers(0, 200, n)
    frame["colour"] = np.array(["red", "green", "blue", "white", "black"])[colour]
    frame["heating"] = rng.choice(["gas", "oil", "pump", "wood", "none"], n)
    frame.loc[rng.random(n) < 0.05, "heating"] = None
    frame["shop"] = [f"shop {number}" for number in shop]
    frame["street"] = [f"street {number}" for number in rng.integers(0, 200, n)]
    days = rng.integers(0, 1500, n)
    frame["sold"] = (pd.Timestamp("2021-01-01") + pd.to_timedelta(days, unit="D")).strftime("%Y-%m-%d")
    frame["listed"] = (pd.Timestamp("2020-06-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")).strftime("%F")
    frame["lift"], frame["garden"] = rng.random(n) < 0.5, rng.random(n) < 0.3
    effect = np.random.default_rng(1).normal(size=200)[shop] + 0.5 * colour
    season = np.sin(2 * np.pi * days / 365.25)
    center = 10 + 2 * np.sin(numbers[:, 0]) + numbers[:, 1] * frame["lift"] + effect + 0.5 * season
    frame["price"] = (center + np.exp(0.3 * numbers[:, 2] - 1.0) * rng.standard_t(6, n)).round(3)
    return frame


def command(name: str, words: Sequence[str]) -> Step:
    """Run a verb of the command and return what it took."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "bdkn", name, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    with process.stderr as stream:
        text = stream.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # the process is not waited for again
    if status:
        raise RuntimeError(text.decode())
    return Step(f"bdkn {name}", time.perf_counter() - start, usage.ru_utime + usage.ru_stime)


def opened(page: Path) -> tuple[Step, dict[str, Any]]:
    """Open a page in Chromium and return what it took, and what the page shows: title, headings, and errors."""
    from playwright.sync_api import sync_playwright

    start, errors = time.perf_counter(), []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page()
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(page.as_uri())
        tab.wait_for_selector("h2")
        shown = {"title": tab.title(), "headings": tab.locator("h2").all_inner_texts(), "errors": errors}
        browser.close()
    return Step("opening the page", time.perf_counter() - start, None), shown


def from_csv_to_page(folder: Path, rows: int, effort: str) -> tuple[list[Step], dict[str, Any]]:
    """Write a table, fit a model to it, write its page and open it; return the steps and what the page shows."""
    table, kept = mixed_table(rows), rows // 5
    train, new, model, page = (folder / name for name in ("train.csv", "new.csv", "model.bdkn", "page.html"))
    table[kept:].to_csv(train, index=False)
    table[:kept].to_csv(new, index=False)
    steps = [
        command("fit", [str(train), "--target", "price", "--out", str(model), "--effort", effort]),
        command("report", [str(model), str(new), "--out", str(page)]),
    ]
    step, shown = opened(page)
    return [*steps, step], shown


def text_of(machine: str, rows: int, effort: str, steps: Sequence[Step]) -> str:
    """Return the results as Markdown."""
    total = sum(step.wall for step in steps)
    lines = [
        "# From a CSV file to a page",
        "",
        "`python benchmarks/csv_to_page.py --write`",
        "",
        f"Machine: {machine}",
        "",
        f"A table of {rows:,} rows and 20 columns of all kinds, effort {effort!r}; a fifth of the rows is for the "
        f"page. All steps took {total:.0f} s by the clock (aim: {BAR:.0f} s). Where CPU seconds are "
        "fewer than those by the clock, the machine was busy with other work.",
        "",
        "| step | clock, s | CPU, s |",
        "| --- | ---: | ---: |",
    ]
    lines += [f"| {step.name} | {step.wall:.1f} | {'' if step.cpu is None else f'{step.cpu:.1f}'} |" for step in steps]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write if asked to."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true")
    options.add_argument("--rows", type=int, default=10_000)
    options.add_argument("--effort", default="balanced")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        steps, shown = from_csv_to_page(Path(name), given.rows, given.effort)
    assert not shown["errors"], shown["errors"]
    machine = describe_machine()
    text = text_of(machine, given.rows, given.effort, steps)
    print(text)
    if given.write:
        record = {"machine": machine, "rows": given.rows, "effort": given.effort, "steps": [asdict(s) for s in steps]}
        (RECORDS / "csv_to_page.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        (RECORDS / "csv_to_page.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
