"""Values that enemies write into files, and generators of tables, records and experiments made of them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from typing import Any

TEXTS = (
    "../../x",
    "/tmp/hostile",
    "..\\..\\x",
    "C:\\x",
    "a\0b",
    "a\nb",
    "a\r\nb",
    "x" * 300,
    "con",
    "NUL",
    "[/bold]",
    "[red]x",
    "\x1b[31m\x1b]0;x\x07",
    "\u202eabc",
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=1>',
    "a | b\n# c",
    "=1+1",
    "+cmd|' /C calc'!A0",
    "@SUM(1)",
    "-2+cmd",
    "\t=1",
    "\\input{x} $a_{",
    "{{ 7 * 7 }}",
    "1e999",
    "1_000",
    "١٢٣",
    "0x10",
    "0000-01-01",
    "99999-12-31",
    "NaN",
    "",
    " ",
    "\u2028",
    "\x85",
    "é",
    "😀",
    'a"b',
    '"',
    "a,b;c\td",
    "true",
)
NUMBERS = (0, -1, 1, 2**31, 2**63, 2**64, 10**30, 10**400, -(10**18), 0.5, 1e308, float("inf"), float("nan"))


def value(rng: random.Random, depth: int = 3) -> Any:
    """Return a hostile JSON value."""
    kind = rng.randrange(9)
    if kind < 3:
        return rng.choice(TEXTS)
    if kind < 5:
        return rng.choice(NUMBERS)
    if kind == 5:
        return rng.choice((None, True, False))
    if kind == 6:
        return nested(rng.choice((5, 15, 17, 60, 300)), rng.choice(("list", "dict")))
    parts = [value(rng, depth - 1) for _ in range(rng.randrange(4))] if depth else []
    return parts if kind == 7 else {rng.choice(TEXTS): part for part in parts}


def nested(levels: int, kind: str) -> Any:
    """Return lists in lists, or tables in tables."""
    found: Any = 1
    for _ in range(levels):
        found = [found] if kind == "list" else {"a": found}
    return found


def changed(document: Any, rng: random.Random) -> Any:
    """Return a document in which one to three places are replaced, removed, or added."""
    found = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        tables = [part for part in _tables(found) if part]
        place = rng.choice(tables) if tables else found
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        action = rng.randrange(5)
        if action == 0 and isinstance(place, dict):
            place[rng.choice(TEXTS)] = value(rng)
        elif action == 1:
            del place[rng.choice(keys)]
        else:
            place[rng.choice(keys)] = value(rng)
    return found


def _tables(document: Any) -> list[Any]:
    if not isinstance(document, dict | list):
        return []
    parts = document.values() if isinstance(document, dict) else document
    return [document, *(table for part in parts for table in _tables(part))]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with one to four changes: flipped, cut, doubled, removed, or with hostile bytes put in."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(found) + 1)
        action = rng.randrange(7)
        if action == 0 and at < len(found):
            found[at] = rng.randrange(256)
        elif action == 1:
            del found[at:]
        elif action == 2:
            del found[at : at + rng.randrange(1, 20)]
        elif action == 3:
            found[at:at] = found[at : at + rng.randrange(1, 40)]
        elif action == 4:
            found[at:at] = rng.choice(
                (b'"', b",", b"\n", b"\r", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b";", b"\t", b'""')
            )
        elif action == 5:
            found[at:at] = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
        else:
            found[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
    return bytes(found)


def table(rng: random.Random) -> tuple[list[str], list[list[str]]]:
    """Return the names and cells of a table: texts of any kind, and columns of numbers."""
    width, height = rng.randrange(2, 7), rng.randrange(1, 12)
    names = [f"{_cell(rng)[:50]} c{j}".strip() for j in range(width)]
    numbers = [rng.random() < 0.4 for _ in range(width)]
    rows = [[f"{rng.uniform(-9, 9):.3f}" if plain else f"t{_cell(rng)}" for plain in numbers] for _ in range(height)]
    return names, rows


def _cell(rng: random.Random) -> str:
    return rng.choice(TEXTS).replace("\0", "").replace("\r", "")


def written(names: list[str], rows: list[list[str]], rng: random.Random) -> tuple[str, bytes]:
    """Return the ending of a file and its content: any delimiter, quoting, ends of lines, encoding, compression."""
    delimiter = rng.choice((",", ";", "\t", "|"))
    ending = ".tsv" if delimiter == "\t" else ".csv"
    text = io.StringIO(newline="")
    quoting = rng.choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC))
    if len(names) * len(rows) < 30 and ending == ".csv":
        quoting, delimiter = csv.QUOTE_ALL, ","  # of few cells the delimiter cannot be told from what they contain
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=rng.choice(("\n", "\r\n")))
    writer.writerows([names, *rows])
    encoding = rng.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16"))
    content = text.getvalue().encode(encoding)
    return (f"{ending}.gz", gzip.compress(content, 1)) if rng.random() < 0.25 else (ending, content)
