"""The site has every page and every public name, and explains every error and warning. ``make docs`` builds it."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path

import pytest

import bdkn
import bdkn.errors

pytest.importorskip("mkdocs")
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
HOOKS = runpy.run_path(str(ROOT / "docs" / "tools" / "hooks.py"))


def pages_of_the_site():
    pages = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    return [*pages, *HOOKS["pages_elsewhere"]().values()]


def navigation(entries):
    """Return the pages in the navigation."""
    for entry in entries:
        part = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from navigation(part) if isinstance(part, list) else [part]


def test_every_page_is_in_the_navigation_once_and_exists():
    text = re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text("utf-8"))
    pages = pages_of_the_site()
    listed = list(navigation(HOOKS["_expanded"](yaml.safe_load(text)["nav"], pages)))
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("package", ["bdkn", "bdkn.plots", "bdkn.testing", "bdkn.predictive", "bdkn.metrics"])
def test_every_public_name_is_in_the_reference(package):
    pages = "\n".join(path.read_text("utf-8") for path in (ROOT / "docs" / "api").glob("*.md"))
    listed = {line.rpartition(".")[2] for line in HOOKS["_with_names"](pages).splitlines() if line.startswith(":::")}
    names = {name for name in importlib.import_module(package).__all__ if not name.startswith("__")}
    assert names <= listed


def names_of_exceptions():
    return [
        name for name, thing in vars(bdkn.errors).items() if isinstance(thing, type) and issubclass(thing, Exception)
    ]


@pytest.mark.parametrize("name", names_of_exceptions())
def test_every_error_and_warning_is_explained(name):
    assert f"\n### {name}\n" in (ROOT / "docs" / "guide" / "troubleshooting.md").read_text("utf-8")


def test_links_are_those_of_the_site():
    text = (
        "[a](../../benchmarks/records/effort.md) ![b](../images/demo.png) [c](../../Makefile) "
        "[d](../math.md#algorithm-1) [e](#x)"
    )
    on_site = {"records/effort.md", "images/demo.png", "math.md"}
    changed = HOOKS["_with_links"](text, "docs/guide/page.md", "guide/page.md", on_site)
    assert changed == "[a](../records/effort.md) ![b](../images/demo.png) c [d](../math.md#algorithm-1) [e](#x)"


def test_nothing_is_loaded_from_elsewhere():
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert not re.search(r"https?://", settings)
    assert "font: false" in settings
    assert "http" not in (ROOT / "docs" / "stylesheets" / "site.css").read_text("utf-8")


def test_scores_on_the_page_about_other_tools_are_those_of_the_results():
    scores = runpy.run_path(str(ROOT / "docs" / "tools" / "scores.py"))
    page, results = scores["PAGE"].read_text("utf-8"), (ROOT / "docs" / "results.md").read_text("utf-8")
    assert "| Concrete |" in scores["table"](results)
    assert page == scores["with_table"](page, results), "run: python docs/tools/scores.py"
