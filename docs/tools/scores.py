"""Copy scores from ``docs/results.md`` into the page about other tools, so that there is one source of numbers.

Run it with ``python docs/tools/scores.py`` after ``bdkn-paper results`` has written new results.
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "guide" / "other-tools.md"
PARTS = re.compile(r"(<!-- scores -->\n\n).*?(\n\n<!-- end of scores -->)", re.DOTALL)

COLUMNS = {
    "NGBoost": "NGBoost",
    "CatBoost stopped": "CatBoost, stopped early",
    "BDE": "BDE",
    "best published": "TabPFN v2, as printed",
    "BDKN": "BDKN",
    "Stacking": "our stack",
}


def rows_of(text: str, heading: str) -> list[dict[str, str]]:
    """Return the rows of the first table below a heading."""
    lines = text.split(f"\n### {heading}\n", 1)[1].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    names = _cells(lines[start])
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(names, _cells(line), strict=True)))
    return rows


def table(text: str) -> str:
    """Return the table of NLLs of some methods, from the text of the results."""
    lines = [f"| data set | {' | '.join(COLUMNS.values())} |", "| --- |" + " ---: |" * len(COLUMNS)]
    for row in rows_of(text, "NLL"):
        cells = [_mean(row[name], name) for name in COLUMNS]
        if cells[-1] != "–":
            lines.append(f"| {row['data set']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _mean(cell: str, name: str) -> str:
    """Return the mean of a score to two digits, with the number of splits if some are missing."""
    found = re.search(r"-?\d+\.\d+", cell)
    if found is None or (name == "best published" and "TabPFN" not in cell):
        return "–"
    splits = re.search(r"\((\d+)/(\d+)\)", cell)
    return f"{float(found.group()):.2f}" + (f" ({splits[1]} of {splits[2]})" if splits else "")


def with_table(page: str, results: str) -> str:
    """Return the text of the page with the table of the results."""
    return PARTS.sub(lambda match: match[1] + table(results) + match[2], page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), (DOCS / "results.md").read_text("utf-8")), "utf-8")
