"""docs/math.md promises that every equation has a function and a test; this holds it to that."""

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "math.md").read_text()
FUNCTIONS = sorted(set(re.findall(r"`(bdkn(?:_paper)?\.[\w.]+)`", TEXT)))
TESTS = sorted(set(re.findall(r"`((?:reproduction/)?tests/[\w/]+\.py::\w+)`", TEXT)))


def resolve(name):
    """Return the object a dotted name stands for: the longest prefix that is a module, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[cut:], module)
    raise ModuleNotFoundError(name)


def test_the_document_names_functions_and_tests():
    assert len(FUNCTIONS) >= 15
    assert len(TESTS) >= 30


def test_every_row_of_a_table_names_both():
    rows = [line for line in TEXT.splitlines() if line.startswith("|") and "---" not in line]
    for row in rows:
        if "| function |" not in row:
            assert "`bdkn." in row or "`bdkn_paper." in row, row
            assert "`tests/" in row or "`reproduction/tests/" in row, row


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_exists(name):
    if name.startswith("bdkn_paper."):
        pytest.importorskip("bdkn_paper")
    assert resolve(name) is not None


@pytest.mark.parametrize("name", TESTS)
def test_test_exists(name):
    path, test = name.split("::")
    assert re.search(rf"^\s*def {test}\(", (ROOT / path).read_text(), re.MULTILINE)
