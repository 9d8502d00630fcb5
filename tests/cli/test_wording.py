import pandas as pd
import pytest

from bdkn.cli.terminal import cell, number


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.14399, "0.144"), (16390.4, "16,390"), (123456789.0, "123,500,000"), (-1e-7, "-1e-07"), (9999.4, "9999")],
)
def test_numbers(value, text):
    assert number(value) == text


def test_signs():
    assert number(20.0, sign=True) == "+20"
    assert number(-20000.0, sign=True) == "-20,000"
    assert number(20000.0, sign=True) == "+20,000"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (float("nan"), ""),
        (pd.NaT, ""),
        (pd.Timestamp("1997-09-11"), "1997-09-11"),
        (pd.Timestamp("1997-09-11 08:30"), "1997-09-11 08:30:00"),
        (True, "True"),
        ("00123", "00123"),
        (2.5, "2.5"),
    ],
)
def test_cells(value, text):
    assert cell(value) == text
