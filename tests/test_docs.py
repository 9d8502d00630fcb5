"""The glossary names existing code, and links of all documents lead to files. ``test_snippets.py`` runs their code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKS = [
    (page, link)
    for page in PAGES
    for link in sorted(set(re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))))
    if not re.match(r"https?:|mailto:", link)
]


@pytest.mark.parametrize(("page", "link"), LINKS, ids=[f"{page.name}: {link}" for page, link in LINKS])
def test_links_lead_to_files(page: Path, link: str) -> None:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    assert target.exists(), f"{page.relative_to(ROOT)} links to {path}, which does not exist"
    if anchor:
        assert anchor in anchors_of(target), f"{page.relative_to(ROOT)} links to {link}, which has no such heading"


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def glossary_names() -> list[str]:
    """Return the names in code that stand in the last column of the glossary."""
    rows = [line for line in (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines() if line.startswith("|")]
    return sorted({name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[3])})


@pytest.fixture(scope="module")
def source() -> str:
    folders = (ROOT / "src", ROOT / "reproduction" / "src")
    return "\n".join(path.read_text("utf-8") for folder in folders for path in sorted(folder.rglob("*.py")))


@pytest.mark.parametrize("name", glossary_names())
def test_names_of_the_glossary_are_in_the_code(name: str, source: str) -> None:
    assert re.search(rf"\b{name.rpartition('.')[2]}\b", source)


def test_version_and_date_are_the_same_everywhere() -> None:
    projects = [ROOT / "pyproject.toml", ROOT / "reproduction" / "pyproject.toml"]
    (version,) = {tomllib.loads(path.read_text("utf-8"))["project"]["version"] for path in projects}
    heading = re.search(r"^## \[(.+?)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heading is not None
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert heading.groups() == (version, re.search(r"^date-released: (\S+)$", citation, re.MULTILINE)[1])
    assert f"\nversion: {version}\n" in citation
