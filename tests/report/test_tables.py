"""Layout of tables."""

from bdkn.report import Table, to_markdown, to_text


def test_text_aligns_names_left_and_numbers_right():
    text = to_text(Table("Title", ("name", "n"), (("a", "1"), ("longer", "1000"))))
    assert text == "Title\nname       n\na          1\nlonger  1000\n"


def test_markdown():
    assert to_markdown(Table("Title", ("name", "n"), (("a", "1"),))) == "| name | n |\n| :-- | --: |\n| a | 1 |\n"
