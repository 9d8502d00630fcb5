"""Trials of hostile files in child processes: whatever crashes there, or takes memory, is seen from here."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile import values

Line = tuple[str, int, list[str], str]
"""What was tried, how many times, what was wrong, and a remark."""

SECONDS = 120
"""Longest time of a child."""

MOST_MIB = 1024
"""Most memory that reading a hostile file may need, beyond that of the process before."""


def in_child(work: Callable[[], str], *, address_space: int = 8 << 30) -> tuple[str, int]:
    """Return what ``work`` returned in a child process, and the MiB that it needed; what ended it, if it was ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        signal.alarm(SECONDS)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
        try:
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
        os.write(writer, json.dumps([said[:2000], used]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        answer = file.read()
    _, status = os.waitpid(child, 0)
    return tuple(json.loads(answer)) if answer else (f"ended by status {status}", 0)  # type: ignore[return-value]


def read_both_ways(path: Path) -> str:
    """Read a table whole and in blocks; return "" if each time it was read or told by name."""
    from bdkn.errors import InvalidParameterError
    from bdkn.table_files import column_names, open_blocks, read_table

    def in_blocks() -> None:
        for _ in open_blocks(path, dict.fromkeys(column_names(path)[:1000], "text")):
            pass

    for work in (lambda: read_table(path), in_blocks):
        try:
            work()
        except InvalidParameterError as error:
            if path.name[:50] not in str(error) or len(str(error)) > 5000:
                return f"unclear: {error}"
    return ""


def parquet_files(place: Path, scale: float) -> Iterator[Line]:
    """Damage Parquet files; a child reads a hundred of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    count, path = max(1, round(3000 * scale)), place / "table.parquet"
    table = pa.table({"a": [1.5, 2.5] * 50, "b": ["x", None] * 50, "c": pa.array([1, 2] * 50).cast(pa.timestamp("s"))})
    pq.write_table(table, path, compression="snappy")
    whole, wrong = path.read_bytes(), []

    def some(first: int) -> str:
        for i in range(first, min(first + 100, count)):
            path.write_bytes(values.damaged(whole, random.Random(f"parquet/{i}")))
            if found := read_both_ways(path):
                return f"{i}: {found}"
        return ""

    for first in range(0, count, 100):
        said, _ = in_child(lambda first=first: some(first))
        wrong += [f"Parquet from {first}: {said}"] if said else []
    yield "Parquet, damaged: told by name or read, no crash", count, wrong, "100 files a child process"


def special_files(place: Path, scale: float) -> Iterator[Line]:
    """Name pipes, devices, folders and links in a circle as tables, records and experiments."""
    folder, wrong = place / "special", []
    folder.mkdir()
    (folder / "00").mkdir()
    makers: dict[str, Callable[[Path], object]] = {
        "pipe": os.mkfifo,
        "loop": lambda path: path.symlink_to(path.name),
        "zero": lambda path: path.symlink_to("/dev/zero"),
        "random": lambda path: path.symlink_to("/dev/urandom"),
        "terminal": lambda path: path.symlink_to("/dev/tty"),
        "folder": lambda path: path.mkdir(),
        "dangling": lambda path: path.symlink_to(folder / "nothing"),
    }
    endings = (".csv", ".tsv.gz", ".parquet", ".json", ".toml")
    for kind, make in makers.items():
        for ending in endings:
            path = folder / "00" / f"{kind}{ending}"
            make(path)
            said, _ = in_child(lambda path=path: _read_special(path))
            wrong += [f"{path.name}: {said}"] if said else []
    shutil.rmtree(folder)
    yield (
        "pipes, devices, folders, circular links as tables, records, experiments: told",
        len(makers) * len(endings),
        wrong,
        "",
    )


def _read_special(path: Path) -> str:
    if path.suffix not in (".json", ".toml"):
        return read_both_ways(path)
    from bdkn_paper.experiments import load_experiment
    from bdkn_paper.store import Store

    if path.suffix == ".json":
        told: list[str] = []
        found = list(Store(path.parents[1], told.append))
        return "" if not found and any(str(path) in text for text in told) else f"{found} {told}"
    try:
        load_experiment(path)
    except (ValueError, OSError) as error:
        return "" if str(path) in str(error) else f"unclear: {error}"
    return "read"


def bombs(place: Path, scale: float) -> Iterator[Line]:
    """Read files that expand, and files with lines without end, in children whose memory is measured."""
    wrong, most, made = [], 0, dict(_bombs(place / "bombs", max(0.02, min(1.0, scale))))
    for path in made.values():
        said, used = in_child(lambda path=path: read_both_ways(path))
        most = max(most, used)
        wrong += [f"{path.name}: {said}"] if said else []
        wrong += [f"{path.name}: {used} MiB"] if used > MOST_MIB else []
    shutil.rmtree(place / "bombs")
    yield (
        f"files of {1024 * min(1.0, scale):.0f} MiB when expanded, endless lines, 100 000 columns: bounded memory",
        len(made),
        wrong,
        f"at most {most} MiB more than before",
    )


def _bombs(folder: Path, scale: float) -> Iterator[tuple[str, Path]]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for name, block in {"lines": b"1,2\n", "line": b"x", "quotes": b'"x\n', "text": b"word,word\n"}.items():
        path = folder / f"{name}.csv.gz"
        packer, content = zlib.compressobj(9, zlib.DEFLATED, 31), block * ((1 << 20) // len(block))
        with path.open("wb") as file:
            file.write(packer.compress(b"a,b\n"))
            for _ in range(round(1024 * scale)):
                file.write(packer.compress(content))
            file.write(packer.flush())
        yield name, path
    plain = {
        "long line": b"a,b\n1," + b"x" * 100_000_000 + b"\n2,3\n",
        "long header": b"a" * 100_000_000 + b"\n2,3\n",
        "long quote": b'a,b\n1,"' + b"x,\n" * 33_000_000 + b"\n2,3\n",
        "columns": b",".join(b"column %d" % j for j in range(100_000)) + b"\n" + b",".join([b"1"] * 100_000) + b"\n",
        "commas": b"," * 10_000_000,
    }
    for name, content in plain.items():
        path = folder / f"{name}.csv"
        path.write_bytes(content)
        yield name, path
    codes = pa.array(np.zeros(1 << 20, np.int32))
    texts = pa.table({"a": pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 100_000]))})
    pq.write_table(texts, folder / "texts.parquet", store_schema=False)
    yield "texts", folder / "texts.parquet"
    rows = pa.table({f"c{j}": codes for j in range(8)})
    with pq.ParquetWriter(folder / "rows.parquet", rows.schema) as file:
        for _ in range(max(17, round(64 * scale))):
            file.write_table(rows)
    yield "rows", folder / "rows.parquet"


def commands(place: Path, scale: float) -> Iterator[Line]:
    """Predict hostile tables by the command; the output is complete or not there, and nothing else is written."""
    folder, count, wrong, ends = place / "commands", max(1, round(100 * scale)), [], {0: 0, 2: 0}
    folder.mkdir()
    said, _ = in_child(lambda: _fit(folder))
    if said:
        raise RuntimeError(said)
    before = {path.name for path in folder.iterdir()}
    for i in range(count):
        said, used = in_child(lambda i=i: _predict(folder, random.Random(f"command/{i}")), address_space=64 << 30)
        extra = (
            {path.name for path in folder.iterdir()}
            - before
            - {"out.csv"}
            - {f"in{end}" for end in (".csv", ".tsv", ".csv.gz", ".tsv.gz")}
        )
        wrong += [f"command {i}: left {extra}"] if extra else []
        wrong += [f"command {i}: {used} MiB"] if used > MOST_MIB else []
        if said in ("0", "2"):
            ends[int(said)] += 1
        else:
            wrong.append(f"command {i}: {said}")
    shutil.rmtree(folder)
    yield (
        "`bdkn predict` of hostile tables in a child: exit 0 with every row, or exit 2 and one paragraph",
        count,
        wrong,
        f"{ends[0]} predicted, {ends[2]} told",
    )


def _fit(folder: Path) -> str:
    import numpy as np
    import pandas as pd

    from bdkn import BDKNRegressor

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": rng.choice(["x", "y"], 60)})
    options: dict[str, Any] = {"n_members": 2, "epochs": 10, "density": "student-t", "effort": "fast"}
    BDKNRegressor(random_state=0, **options).fit(X, X["a"].to_numpy() + rng.normal(size=60)).save(folder / "m.bdkn")
    return ""


def _predict(folder: Path, rng: random.Random) -> str:
    """Return the exit status of a prediction, or what was wrong."""
    from typer.testing import CliRunner

    from bdkn.cli import app
    from bdkn.table_files import read_table

    rows = [
        [f"{rng.uniform(-2, 2):.2f}", rng.choice(("x", "y", rng.choice(values.TEXTS).replace("\0", "")))]
        for _ in range(rng.randrange(1, 9))
    ]
    ending, content = values.written(["a", "b"], rows, rng)
    data, out = folder / f"in{ending}", folder / "out.csv"
    data.write_bytes(content if rng.random() < 0.4 else values.damaged(content, rng))
    out.unlink(missing_ok=True)
    ran = CliRunner().invoke(
        app, ["predict", str(folder / "m.bdkn"), str(data), "--keep", "b", "--out", str(out), "--jobs", "1"]
    )
    if ran.exit_code not in (0, 2) or "\x1b" in ran.output or "Traceback" in ran.output:
        return f"{ran.exit_code} {ran.exception!r} {ran.output[-300:]}"
    if ran.exit_code == 2:
        return f"2 but there is an output: {ran.output}" if out.exists() else "2"
    written = read_table(out)
    expected = len(read_table(data))
    if len(written) != expected or written["mean"].isna().any():
        return f"{len(written)} rows in place of {expected}"
    return "0"


def pages(place: Path, scale: float) -> Iterator[Line]:
    """Open pages of hostile names and values in Chromium; no script of them runs, and nothing is asked for."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("no chromium: pages are not tried", file=sys.stderr)
        return
    import numpy as np
    import pandas as pd
    from playwright.sync_api import sync_playwright

    from bdkn import BDKNRegressor
    from bdkn.report.page import make_page

    rng, count, wrong = np.random.default_rng(0), max(1, round(10 * scale)), []
    texts = [text for text in values.TEXTS if text.strip()]
    X = pd.DataFrame({name: rng.choice(texts, 150) for name in texts[14:18]})
    X[texts[10]] = rng.normal(size=150)
    y = X[texts[10]].to_numpy() + rng.normal(size=150)
    options: dict[str, Any] = {"n_members": 2, "epochs": 10, "density": "student-t", "effort": "fast"}
    model, path = BDKNRegressor(random_state=0, **options).fit(X[:100], y[:100]), place / "page.html"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for i in range(count):
            some = rng.permutation(100)[:50] + 50
            make_page(
                model, X.iloc[some], y[some], title=texts[i % len(texts)], target_name=texts[-i % len(texts)]
            ).save(path)
            page, asked, said = browser.new_page(), [], []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.on("dialog", lambda dialog, said=said: (said.append(dialog.message), dialog.dismiss()))
            page.on("pageerror", lambda error, said=said: said.append(str(error)))
            page.goto(path.as_uri())
            page.wait_for_timeout(50)
            hacked = page.evaluate("window.hacked")
            if hacked is not None or said or asked != [path.as_uri()]:
                wrong.append(f"page {i}: {hacked} {said} {asked}")
            page.close()
        browser.close()
    yield "pages of hostile names and values in Chromium: no script runs, nothing is asked for", count, wrong, ""
