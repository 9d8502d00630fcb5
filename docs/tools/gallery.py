"""Run the examples of the gallery and write their pages and pictures.

An example is a script in ``examples/gallery``: a docstring whose first line is the title, then cells that begin with
``# %%`` and comment lines, the text of the cell. The page of an example shows text, code, what the code prints and the
figures that it leaves open.

Run it with ``python docs/tools/gallery.py [NAME ...]``, with no names for all examples. It needs the extra "plots".
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples" / "gallery"
PAGES = ROOT / "docs" / "gallery"


@dataclass(frozen=True)
class Cell:
    """A part of an example: text in Markdown, then code."""

    text: str
    code: str
    line: int


@dataclass(frozen=True)
class Picture:
    """A figure as a PNG file, with words for readers who cannot see it."""

    png: bytes = field(repr=False)
    words: str


@dataclass(frozen=True)
class Example:
    """A script in cells."""

    name: str
    title: str
    text: str
    cells: tuple[Cell, ...]

    @classmethod
    def read(cls, path: Path) -> Example:
        """Return the example in a file."""
        source = path.read_text("utf-8")
        docstring, *parts = re.split(r"^# %%\n", source, flags=re.MULTILINE)
        title, _, text = docstring.strip().strip('"').strip().partition("\n\n")
        cells, line = [], docstring.count("\n") + 2
        for part in parts:
            comment = re.match(r"(?:#.*\n)*", part)
            words = comment.group() if comment else ""
            cells.append(
                Cell(re.sub(r"^# ?", "", words, flags=re.MULTILINE).strip(), part[len(words) :].strip("\n"), line)
            )
            line += part.count("\n") + 1
        return cls(path.stem, title.rstrip("."), text.strip(), tuple(cells))


def main(names: list[str]) -> None:
    """Run the examples with these names, or all, and write their pages, their pictures and the list of all pages."""
    examples = [Example.read(path) for path in sorted(SCRIPTS.glob("*.py"))]
    (PAGES / "images").mkdir(parents=True, exist_ok=True)
    for example in examples:
        if not names or example.name in names:
            text, pictures = run(example)
            (PAGES / f"{example.name}.md").write_text(text, "utf-8")
            for number, picture in enumerate(pictures, start=1):
                (PAGES / "images" / f"{example.name}-{number}.png").write_bytes(picture.png)
            print(f"{example.name}: {len(pictures)} pictures")
    (PAGES / "index.md").write_text(index(examples), "utf-8")


def run(example: Example) -> tuple[str, list[Picture]]:
    """Run an example; return the text of its page and its pictures."""
    parts = [f"# {example.title}", example.text]
    pictures: list[Picture] = []
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
        for cell in example.cells:
            printed = _run_cell(cell, example.name, namespace)
            parts += [cell.text, f"```python\n{cell.code}\n```"] + ([f"```text\n{printed}\n```"] if printed else [])
            for picture in _open_figures():
                pictures.append(picture)
                parts.append(f"![{picture.words}](images/{example.name}-{len(pictures)}.png)")
    script = f"examples/gallery/{example.name}.py"
    parts.append(f"*Written by `python docs/tools/gallery.py` from `{script}`, which you can run as it is.*")
    return "\n\n".join(part for part in parts if part) + "\n", pictures


def _run_cell(cell: Cell, name: str, namespace: dict[str, Any]) -> str:
    """Run the code of a cell; return what it prints."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = compile("\n" * cell.line + cell.code, f"examples/gallery/{name}.py", "exec", dont_inherit=True)
        with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
            exec(code, namespace)
    return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").splitlines())


def _open_figures() -> list[Picture]:
    """Return the open figures as pictures of few colours, which are small files, and close them."""
    import matplotlib.pyplot as plt
    from PIL import Image

    pictures = []
    for number in plt.get_fignums():
        figure, large, small = plt.figure(number), io.BytesIO(), io.BytesIO()
        figure.savefig(large, format="png", dpi=120, facecolor="white")
        image = Image.open(large).convert("RGB").quantize(128, dither=Image.Dither.NONE)
        image.save(small, format="png", optimize=True)
        titles = [figure.get_suptitle(), *(axes.get_title() or axes.get_title("left") for axes in figure.axes)]
        pictures.append(Picture(small.getvalue(), "; ".join(title for title in titles if title) or "Figure"))
        plt.close(figure)
    return pictures


def index(examples: list[Example]) -> str:
    """Return the page that lists all examples, each with its first picture."""
    cards = "\n\n".join(
        f"[![](images/{example.name}-1.png) **{example.title}** {_beginning(example.text)}]({example.name}.md)"
        for example in examples
    )
    return (
        "# Gallery\n\n"
        "Every example is a short script in `examples/gallery` with a seed and data that need no download. Each takes\n"
        "a few seconds, as it trains fewer networks for fewer epochs than the defaults do. Pages and pictures are\n"
        "written by running the scripts, and a test runs them again.\n\n"
        f'<div class="cards" markdown>\n\n{cards}\n\n</div>\n'
    )


def _beginning(text: str, most: int = 150) -> str:
    """Return the first sentences of a text, at least one, with at most ``most`` letters, and without marks of code."""
    first, *others = re.split(r"(?<=[.?])\s", " ".join(text.split()).replace("`", ""))
    for sentence in others:
        if len(first) + len(sentence) >= most:
            break
        first = f"{first} {sentence}"
    return first


if __name__ == "__main__":
    main(sys.argv[1:])
