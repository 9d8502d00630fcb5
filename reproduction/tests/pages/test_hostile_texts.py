"""Texts of others in tables and pages: LaTeX, Markdown, HTML, formulas and markup are shown, not obeyed."""

import json

import pytest
from made_records import made

from bdkn.errors import InvalidParameterError
from bdkn_paper.analysis.markdown import Table, markdown_text, to_markdown
from bdkn_paper.analysis.outside import read_outside
from bdkn_paper.pages.results_text import origin
from bdkn_paper.tables.formats import latex_escape, to_csv, to_latex

HOSTILE = "a | b\n# [x](javascript:alert(1)) **b** <img src=x onerror=alert(1)> `c` $d$ ~~e~~ \\|"


def test_a_table_in_markdown():
    assert to_markdown(Table("Title", ("name", "n"), (("a", "1"),))) == "| name | n |\n| :-- | --: |\n| a | 1 |\n"


def test_a_cell_cannot_end_its_cell_or_its_line():
    lines = to_markdown(Table("", ("name", "n"), (("a | b\nc", "1 \\| 2"),))).splitlines()
    assert len(lines) == 3
    assert lines[2] == "| a \\| b c | 1 \\| 2 |"


def test_markdown_text_is_shown_as_it_is():
    markdown = pytest.importorskip("markdown")

    html = markdown.markdown(markdown_text(HOSTILE))
    assert "<img" not in html
    assert "<a" not in html
    assert "<strong>" not in html
    assert "<code>" not in html
    assert "&lt;img src=x onerror=alert(1)>" in html.replace("&gt;", ">")
    assert (
        markdown_text("Intel(R) Xeon(R) CPU, 2 cores; torch 2.5.1+cpu")
        == "Intel(R) Xeon(R) CPU, 2 cores; torch 2.5.1+cpu"
    )


def test_latex_is_shown_as_it_is():
    special = '\\input{x} & % $ # _ { } ~ ^ < > | "\n'
    escaped = latex_escape(special)
    for command in (r"\&", r"\%", r"\$", r"\#", r"\_", r"\{", r"\}"):
        assert command in escaped
        escaped = escaped.replace(command, "")
    for command in ("backslash", "asciitilde", "asciicircum", "less", "greater", "bar", "quotedbl"):
        assert rf"\text{command}{{}}" in escaped
        escaped = escaped.replace(rf"\text{command}{{}}", "")
    assert not set(escaped) & set('\\&%$#_{}~^<>|\n"')
    assert r"\textbackslash{}input" in to_latex(Table("", ("a",), ((special,),)))


def test_no_cell_of_csv_is_computed():
    text = to_csv(Table("", ("=a", "b"), (("=1+1", "-0.5"), ("@x", "+0.123"), ("+cmd|x", "–"))))
    assert text == "'=a,b\n'=1+1,-0.5\n'@x,+0.123\n'+cmd|x,–\n"


def test_what_a_record_says_of_its_machine_is_text():
    record = made("defaults", "boston", "bdkn") | {"hardware": {"processor": HOSTILE}, "versions": {"bdkn": HOSTILE}}

    class Found:
        records = (record,)

    page = origin(Found())
    assert "<img" not in page
    assert "[x](javascript" not in page
    assert "\n" not in page


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{]}", "Expecting property name"),
        ('{"set": 1}', "set of record 1 must be text; got 1"),
        ('{"set": "boston", "split": [], "method": "BDKN"}', "split of record 1 must be text; got list"),
        ('{"set": "boston", "split": "gap 1", "method": "BDKN", "nll": "x"}', "nll of record 1 must be a number"),
        ('{"set": "a", "split": "b", "method": "c", "x": ' + "[" * 99_999 + "]" * 99_999 + "}", "nested too deeply"),
        ('{"set": "a", "split": "b", "method": "c", "x": ' + "[" * 30 + "]" * 30 + "}", "nested deeper than 16"),
    ],
    ids=range(6),
)
def test_records_of_splits_are_checked(tmp_path, line, message):
    path = tmp_path / "outside.ndjson"
    path.write_text(line + "\n")
    with pytest.raises(InvalidParameterError, match=f"outside.ndjson must hold records of splits: .*{message}"):
        read_outside(path)
    good = {"set": "boston", "split": "gap 1", "method": "BDKN", "nll": None, "crps": 1.5}
    path.write_text(json.dumps(good) + "\n" + json.dumps(good)[:20])
    assert read_outside(path) == [good]
