import csv
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import made

from bdkn.errors import InvalidParameterError
from bdkn_paper import paper
from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.results import check_experiment, gather
from bdkn_paper.analysis.sample import Sample
from bdkn_paper.tables.formats import grid_csv, grid_latex, grid_markdown, latex_escape, to_csv, to_latex
from bdkn_paper.tables.score_grid import METRICS, Metric, marks, score_grid

RECORDS = [
    made("setting1", "yacht", "de", 0, rmse=2.0),
    made("setting1", "yacht", "de", 1, rmse=4.0),
    made("setting1", "yacht", "bdkn", 1, rmse=1.5),
    made("setting1", "yacht", "bdkn", 0, rmse=0.5),
    made("setting1", "boston", "bdkn", 0, rmse=3.0),
    made("setting1", "boston", "mine_2", 0, rmse=5.0),
    made("setting1", "boston", "de", 0, status="failed"),
    made("setting2", "boston", "bdkn", 0, rmse=7.0),
]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_sample_against_the_statistics_module(values):
    sample = Sample(tuple(values))
    assert sample.mean == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert sample.std == pytest.approx(statistics.pstdev(values), abs=1e-5)
    assert sample.error == pytest.approx(statistics.stdev(values) / len(values) ** 0.5, abs=1e-5)
    assert sample.five_numbers == pytest.approx(np.quantile(values, [0, 0.25, 0.5, 0.75, 1]), abs=1e-6)


def test_sample_of_diverged_splits():
    sample = Sample((1.0, float("nan"), 3.0, 2.0, float("inf")))
    assert sample.five_numbers == (1.0, 2.0, 3.0, np.inf, np.inf)
    assert Sample((1.0, np.inf)).mean == np.inf
    assert np.isnan(Sample((1.0, np.inf)).std)
    assert Sample((4.0,)).std == 0.0
    assert np.isnan(Sample((4.0,)).error)


def test_gather_sorts_and_keeps_apart():
    results = gather(RECORDS, "setting1")
    assert results.datasets == ("boston", "yacht")
    assert results.methods == ("bdkn", "de", "mine_2")
    assert results.sample("yacht", "bdkn", "rmse") == Sample((0.5, 1.5))
    assert results.sample("boston", "de", "rmse") is None
    assert results.sample("boston", "bdkn", "pinball") is None
    assert results.notes()[:2] == ("Boston, BDKN, mine_2: 1 of 20 splits", "Boston, DE: 0 of 20 splits, 1 failed")


def test_the_clean_form_of_a_set_stands_beside_it():
    names = ("wine", "sarcos-clean", "sarcos", "diabetes")
    assert gather([made("e", name, "bdkn") for name in names], "e").datasets == (
        "sarcos",
        "sarcos-clean",
        "wine",
        "diabetes",
    )


def test_what_is_averaged_must_be_of_the_same_parameters():
    again = made("setting1", "yacht", "bdkn", 0, rmse=9.0)
    assert len(gather([*RECORDS, again], "setting1").done["yacht", "bdkn"]) == 2
    for split in (0, 7):
        other = made("setting1", "yacht", "bdkn", split, parameters={"epochs": 3})
        with pytest.raises(
            InvalidParameterError, match="here bdkn on yacht in setting1, must have the same parameters"
        ):
            gather([*RECORDS, other], "setting1")


def test_experiments_that_are_not_there():
    with pytest.raises(InvalidParameterError, match="'setting1', 'setting2'; got 'seting1'; did you mean 'setting1'"):
        check_experiment(RECORDS, "seting1")
    with pytest.raises(InvalidParameterError, match="there must be records; got none: run 'bdkn-paper run"):
        check_experiment([], "setting1")


def test_marks_are_the_papers():
    """Marked by hand from the paper: ties in the printed means are marked alike."""
    kin = [Sample((m,)) for m in (0.15, 0.22, 0.72, 0.07, 0.10, 0.10, 0.23, 0.19)]
    assert marks(kin, METRICS["rmse"], 2) == ["", "", "", "best", "second", "second", "", ""]
    power = [Sample((m,)) for m in (2.79, 2.79, 2.78, 3.19, 12.11, 3.78, 2.78, 2.86)]
    assert marks(power, METRICS["nll"], 2) == ["second", "second", "best", "", "", "", "best", ""]


