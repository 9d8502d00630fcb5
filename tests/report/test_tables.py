"""Layout of tables."""

from bdkn.report import Table, to_markdown


def test_markdown():
    assert to_markdown(Table("Title", ("name", "n"), (("a", "1"),))) == "| name | n |\n| :-- | --: |\n| a | 1 |\n"
