"""Names and values that others chose: markup, control characters, HTML, formulas, LaTeX; and options of any size."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from small_fits import make_fits_small
from typer.testing import CliRunner

from bdkn.cli import app
from bdkn.cli.terminal import print_table, printable
from bdkn.table_files import read_table

MARKUP, RED, SCRIPT, FORMULA = "[/bold]", "\x1b[31mred\x07", "<script>window.hacked = 1</script>", "=cmd|' /C calc'!A0"
TARGET = "cost $a_{ [/red] \u202e\x1b]0;title\x07"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a table of hostile names and values, and a model that was fitted to it."""
    place, rng = tmp_path_factory.mktemp("hostile"), np.random.default_rng(0)
    x = rng.normal(size=70).round(3)
    columns = {
        MARKUP: x,
        RED: rng.choice(["[red]", "\x1b[2J"], 70),
        SCRIPT: rng.choice([SCRIPT, "$\\frac{"], 70),
        FORMULA: rng.choice(["=1+1", "@SUM(1)", "-5"], 70),
    }
    frame = pd.DataFrame({**columns, TARGET: (2 * x + 0.1 * rng.normal(size=70)).round(3)})
    frame.to_csv(place / "[bold].csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        make_fits_small(patch)
        ran = CliRunner().invoke(app, ["fit", str(place / "[bold].csv"), "--target", TARGET, "--out", str(place / "m")])
    assert ran.exit_code == 0, ran.output
    assert "\x1b" not in ran.output
    return place


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "m"],
        ["evaluate", "m", "[bold].csv"],
        ["explain", "m", "[bold].csv", "--row", "1"],
        ["explain", "m", "[bold].csv", "--rows", "5"],
        ["compare", "[bold].csv", "--target", TARGET, "--methods", "ridge,mean", "--folds", "2", "--picture", "p.svg"],
        ["fit", "[bold].csv", "--target", f"none {RED} {MARKUP}", "--out", "o"],
        ["fit", f"{RED}.csv", "--target", "y", "--out", "o"],
        ["predict", "m", "[bold].csv", "--keep", RED, "--out", "-"],
    ],
    ids=lambda words: words[0],
)
def test_no_name_is_markup_or_controls_the_terminal(folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == (2 if words[0] == "fit" else 0), ran.output
    shown = ran.stderr if words[0] == "predict" else ran.output  # a table of CSV is no message
    assert not any(mark in shown for mark in ("\x1b", "\x07", "\u202e"))
    if words[0] == "inspect":
        assert MARKUP in " ".join(shown.split())


def test_json_holds_names_as_they_are(folder):
    ran = CliRunner().invoke(app, ["inspect", str(folder / "m"), "--json"])
    assert [row["name"] for row in json.loads(ran.stdout)["columns"]] == [MARKUP, RED, SCRIPT, FORMULA]


def test_copied_formulas_are_marked_and_the_note_says_how_to_keep_them(folder, tmp_path):
    words = ["predict", str(folder / "m"), str(folder / "[bold].csv"), "--keep", FORMULA, "--out"]
    marked = CliRunner().invoke(app, [*words, str(tmp_path / "a.csv")])
    kept = CliRunner().invoke(app, [*words, str(tmp_path / "b.csv"), "--formulas"])
    assert (marked.exit_code, kept.exit_code) == (0, 0)
    assert "--formulas copies them as they stand" in marked.stderr
    assert "--formulas" not in kept.stderr
    assert set(read_table(tmp_path / "a.csv")[f"'{FORMULA}"]) == {"'=1+1", "'@SUM(1)", "-5"}
    assert set(read_table(tmp_path / "b.csv")[FORMULA]) == {"=1+1", "@SUM(1)", "-5"}


def test_numbers_of_any_size_are_answered_at_once(folder, tmp_path):
    data, model, many = str(folder / "[bold].csv"), str(folder / "m"), str(10**18)
    predict = ["predict", model, data, "--out", str(tmp_path / "p.csv")]
    for words, message in [
        (["demo", "--rows", many, "--out", str(tmp_path / "demo")], "1000000"),
        (["compare", data, "--target", TARGET, "--seed", many], "4294967295"),
        (["compare", data, "--target", TARGET, "--folds", many], "folds need at least"),
        (["explain", model, data, "--row", many], "--row must be at most 70"),
        ([*predict, "--quantiles", "0.5,0.5"], "got q0.5 more than once"),
        ([*predict, "--above", "1.0000001,1.0000002"], "got above_1 more than once"),
        ([*predict, "--above", "nan"], "each threshold in --above must be a number"),
        ([*predict, "--quantiles", "nan"], "each level in --quantiles must be a number"),
    ]:
        ran = CliRunner().invoke(app, words)
        assert ran.exit_code == 2, (words, ran.output)
        assert message in " ".join(ran.stderr.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []
    assert CliRunner().invoke(app, [*predict, "--jobs", many, "-q"]).exit_code == 0
    assert CliRunner().invoke(app, ["evaluate", model, data, "--worst", many]).exit_code == 0


def test_tables_show_cells_as_they_are():
    from rich.console import Console

    console = Console(record=True, width=80, force_terminal=True, highlight=False, file=io.StringIO())
    print_table(console, "[/bold]\x1b", ("[red]", "b"), [("[/x]", "\x9b31m")], style=lambda row, column: "bold")
    shown = console.export_text()
    assert all(text in shown for text in ("[/bold]\\x1b", "[red]", "[/x]", "\\x9b31m"))
    assert printable("a\tb\nc\r\u2028\ud800") == "a\tb\nc\\r\\u2028\\ud800"
