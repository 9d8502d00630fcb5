"""The whole way from a CSV file to a page in a browser, as processes of their own."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "csv_to_page.py"


@pytest.fixture(scope="module")
def script():
    """Return the script that makes a mixed table, runs the commands and opens the page."""
    spec = importlib.util.spec_from_file_location("csv_to_page", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    if module.CHROMIUM is None:
        pytest.skip("there is no chromium on the PATH")
    return module


def test_a_csv_file_becomes_a_page_that_a_browser_shows(script, tmp_path):
    steps, shown = script.from_csv_to_page(tmp_path, 200, "fast")
    assert [step.name for step in steps] == ["bdkn fit", "bdkn report", "opening the page"]
    assert not shown["errors"]
    assert "What drives predictions" in shown["headings"]
    assert "What if" in " ".join(shown["headings"])
