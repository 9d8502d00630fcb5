import math
from pathlib import Path

import pytest
from made_records import made

from bdkn_paper.analysis.former import FORMER, PRESENT, former_results
from bdkn_paper.analysis.peer_results import DATASETS, OURS
from bdkn_paper.pages.former import former_section
from bdkn_paper.pages.results import results_page
from bdkn_paper.store import records as read_records
from bdkn_paper.tables.former import former_table


def fits(experiment, method="bdkn", dataset="boston", splits=range(4), *, nll=2.0, rmse=1.0, own=0.0):
    """Return records; all share how hard a split is, ``own`` is what an experiment adds to every second one."""
    noise = {k: 0.1 * k + own * (k % 2) for k in splits}
    return [made(experiment, dataset, method, k, nll=nll + noise[k], rmse=rmse + noise[k]) for k in splits]


def both(dataset="boston", method="bdkn", *, nll=0.0, rmse=0.0, own=0.0):
    """Return records of both defaults, the present ones higher by ``nll`` and ``rmse``."""
    present = fits(PRESENT, method, dataset, nll=2.0 + nll, rmse=1.0 + rmse, own=own)
    return [*fits(FORMER, method, dataset), *present]


def change(records, metric="nll"):
    return former_results(records).change("boston", "bdkn", metric)


def row(records, metric="nll"):
    table = former_table(former_results(records), metric)
    (found,) = table.rows
    return dict(zip(table.columns, found, strict=True))


def text(records):
    return "\n".join(former_section(former_results(records)))


def test_scores_on_the_splits_that_both_have():
    assert row([*fits(FORMER, splits=range(6)), *fits(PRESENT, splits=range(4, 9), nll=1.5, own=0.2)]) == {
        "data set": "Boston",
        "BDKN, former": "2.45",
        "BDKN, present": "2.05",
        "BDKN, difference": "**-0.400** ± 0.100",
        "BDKN, splits": "2/20",
    }


def test_the_error_is_that_of_the_differences():
    found = change(both(nll=-0.1, own=0.4))
    assert found.mean == pytest.approx(0.1)
    assert found.error == pytest.approx(math.sqrt(4 * 0.2**2 / (4 * 3)))  # differences are -0.1, 0.3, -0.1, 0.3
    assert not found.clear
    assert row(both(nll=-0.1, own=0.4))["BDKN, difference"] == "+0.100 ± 0.115"


def test_scores_of_several_methods_and_data_sets():
    table = former_table(former_results([*both(), *both("wine", "stack", rmse=0.5)]), "rmse")
    assert len(table.columns) == 9
    assert [line[0] for line in table.rows] == ["Boston", "Wine"]
    assert table.rows[0][3:] == ("0.000 ± 0.000", "4/20", "–", "–", "–", "–")
    assert table.rows[1][1:5] == ("–",) * 4
    assert table.rows[1][7] == "**+0.500** ± 0.000"


def test_one_split_has_a_difference_but_no_error():
    records = [*fits(FORMER, splits=[3]), *fits(PRESENT, splits=[3], nll=1.0)]
    assert row(records)["BDKN, difference"] == "-1.000"
    assert "BDKN: NLL lower on 1 of 1 data set, by more than a standard error on 0, and" in text(records)


def test_scores_that_are_not_finite():
    worse = [*fits(FORMER), *fits(PRESENT, nll=math.inf)]
    assert row(worse)["BDKN, difference"] == "**+∞**"
    assert "higher by more than a standard error on Boston" in text(worse)
    never = [*fits(FORMER, nll=math.inf), *fits(PRESENT, nll=math.inf)]
    assert row(never)["BDKN, difference"] == "–"
    assert "NLL lower on 0 of 1 data set, by more than a standard error on 0, and higher" in text(never)


def test_scores_that_records_do_not_have():
    records = both()
    del records[0]["metrics"]["crps"]
    assert len(change(records, "crps")) == 3
    for record in records:
        record["metrics"] = {"nll": 1.0}
    page = text(records)
    assert page.count("### ") == 1
    assert "CRPS lower" not in page


def test_the_section_says_what_its_numbers_say():
    records = [
        *both(nll=-0.5, rmse=0.5),
        *both("wine", nll=-0.1, own=0.4),
        *both("power", nll=0.3, rmse=-0.1),
        *both("sarcos-clean", nll=9.0),
        *both("yacht", "stack", nll=-1.0),
    ]
    page = text(records)
    assert (
        "BDKN: NLL lower on 1 of 3 data sets, by more than a standard error on 1, and higher by more than a standard "
        "error on Power; CRPS lower on 1 of 3 data sets, by more than a standard error on 1, and higher by more than a "
        "standard error on Boston, Wine; RMSE lower on 1 of 3 data sets" in page
    )
    assert "Stacking: NLL lower on 1 of 1 data set, by more than a standard error on 1, and higher" in page
    assert "a standard error on none" in page
    assert "Sarcos, clean" in page
    assert page.count("### ") == 3


@pytest.mark.parametrize(
    "records",
    [[], fits(FORMER), fits(PRESENT), [*fits(FORMER, splits=[0]), *fits(PRESENT, splits=[1])]],
    ids=["none", "the former alone", "the present alone", "no common split"],
)
def test_without_a_comparison_there_is_no_section(records):
    assert text(records) == ""
    assert "former" not in results_page(records)


def test_the_section_is_part_of_the_page():
    assert "## Compared with the former defaults" in results_page(both())


def test_the_former_defaults_do_not_count_as_ours():
    assert "from 4 records" in results_page(both())


@pytest.mark.no_cover
def test_the_records_of_the_former_defaults_are_kept():
    kept = [record["cell"] for record in read_records(Path(__file__).parents[2] / "results")]
    cells = {(cell["dataset"], cell["method"]) for cell in kept if cell["experiment"] == FORMER}
    assert cells == {(dataset, method) for dataset in DATASETS for method in OURS}
