import math
import tomllib
from pathlib import Path

import pytest
from made_records import made

from bdkn_paper.analysis.rivals import RIVAL_TITLES, rival_results
from bdkn_paper.pages.results import results_page
from bdkn_paper.pages.rivals import rivals_section
from bdkn_paper.rivals.rival import RIVALS
from bdkn_paper.tables.rivals import rival_cpu_table, rival_table


def scores(method, dataset="boston", splits=range(20), *, nll=2.0, cpu=None, **others):
    experiment = "rivals" if method in RIVAL_TITLES else "defaults"
    seconds = {"fit": 1.0, "predict": 0.1} | ({"fit_cpu": cpu} if cpu else {})
    return [made(experiment, dataset, method, k, nll=nll + 0.1 * k, seconds=seconds, **others) for k in splits]


OURS = [*scores("bdkn", nll=1.0), *scores("stack", nll=0.5)]


def row(records, metric="nll"):
    table = rival_table(rival_results(records), metric)
    (found,) = table.rows
    return dict(zip(table.columns, found, strict=True))


def text(records):
    return "\n".join(rivals_section(rival_results(records)))


def test_all_are_compared_on_the_splits_of_the_rival():
    assert row([*OURS, *scores("tabm", splits=range(2, 5))]) == {
        "data set": "Boston",
        "splits": "3/20",
        "TabM": "2.30",
        "BDKN": "1.30",
        "Stacking": "**0.80**",
    }


def test_rivals_with_different_splits_are_compared_on_the_common_ones():
    records = [*OURS, *scores("quantile-forest", splits=range(5), nll=0.0), *scores("tabm", splits=[1, 3, 9])]
    found = row(records)
    assert found["splits"] == "2/20"
    assert (found["Quantile forest"], found["TabM"], found["BDKN"]) == ("**0.20**", "2.20", "1.20")


def test_without_a_common_split_the_rival_with_the_fewest_is_left_out():
    records = [*OURS, *scores("quantile-forest", splits=range(5)), *scores("tabm", splits=[7])]
    found = row(records)
    assert found["splits"] == "5/20"
    assert "TabM" not in found


@pytest.mark.parametrize(
    "records",
    [[], OURS, scores("tabm"), [*scores("bdkn", splits=[0]), *scores("tabm", splits=[1])]],
    ids=["none", "ours alone", "a rival alone", "no common split"],
)
def test_without_a_comparison_there_is_no_section(records):
    assert text(records) == ""
    assert "## Rivals" not in results_page(records)


def test_one_of_ours_may_be_missing():
    found = row([*scores("bdkn"), *scores("tabm", splits=range(5))])
    assert (found["BDKN"], found["Stacking"]) == ("**2.20**", "–")


def test_infinite_scores_are_never_the_lowest():
    records = [*OURS, *scores("tabm", splits=range(5), nll=math.inf)]
    assert row(records)["TabM"] == "∞"
    assert "Lowest NLL on 1 data set: Stacking on 1. Below all rivals: BDKN on 1, Stacking on 1 of 1." in text(records)


def test_the_section_says_what_its_numbers_say():
    records = [
        *OURS,
        *scores("tabm", splits=range(5), nll=0.8, versions={"pytabkit": "1.7", "numpy": "2.0"}),
        *scores("bdkn", "wine", nll=1.0),
        *scores("stack", "wine", nll=1.1),
        *scores("quantile-forest", "wine", splits=range(3), nll=0.9),
        made("rivals", "wine", "treeffuser", 0, status="failed"),
    ]
    page = text(records)
    assert (
        "Lowest NLL on 2 data sets: Quantile forest on 1, Stacking on 1. Below all rivals: BDKN on 0, Stacking on 1 "
        "of 2." in page
    )
    assert "Records of rivals that are compared: 8; versions: pytabkit 1.7." in page
    assert "Fits that failed: Treeffuser on Wine 1." in page
    assert page.count("### ") == 3


def test_processor_time():
    records = [*OURS, *scores("tabm", splits=range(5), cpu=12.0)]
    table = rival_cpu_table(rival_results(records))
    assert table.rows == (("Boston", "5/20", "12.0", "–", "–"),)
    assert "### Processor time of rivals" in text(records)
    assert rival_cpu_table(rival_results([*OURS, *scores("tabm")])).rows == ()


def test_the_experiment_has_the_rivals_of_the_page():
    assert set(RIVAL_TITLES) == set(RIVALS)
    file = Path(__file__).parents[2] / "experiments" / "rivals.toml"
    if not file.exists():
        pytest.skip("needs the repository")
    assert tuple(tomllib.loads(file.read_text())["methods"]) == tuple(RIVAL_TITLES)
