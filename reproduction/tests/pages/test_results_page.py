import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import made
from scipy import stats

from bdkn.errors import InvalidParameterError
from bdkn_paper import paper
from bdkn_paper.analysis.criteria import NINE, Tally, criteria_table
from bdkn_paper.analysis.outside import FILE, outside_results, read_outside
from bdkn_paper.analysis.paired import compare_pairs
from bdkn_paper.analysis.peer_results import DATASETS, OURS, PEERS, TITLES, expected, peer_results
from bdkn_paper.figures.differences import signed, view
from bdkn_paper.pages.outside import PAGE, outside_page
from bdkn_paper.pages.results import picture, results_page, write_results
from bdkn_paper.pages.results_text import footnotes
from bdkn_paper.paper.literature import (
    Reference,
    best_published,
    literature,
    paper_best,
    printed_by,
    published_datasets,
)
from bdkn_paper.store import records as read_records
from bdkn_paper.tables.peers import (
    calibration_table,
    coverage_table,
    cpu_table,
    fit_table,
    median_ratio,
    predict_table,
    score_table,
)

WIGGLE = (-0.1, 0.1, -0.05, 0.05, 0.02, -0.02)


def score(method, dataset="boston", splits=range(20), *, rmse=2.0, nll=2.0, fit=4.0, wiggle=0.0, **metrics):
    """Return records of a method; all share how hard a split is, ``wiggle`` is what a method has of its own."""
    experiment = "defaults" if method in OURS else "peers"
    known = paper.datasets()[dataset.removesuffix("-clean")]
    found = []
    for split in splits:
        noise = WIGGLE[split % 6] + wiggle * WIGGLE[split // 3 % 6]
        record = made(experiment, dataset, method, split, rmse=rmse + noise, nll=nll + noise)
        record["rows"] = {"train": known.train_size, "test": known.test_size}
        record["metrics"] |= {"coverage_50": 0.5, "coverage_90": 0.88, "coverage_95": 0.94, "calibration_error": 0.02}
        record["metrics"] |= metrics
        record["seconds"] = {"fit": fit, "predict": 51e-6}
        found.append(record)
    return found


RECORDS = [
    *score("ngboost", nll=2.6, rmse=2.5),
    *score("catboost", nll=40.0, rmse=2.2, fit=1.0, wiggle=0.2, coverage_90=0.4),
    *score("bdkn", nll=2.2, rmse=2.3, fit=2.0, wiggle=0.3),
    *score("stack", nll=2.0, rmse=2.0, fit=8.0, wiggle=0.2),
]


def line(table, name="Boston"):
    """Return a line of a table by the titles of its columns."""
    row = next(row for row in table.rows if row[0] == name)
    return dict(zip(table.columns, row, strict=True))


def bars(records):
    table = criteria_table(peer_results(records))
    return {row[0]: row[1:] for row in table.rows}


@given(st.lists(st.floats(-5, 5, width=32), min_size=2, max_size=20))
def test_without_overlap_the_test_is_the_ordinary_paired_one(differences):
    pair = compare_pairs(differences, 0.0)
    assert pair is not None
    assert pair.mean == pytest.approx(np.mean(differences))
    if len(set(differences)) > 1:
        assert pair.error == pytest.approx(stats.sem(differences))
        assert pair.p_value == pytest.approx(stats.ttest_rel(differences, np.zeros(len(differences))).pvalue, rel=1e-6)


def test_overlap_widens_the_error():
    differences = [-0.3, -0.1, -0.4, -0.2, 0.1]
    pair = compare_pairs(differences, 1 / 9)
    t = np.mean(differences) / math.sqrt((1 / 5 + 1 / 9) * np.var(differences, ddof=1))
    assert pair.p_value == pytest.approx(2 * stats.t.cdf(t, 4))
    assert compare_pairs(differences, 0.0).p_value < pair.p_value
    assert pair.error == pytest.approx(stats.sem(differences))


def test_pairs_that_cannot_be_tested_or_need_no_test():
    assert compare_pairs([1.0], 0.1) is None
    assert compare_pairs([1.0, math.inf], 0.1) is None
    assert compare_pairs([1.0, math.nan], 0.1) is None
    same, always = compare_pairs([0.0, 0.0], 0.1), compare_pairs([-1.0, -1.0], 0.1)
    assert (same.better, same.worse, same.p_value) == (False, False, 1.0)
    assert (always.better, always.worse, always.p_value) == (True, False, 0.0)


def test_the_best_of_the_paper():
    found = paper_best("boston", "nll")
    assert (found.value, found.who) == (2.41, "GP, 2")
    assert found.error == pytest.approx(0.28 / math.sqrt(19))
    assert paper_best("wine", "rmse").who == "GP, 1, +1"
    assert paper_best("sarcos-clean", "nll") is None
    assert paper_best("boston", "crps") is None


def test_the_best_published_is_the_papers_only_if_it_is_clearly_lower():
    assert (best_published("naval", "nll").source, best_published("naval", "nll").value) == ("the paper", -8.10)
    assert (best_published("yacht", "nll").who, best_published("yacht", "nll").value) == ("TabPFN v2", -0.7313)
    assert best_published("naval", "rmse").value == 0.0001  # the paper prints 0.00
    assert best_published("sarcos", "nll") is None
    assert not best_published("protein", "rmse").verified
    assert best_published("protein", "rmse", verified=True).value == 3.3558


def test_scores_on_other_splits_and_spikes_on_a_grid_are_shown_but_not_compared():
    assert best_published("energy", "rmse").value == 0.3215  # not 0.2805, of another cross-validation
    assert best_published("wine", "nll").value == 0.8435  # not -2.72
    assert "spikes" in next(found.note for found in literature("wine", "nll") if not found.comparable)
    assert "Wine -2.7230, TabPFN v2" in footnotes("nll")
    assert "Concrete 3.717, tuned XGBoost of OpenML-CTR23" in footnotes("rmse")


def test_the_literature_is_whole():
    assert set(published_datasets()) == set(NINE)
    assert len(NINE) == 9
    for dataset in NINE:
        for metric in ("rmse", "nll"):
            assert best_published(dataset, metric, verified=True) is not None
            assert all(found.who and found.source for found in literature(dataset, metric))


@pytest.mark.parametrize(("score", "standing"), [(2.314, "below"), (2.316, "level"), (2.324, "level"), (2.33, "above")])
def test_standing_is_told_at_the_printed_digits(score, standing):
    assert Reference(2.32, 0.01, "", "").standing(score) == standing


def test_scores_bold_and_marks():
    found = line(score_table(peer_results(RECORDS), "nll"))
    assert found["the paper's best"] == "2.41 ± 0.06 (GP, 2)"
    assert found["best published"] == "2.32 (CARD)‡"
    assert found["NGBoost"] == "2.60 ± 0.02"
    assert found["BDKN"] == "2.20 ± 0.02 ▲"
    assert found["Stacking"] == "**2.00 ± 0.02** ▲ +"
    assert found["BDE"] == "–"
    assert "the paper's best" not in score_table(peer_results(RECORDS), "crps").columns
    worse = [*score("ngboost", nll=2.0), *score("bdkn", nll=2.1, wiggle=0.1), *score("stack", nll=2.2, wiggle=0.2)]
    found = line(score_table(peer_results(worse), "nll"))
    assert (found["BDKN"], found["Stacking"]) == ("2.10 ± 0.02 ▼", "2.20 ± 0.02 ▼ −")


def test_small_errors_get_their_digits_and_a_printed_zero_is_level():
    tiny = [score("bdkn", "naval", [split], rmse=0.0, nll=-6.0, crps=1e-4)[0] for split in range(20)]
    for record in tiny:
        record["metrics"]["rmse"] = 0.000123 + 0.00001 * (-1) ** record["cell"]["split"]
    found = line(score_table(peer_results(tiny), "rmse"), "Naval")
    assert found["BDKN"] == "**0.000123 ± 0.000002**"
    assert found["the paper's best"].startswith("**0.00 ± 0.00 (")
    assert found["best published"] == "**0.0001 (TabPFN v2)**"


def test_bars():
    found = bars(RECORDS)
    others = "too few splits: Concrete, Energy, Kin8nm, Naval, Power, Protein, Sarcos, Wine, Yacht"
    nine = others.replace("Sarcos, ", "")
    assert found["NLL below the paper's best"] == (f"1 of 10; {others}", f"1 of 10; {others}")
    assert found["NLL below the best published"] == (f"1 of 9; {nine}", f"1 of 9; {nine}")
    assert found["RMSE below that of CatBoost"] == (
        f"0 of 10; significantly above: Boston; {others}",
        f"1 of 10, 1 significantly; {others}",
    )
    assert found["NLL lowest of all methods run"][0] == f"0 of 10; Stacking is lower: Boston; {others}"
    assert found["NLL significantly below the best peer's"][1] == f"1 of 10; {others}"
    assert found["NLL at most one s.e. of BDKN's mean above BDKN's"] == ("–", f"1 of 10; {others}")
    assert found["NLL below BDKN's"][1] == f"1 of 10, 1 significantly; {others}"


def test_the_printed_scores_of_one_method():
    name = "NLL below that printed for TabPFN v2"
    sets = [dataset for dataset in NINE if printed_by(dataset, "nll", who="TabPFN v2")]
    assert sets == ["concrete", "energy", "kin8nm", "naval", "power", "protein", "yacht"]
    assert printed_by("yacht", "nll", who="TabPFN v2").value == -0.7313
    records = [*score("bdkn", "concrete", nll=2.0), *score("bdkn", "yacht", nll=0.0), *score("bdkn", "wine", nll=-9.0)]
    assert bars(records)[name][0] == ("1 of 7; above: Yacht; too few splits: Energy, Kin8nm, Naval, Power, Protein")


def test_one_standard_error_above():
    level = [*score("bdkn", nll=2.0), *score("stack", nll=2.01, wiggle=0.1)]
    found = bars(level)
    assert found["NLL at most one s.e. of BDKN's mean above BDKN's"][1].startswith("1 of 10;")  # 0.0145
    assert found["NLL at most one s.e. of the differences above BDKN's"][1].startswith("0 of 10; above: Boston;")


def test_what_lacks_splits_is_told_and_not_judged_by_its_mean():
    records = [*RECORDS, *score("bde", nll=1.0, splits=range(6)), *score("bdkn", "wine", range(2), nll=0.1)]
    found = peer_results(records)
    assert line(score_table(found, "nll"))["BDE"] == "1.00 ± 0.03 (6/20)"
    assert line(score_table(found, "nll"), "Wine")["BDKN"] == "0.10 ± 0.10 (2/20)"
    notes = list(found.missing_notes())
    assert any(note.startswith("BDE: Boston 6 of 20; Concrete 0 of 20;") for note in notes)
    assert len(notes) == len(TITLES)
    assert "Wine" in bars(records)["NLL below the paper's best"][0].partition("too few splits")[2]
    # On the splits that both have, though, it is the best peer.
    assert bars(records)["NLL significantly below the best peer's"][1].startswith(
        "0 of 10; significantly above: Boston"
    )
    assert bars(records)["NLL lowest of all methods run"][1].startswith("0 of 10; BDE is lower: Boston")


def test_failed_splits_are_told():
    records = [*score("bde", splits=range(19)), made("peers", "boston", "bde", 19, status="failed")]
    assert any("Boston 19 of 20 (1 failed)" in note for note in peer_results(records).missing_notes())


def test_without_peers_nothing_is_the_lowest():
    own = [record for record in RECORDS if record["cell"]["method"] in OURS]
    assert bars(own)["CRPS lowest of all methods run"][0].startswith("0 of 10; too few splits: Boston")


def test_calibration_and_cost():
    found = peer_results(RECORDS)
    assert line(coverage_table(found))["CatBoost"] == "50 / 40 / 94"
    assert line(coverage_table(found), "**mean of ten**")["BDKN"] == "50 / 88 / 94 (1 of 10)"
    assert line(calibration_table(found))["BDKN"] == "**0.020**"
    fits = fit_table(found)
    assert line(fits)["BDKN"] == "2.00 (0.50)"
    assert line(fits, "times NGBoost's, median")["Stacking"] == "2.00"
    assert line(fits, "threads")["BDKN"] == "1"
    assert (line(fits)["BDE"], line(fits, "threads")["BDE"]) == ("–", "–")
    assert line(predict_table(found))["BDKN"] == "1.00"
    assert math.isnan(median_ratio(peer_results(score("bdkn")), "bdkn"))
    assert line(fit_table(peer_results(score("bdkn"))))["BDKN"] == "4.00"


def test_processor_time_of_the_fits_that_have_it():
    records = [*score("bdkn", splits=range(3)), *score("stack", "wine", splits=range(2))]
    assert cpu_table(peer_results(records)).rows == ()
    assert "processor time" not in results_page(records)
    for record, seconds in zip(records, (9.0, 11.0), strict=False):
        record["seconds"]["fit_cpu"] = seconds
    (row,) = cpu_table(peer_results(records)).rows
    assert dict(zip(("data set", *TITLES), row, strict=True))["bdkn"] == "10.0"
    assert set(row) == {"Boston", "10.0", "–"}
    assert "Median seconds of processor time per fit" in results_page(records)


def test_scores_that_are_not_finite():
    broken = [*RECORDS, *score("bde", nll=math.inf)]
    assert line(score_table(peer_results(broken), "nll"))["BDE"] == "∞"
    assert "∞" in results_page(broken)
    own = [*score("ngboost"), *score("bdkn", nll=math.inf)]
    assert bars(own)["NLL below the paper's best"][0].startswith("0 of 10; above: Boston")
    assert results_page(own)


@pytest.mark.parametrize(
    "records",
    [
        score("bdkn", splits=[3]),
        score("ngboost"),
        score("stack"),
        [*score("bdkn", splits=range(5)), *score("ngboost", splits=range(5, 9))],
        [made("defaults", "boston", "bdkn", status="failed")],
        [],
    ],
    ids=["one split", "a peer alone", "stacking alone", "no common split", "failed alone", "none"],
)
def test_the_page_can_always_be_written(records):
    page = results_page(records)
    assert "## Criteria" in page
    assert "nan" not in page
    assert "inf" not in page


def test_the_page_says_what_its_numbers_say():
    page = results_page(RECORDS)
    assert "from 80 records" in page
    assert "Stacking has NLL below the paper's best on 1 of 1, RMSE below the paper's best on 1 of 1" in page
    assert "Lowest NLL on ten data sets: Stacking on 1. Compared with" in page
    assert (
        "BDKN significantly better on 1, worse on 0 of 1; Stacking significantly better on 1, worse on 0 of 1." in page
    )
    assert "NGBoost 88.0%, CatBoost 40.0%, BDKN 88.0%, Stacking 88.0%; nearest to 90 % is NGBoost." in page
    assert "Median ratio to NGBoost over the data sets: CatBoost 0.25, BDKN 0.5, Stacking 2." in page
    assert "† Kin8nm, Protein: quoted from memory" in page
    assert "Wine -0.56, TreeFlow† (" in page
    assert "corrected resampled t-test of Nadeau and Bengio" in page


def test_a_complete_page_misses_nothing():
    whole = [record for name in DATASETS for method in TITLES for record in score(method, name, range(expected(name)))]
    assert list(peer_results(whole).missing_notes()) == []
    page = results_page(whole)
    assert "Missing splits" not in page
    assert "too few splits" not in page


def test_the_page_is_the_same_whatever_the_order_of_records():
    assert results_page(RECORDS) == results_page(RECORDS[::-1])


def test_the_picture_shows_differences():
    figure = picture(peer_results(RECORDS))
    (ax,) = figure.axes
    points = {dots.get_label(): dots.get_offsets() for dots in ax.collections}
    assert points["Stacking"].tolist() == [[pytest.approx(-0.2, abs=0.01), 0.0]]
    assert points["the paper's best"][0][0] == pytest.approx(0.21, abs=0.01)
    assert len(points["CatBoost"]) == len(points["BDE"]) == 0
    assert [text.get_text() for text in ax.texts] == ["+38"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["Boston"]
    assert picture(peer_results(score("ngboost"))) is None


def test_the_view_of_the_picture():
    assert view([0.2, -0.5, math.nan]) == (-1.0, 1.0)
    assert view([0.2, -2.0]) == (-3.0, 1.0)
    assert view([200.0, math.inf]) == (-1.0, 10.0)
    assert [signed(value) for value in (0, 0.1, -1, 18.3, math.inf)] == ["0", "+0.1", "−1", "+18", "+∞"]


def test_written_with_its_picture(tmp_path):
    page = write_results(RECORDS, tmp_path / "docs" / "results.md")
    assert "(images/results.png)" in page.read_text()
    first = {path: path.read_bytes() for path in page.parent.rglob("*.*")}
    assert sorted(path.name for path in first) == ["results.md", "results.png"]
    write_results(RECORDS[::-1], page)
    assert {path: path.read_bytes() for path in page.parent.rglob("*.*")} == first


def test_nothing_to_write(tmp_path):
    with pytest.raises(InvalidParameterError, match="there must be records of defaults or peers; got none"):
        write_results([made("setting1", "boston", "bdkn")], tmp_path / "page.md")
    assert list(tmp_path.iterdir()) == []


def test_tallies_in_words():
    assert str(Tally({"boston": "met", "wine": "met", "yacht": "met"})) == "3 of 3"
    mixed = Tally({"boston": "met, significantly", "wine": "level", "yacht": "above", "power": "", "energy": "met"})
    assert str(mixed) == "2 of 5, 1 significantly; above: Yacht; level: Wine; too few splits: Power"
    assert (mixed.met, mixed.decided) == (2, 4)


@pytest.mark.parametrize(("name", "methods"), [("defaults", OURS), ("peers", PEERS)])
def test_the_experiments_have_what_the_page_shows(name, methods):
    file = Path(__file__).parents[2] / "experiments" / f"{name}.toml"
    if not file.exists():
        pytest.skip("needs the repository")
    document = tomllib.loads(file.read_text())
    assert tuple(document["datasets"]) == DATASETS
    assert tuple(document["methods"]) == methods


@pytest.mark.no_cover
def test_the_pages_in_docs_are_those_of_the_records():
    root = Path(__file__).parents[3]
    results, docs = root / "reproduction/results", root / "docs"
    outside = outside_results(read_outside(results / FILE))
    assert results_page(read_records(results), outside) == (docs / "results.md").read_text()
    assert (docs / PAGE).exists() == bool(outside)
    if outside:
        assert outside_page(outside) == (docs / PAGE).read_text()
