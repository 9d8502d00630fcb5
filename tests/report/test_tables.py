import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdkn.report import Score, Table, score_table, to_markdown, to_text, weight_table

SCORES = [
    Score("BDKN", 55.07134, 5.4, 30.9087, 0.90991, 176.546, 0.0145, 0.0104),
    Score("a longer name", 123456.0, -1.5, 0.00012344, 1.0, float("inf"), 0.5),
]
MEMBERS = {
    "member": ["network 1", "network 3"],
    "weight": [0.142, -0.5],
    "lower": [0.024, -1.0],
    "upper": [0.26, 0.001],
    "rmse": [52.7615, 48.0],
    "nll": [5.3, 5.2],
    "epochs": [27, 300],
}


def test_score_table():
    table = score_table(SCORES, "Scores")
    assert table.title == "Scores"
    assert table.columns == ("model", "RMSE", "NLL", "CRPS", "90% coverage", "90% width", "fit, s")
    assert table.rows == (
        ("BDKN", "55.07", "5.400", "30.91", "91.0%", "176.5", "0.01"),
        ("a longer name", "123456", "-1.500", "0.0001234", "100.0%", "inf", "–"),
    )


def test_weight_table():
    table = weight_table(MEMBERS, "Weights")
    assert table.columns == ("member", "weight", "95% interval", "held-out RMSE", "epochs")
    assert table.rows == (
        ("network 1", "0.14", "0.02 to 0.26", "52.76", "27"),
        ("network 3", "-0.50", "-1.00 to 0.00", "48.00", "300"),
    )


def test_text_aligns_names_left_and_numbers_right():
    text = to_text(Table("Title", ("name", "n"), (("a", "1"), ("longer", "1000"))))
    assert text == "Title\nname       n\na          1\nlonger  1000\n"


def test_markdown():
    assert to_markdown(Table("Title", ("name", "n"), (("a", "1"),))) == "| name | n |\n| :-- | --: |\n| a | 1 |\n"


@given(value=st.floats(1e-6, 1e9))
@settings(max_examples=100, deadline=None)
def test_numbers_keep_four_digits(value):
    rmse = score_table([Score("m", value, 0, 0, 0, 0, 0)], "").rows[0][1]
    assert float(rmse) == pytest.approx(value, rel=5.01e-4)
