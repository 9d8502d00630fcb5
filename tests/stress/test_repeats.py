"""The script that repeats the tests shuffles them, counts them, and names those that fail."""

import runpy
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

REPEATS = runpy.run_path(str(Path(__file__).parent / "repeats.py"))

TESTS = """
import os
from pathlib import Path

SEEN = Path(os.environ["SEEN"])


def test_first():
    SEEN.write_text("first has run")


def test_fails_before_the_first():
    assert SEEN.exists()


def test_always_passes():
    assert True
"""


@pytest.mark.parametrize(("seed", "wrong"), [(4, 1), (5, 0)])  # orders in which the first is last, and first
def test_a_test_that_depends_on_the_order_is_found(tmp_path, monkeypatch, seed, wrong):
    (tmp_path / "test_dependent.py").write_text(TESTS, encoding="utf-8")
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    outcome = REPEATS["repeat"](range(seed, seed + 1), [str(tmp_path), "--rootdir", str(tmp_path)], beside=1)
    assert outcome.tests == 3
    assert outcome.failed == Counter({"test_dependent.py::test_fails_before_the_first": wrong} if wrong else {})
    assert outcome.remark().startswith("1 runs" + wrong * "; test_dependent.py::test_fails_before_the_first in 1 of 1")


def test_a_run_that_does_not_begin_is_wrong(tmp_path):
    outcome = REPEATS["repeat"](range(1, 2), [str(tmp_path / "nothing")])
    assert (outcome.tests, outcome.failed.total()) == (1, 1)
    assert "nothing" in outcome.remark()


class Item:
    def __init__(self, nodeid):
        self.nodeid = nodeid


def test_tests_of_a_module_stay_together(monkeypatch):
    monkeypatch.setenv("BDKN_SHUFFLE", "3")
    items = [Item(f"tests/test_{module}.py::test_{k}") for module in "abcd" for k in range(5)]
    shuffled = list(items)
    REPEATS["pytest_collection_modifyitems"](shuffled)
    assert shuffled != items
    assert sorted(item.nodeid for item in shuffled) == [item.nodeid for item in items]
    modules = [item.nodeid.partition("::")[0] for item in shuffled]
    assert sum(a != b for a, b in pairwise(modules)) == 3
