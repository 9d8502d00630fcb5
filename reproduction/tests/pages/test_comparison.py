import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import made

from bdkn.errors import InvalidParameterError
from bdkn.predictive import Gaussian
from bdkn_paper.analysis.comparison import Comparison, compare_with_paper, hits, impossible
from bdkn_paper.analysis.nll_floor import floor, printed_floor, shortfall
from bdkn_paper.analysis.results import gather
from bdkn_paper.analysis.runtimes import machine, runtimes, total
from bdkn_paper.analysis.sample import Sample, shown
from bdkn_paper.paper import Printed
from bdkn_paper.tables.comparison import comparison_table, distribution_table, hit_table, runtime_table


def cell(values, mean, std, splits=20, **others):
    where = {"experiment": "setting2", "dataset": "boston", "method": "bdkn", "metric": "rmse", **others}
    return Comparison(**where, ours=Sample(tuple(values)), paper=Printed(mean, std, splits))


def test_difference_in_combined_errors_by_hand():
    found = cell([1.0, 2.0, 3.0, 4.0], 2.0, 1.9, 20)
    ours = math.sqrt((1.5**2 + 0.5**2 + 0.5**2 + 1.5**2) / (4 * 3))
    paper = 1.9 / math.sqrt(19)
    assert found.difference == 0.5
    assert found.error == pytest.approx(math.sqrt(ours**2 + paper**2))
    assert found.errors == pytest.approx(0.5 / math.sqrt(ours**2 + paper**2))
    assert found.verdict == "2 s.e."


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [(3.0, "2 s.e."), (3.0049, "same digits"), (2.9951, "same digits"), (3.0099, "last digit"), (3.011, "miss")],
)
def test_verdicts_of_one_split(ours, verdict):
    found = cell([ours, ours], 3.0, 0.0)
    assert found.verdict == verdict
    assert found.hit == (verdict != "miss")


def test_a_single_split_has_no_standard_error():
    assert cell([10.852], 10.85, 0.0, 1).verdict == "same digits"
    assert cell([10.9], 10.85, 0.0, 1).verdict == "miss"
    assert math.isnan(cell([10.9], 10.85, 0.0, 1).errors)


def test_two_standard_errors_are_the_border():
    error = 0.57 / math.sqrt(19)
    assert cell([3.0 + 1.99 * error] * 5, 3.0, 0.57).verdict == "2 s.e."
    assert cell([3.0 + 2.01 * error] * 5, 3.0, 0.57).verdict == "miss"


def test_what_diverged_is_a_miss():
    assert cell([1.0, np.inf], 3.0, 0.5).verdict == "miss"
    assert cell([1.0, np.nan], 3.0, 0.5).verdict == "miss"
    assert cell([4.0, 4.0], 3.0, 0.0).errors == np.inf


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_no_constant_variance_scores_below_the_floor(scale, spread):
    residuals = spread * np.random.default_rng(0).standard_t(3, size=200)
    nll = -float(np.mean(Gaussian(np.zeros(200), scale).logpdf(residuals)))
    rmse = math.sqrt(np.mean(residuals**2))
    least = floor(Sample((rmse,)))
    assert nll >= least - 1e-9
    best = -float(np.mean(Gaussian(np.zeros(200), rmse).logpdf(residuals)))
    assert best == pytest.approx(least)


def test_the_floor_of_splits_is_averaged_in_logs():
    assert floor(Sample((1.0, math.e))) == pytest.approx(0.5 * math.log(2 * math.pi * math.e) + 0.5)
    assert floor(Sample((0.0, 1.0))) == -np.inf


def test_the_printed_floor_by_hand_and_of_log_normal_splits():
    assert printed_floor(3.03, 0.78) == pytest.approx(
        1.4189385332 + math.log(3.03) - 0.5 * math.log(1 + (0.78 / 3.03) ** 2)
    )
    assert printed_floor(0.0, 0.1) == -np.inf
    values = np.exp(np.random.default_rng(0).normal(0.3, 0.5, size=200_000))
    assert printed_floor(values.mean(), values.std()) == pytest.approx(floor(Sample(tuple(values))), abs=0.01)


def test_shortfall_allows_for_rounding():
    low = 0.5 * math.log(2 * math.pi * math.e * 10.845**2) - 0.5 * math.log(1 + (0.005 / 10.845) ** 2)
    assert shortfall(Printed(10.85, 0.0, 1), Printed(3.49, 0.0, 1)) == pytest.approx(low - 3.495)
    on_it = round(printed_floor(4.0, 0.0), 2)
    assert shortfall(Printed(4.0, 0.0, 1), Printed(on_it, 0.0, 1)) == 0
    assert shortfall(Printed(0.0, 0.0, 20), Printed(-4.76, 0.0, 20)) == 0


def test_the_papers_impossible_cells():
    found = {(s, d): round(below, 2) for s in (1, 2) for d, method, below in impossible(s) if method == "bdkn"}
    assert found == {(1, "protein"): 0.01, (1, "song"): 0.31, (2, "protein"): 0.01, (2, "song"): 0.28}
    others = {(d, method) for d, method, _ in impossible(2) if method not in ("bdkn", "de")}
    assert {("yacht", "gp"), ("boston", "gp")} <= others
    assert not {"bll", "dkl"} & {method for s in (1, 2) for _, method, _ in impossible(s)}


