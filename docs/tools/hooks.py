"""Hooks of MkDocs: pages that lie outside of ``docs``, links that lead to them, lists of public names.

``benchmarks/records/*.md`` and other texts of the repository are on the site, too, so that every number's record is one
click away. Links are written as they work in the repository, and are changed here to those that work on the site. A
link to a file that is not on the site becomes plain text.
"""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]

ELSEWHERE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "reproduction/README.md": "reproducing.md",
}
"""Texts outside of ``docs``, and the pages they are on the site."""


ALONE = ("index.md", "start.md")
"""Pages that are a tab of their own, beside which a list of pages would have one entry."""


def pages_elsewhere() -> dict[str, str]:
    """Return the texts outside of ``docs`` by their paths in the repository, records of benchmarks among them."""
    pages = dict(ELSEWHERE)
    for folder in ("benchmarks/records", "reproduction/results"):
        for path in sorted((ROOT / folder).glob("*.md")):
            pages[f"{folder}/{path.name}"] = f"records/{path.name}"
    return pages


def on_config(config: Any) -> Any:
    """Put the pages of a folder into the navigation in place of ``folder/*.md``."""
    pages = [str(path.relative_to(ROOT / "docs")) for path in sorted((ROOT / "docs").rglob("*.md"))]
    config.nav = _expanded(config.nav, [*pages, *sorted(pages_elsewhere().values())])
    return config


def _expanded(nav: list[Any], pages: list[str]) -> list[Any]:
    """Return the navigation with ``folder/*.md`` replaced by those ``pages`` of the folder that it does not name."""
    entries: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            entries += [
                {name: _expanded(part, pages) if isinstance(part, list) else part for name, part in entry.items()}
            ]
        elif entry.endswith("*.md"):
            entries += [page for page in pages if page.startswith(entry[:-4]) and page not in nav]
        else:
            entries.append(entry)
    return entries


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie outside of ``docs``."""
    for source, page in pages_elsewhere().items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the text of a page with lists of names, and links as they work on the site."""
    uri = page.file.src_uri
    if uri in ALONE:
        page.meta["hide"] = ["navigation"]
    sources = {page: source for source, page in pages_elsewhere().items()}
    source = sources.get(uri, f"docs/{uri}")
    indented = re.sub(r"^  (?=- )", "    ", markdown, flags=re.MULTILINE)  # lists in lists, as MkDocs reads them
    return _with_links(_with_names(indented), source, uri, set(files.src_uris))


def _with_links(markdown: str, source: str, uri: str, on_site: set[str]) -> str:
    """Return the text in which links from the file ``source`` are links from the page ``uri``."""
    elsewhere = pages_elsewhere()

    def changed(match: re.Match[str]) -> str:
        bang, text, link, anchor = match.groups()
        target = os.path.normpath(os.path.join(os.path.dirname(source), link))
        page = elsewhere.get(target) or target.removeprefix("docs/")
        if page not in on_site:
            return str(text)
        return f"{bang}[{text}]({os.path.relpath(page, os.path.dirname(uri))}{anchor or ''})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)", changed, markdown)


def _with_names(markdown: str) -> str:
    """Return the text with one entry of the API reference for each name that a mark stands for.

    ``<!-- names: bdkn.plots -->`` stands for the public names of a package, ``<!-- names: bdkn from bdkn.metrics -->``
    for the names of ``bdkn`` that live in a module, ``<!-- names: bdkn but bdkn.metrics bdkn.errors -->`` for those
    that live in none of some modules. ``<!-- classes: bdkn.errors -->`` stands for the classes of a module.
    """
    text = re.sub(r"<!-- names: (.*?) -->", lambda match: _entries(match.group(1)), markdown)
    return re.sub(r"<!-- classes: (.*?) -->", lambda match: _classes(match.group(1)), text)


def _classes(module: str) -> str:
    """Return one entry for each class that a module defines."""
    things = vars(importlib.import_module(module))
    names = [name for name, thing in things.items() if isinstance(thing, type) and thing.__module__ == module]
    return "\n\n".join(f"::: {module}.{name}" for name in names)


def _entries(mark: str) -> str:
    package, *rest = mark.split()
    names = importlib.import_module(package).__all__
    if rest:
        homes = importlib.import_module(package)._HOME
        inside = [name for home in rest[1:] for name in homes.get(home, ())]
        names = inside if rest[0] == "from" else [name for name in names if name not in inside]
    return "\n\n".join(f"::: {package}.{name}" for name in names if not name.startswith("__"))