def test_marks_look_at_printed_digits():
    line = [Sample((0.5011,)), Sample((0.5049,)), None, Sample((0.51,)), Sample((np.inf,)), Sample((np.nan,))]
    assert marks(line, METRICS["rmse"], 2) == ["best", "best", "", "second", "", ""]
    assert marks(line, METRICS["rmse"], 3) == ["best", "second", "", "", "", ""]


def test_coverage_should_be_near_its_level_and_widths_are_not_ranked():
    line = [Sample((0.97,)), Sample((0.88,)), Sample((0.92,)), Sample((0.85,))]
    assert marks(line, METRICS["coverage_90"], 2) == ["", "best", "best", "second"]
    assert marks(line, METRICS["width_90"], 2) == ["", "", "", ""]
    assert Metric("x", 0.9).loss(0.8) == pytest.approx(0.1)


def test_a_metric_that_is_not_there():
    with pytest.raises(InvalidParameterError, match="did you mean 'crps'"):
        score_grid(gather(RECORDS, "setting1"), "crsp")


def test_markdown():
    assert grid_markdown(score_grid(gather(RECORDS, "setting1"), "rmse")) == (
        "| data set | BDKN | DE | mine_2 |\n"
        "| :-- | --: | --: | --: |\n"
        "| Boston | **3.00 ± 0.00** | – | _5.00 ± 0.00_ |\n"
        "| Yacht | **1.00 ± 0.50** | _3.00 ± 1.00_ | – |\n"
    )


def test_a_line_of_small_numbers_can_have_more_digits():
    records = [made("e", "naval", method, rmse=rmse) for method, rmse in (("bdkn", 1.1e-4), ("de", 1.2e-4))]
    grid = score_grid(gather([*records, made("e", "boston", "bdkn", rmse=3.0)], "e"), "rmse", 3, figures=2)
    assert grid.digits == (3, 5)
    assert "| Boston | **3.000 ± 0.000** | – |\n| Naval | **0.00011 ± 0.00000** | _0.00012 ± 0.00000_ |" in (
        grid_markdown(grid)
    )


def test_latex():
    assert grid_latex(score_grid(gather(RECORDS, "setting1"), "rmse", 1)) == (
        "\\begin{tabular}{lrrr}\n\\toprule\ndata set & BDKN & DE & mine\\_2 \\\\\n\\midrule\n"
        "Boston & \\textbf{3.0 $\\pm$ 0.0} & -- & \\underline{5.0 $\\pm$ 0.0} \\\\\n"
        "Yacht & \\textbf{1.0 $\\pm$ 0.5} & \\underline{3.0 $\\pm$ 1.0} & -- \\\\\n"
        "\\bottomrule\n\\end{tabular}\n"
    )
    assert latex_escape("50% & a_b") == r"50\% \& a\_b"
    assert "a\\_b & 1\\% \\\\" in to_latex(Table("", ("n", "x"), (("a_b", "1%"),)))


def test_csv_has_all_digits():
    lines = list(csv.DictReader(grid_csv(score_grid(gather(RECORDS, "setting1"), "rmse")).splitlines()))
    assert lines[2] == {
        "dataset": "yacht",
        "method": "bdkn",
        "metric": "rmse",
        "mean": "1.0",
        "std": "0.5",
        "splits": "2",
    }
    assert len(lines) == 4
    assert to_csv(Table("", ("n", "x"), (("a, b", "1"),))) == 'n,x\n"a, b",1\n'


def test_notes_say_which_deviation():
    notes = score_grid(gather(RECORDS, "setting1"), "rmse").notes
    assert notes[0].startswith("± is the standard deviation over splits, divided by n")
    assert "Yacht, BDKN, DE: 2 of 20 splits" in notes


def test_titles_know_every_set_of_the_paper():
    grid = score_grid(gather([made("e", name, "bdkn") for name in paper.DATASETS], "e"), "nll")
    assert grid.datasets == tuple(paper.DATASETS)