RECORDS = [
    made("setting1", dataset, method, split, rmse=4.94 + 0.1 * (split % 2) - 0.05, nll=3.1)
    for dataset in ("protein", "sarcos-clean")
    for method in ("bdkn", "de", "mine")
    for split in range(4)
]


def test_cells_the_paper_has_are_compared():
    cells = compare_with_paper(gather(RECORDS, "setting1"))
    assert [(c.metric, c.method, c.dataset) for c in cells] == [
        (metric, method, "protein") for metric in ("rmse", "nll") for method in ("bdkn", "de")
    ]
    rmse, nll = cells[0], cells[2]
    assert rmse.floors is None
    assert nll.floors is not None
    assert not nll.floors.possible
    assert nll.floors.below == pytest.approx(0.0101, abs=1e-3)
    assert nll.floors.ours == pytest.approx(1.4189385 + (math.log(4.89) + math.log(4.99)) / 2)
    assert [c.heavy_tailed for c in cells] == [False, True] * 2
    assert hits(cells) == {"2 s.e.": 2, "miss": 2}


def test_only_the_papers_settings_can_be_compared():
    with pytest.raises(InvalidParameterError, match="experiment must be one of 'setting1', 'setting2'; got 'smoke'"):
        compare_with_paper(gather([made("smoke", "boston", "bdkn")], "smoke"))
    with pytest.raises(InvalidParameterError, match="metric must be one of 'rmse', 'nll'; got 'crps'"):
        compare_with_paper(gather(RECORDS, "setting1"), ["crps"])


def test_comparison_tables():
    cells = compare_with_paper(gather(RECORDS, "setting1"))
    rmse, nll = (comparison_table([c for c in cells if c.metric == m], "T") for m in ("rmse", "nll"))
    assert rmse.columns[-1] == "verdict"
    assert rmse.rows[1] == ("Protein", "DE", "4.94 ± 0.05", "5.31 ± 0.25", "-0.370", "-2.9", "miss")
    assert nll.rows[0][-3:] == ("3.02", "3.02", "below by 0.010: impossible")
    assert nll.rows[1][-1] == ""
    heavy = distribution_table([c for c in cells if c.heavy_tailed and c.metric == "rmse"], "T")
    assert heavy.rows == (("Protein", "DE", "4.89", "4.89", "4.94", "4.99", "4.99", "4.94", "5.31 ± 0.25", "4 of 4"),)
    assert hit_table(cells, "T").rows[0] == ("setting1", "BDKN", "2", "1", "1", "0", "0", "1")


def test_small_numbers_are_shown_with_more_digits():
    assert shown(Sample((0.0147, 0.0149))) == "0.0148 ± 0.0001"
    assert shown(Printed(0.01, 0.0, 20), 2) == "0.01 ± 0.00"


def test_runtimes_by_hand():
    took = {"fit": 30.0, "aggregate": 0.2, "predict_aggregate": 0.1}
    found = [
        *(made("setting1", "boston", "bdkn", k, seconds=took, threads=1) for k in range(4)),
        *(made("setting1", "yacht", "bdkn", k, seconds=took, threads=-1) for k in range(2)),
        made("setting1", "yacht", "de", 0, seconds={"fit": 6.0}, threads=2),
        made("setting1", "sarcos-clean", "bdkn", 0, seconds=took),
        made("synthetic-song", "synthetic-song", "bdkn-1", 0, seconds=took),
        made("synthetic-song", "synthetic-song", "bdkn-2", 0, seconds={"fit": 999.0}),
    ]
    lines = {(line.dataset, line.method): line for line in runtimes(found, 1)}
    boston, yacht = lines["boston", "bdkn"], lines["yacht", "bdkn"]
    assert (boston.fits, boston.seconds, boston.minutes, boston.paper) == (4, 120.0, 1.0, 0.76)
    assert boston.ratio == pytest.approx(0.76 * 4 / 20)  # four of the twenty splits the paper timed
    assert boston.share == pytest.approx(0.01)
    assert (yacht.seconds, yacht.minutes) == (60.0, 1.0)
    assert lines["yacht", "de"].minutes == pytest.approx(0.1)
    assert lines["yacht", "de"].share is None
    assert lines["sarcos-clean", "bdkn"].paper is None
    assert math.isnan(lines["sarcos-clean", "bdkn"].ratio)
    song = lines["synthetic-song", "bdkn"]
    assert (song.seconds, song.paper) == (30.0, 17.51)
    summed = total(list(lines.values()), "bdkn")
    assert (summed.dataset, summed.fits, summed.minutes) == ("2 of ten sets", 6, 2.0)
    assert summed.paper == pytest.approx(0.76 + 0.61)
    assert runtime_table([yacht], "T").rows == (("Yacht", "BDKN", "2", "1.00", "1.00", "0.61", "0.1", "1.00%"),)
    assert machine(found) == "Abacus, 2 cores"
