import json
import math

import pytest
from made_records import made

from bdkn.errors import InvalidParameterError
from bdkn_paper.analysis.outside import METHOD_TITLES, outside_results, read_outside
from bdkn_paper.pages.outside import outside_page, outside_section, write_outside
from bdkn_paper.pages.results import results_page, write_results
from bdkn_paper.tables.outside import coverage_table, score_table, summary_table


def fits(method, dataset="boston", kind="gap", splits=3, *, nll=2.0, held=0.9, crps=1.0):
    scores = {"nll": nll, "crps": crps, "rmse": 1.0, "coverage_0.5": 0.5, "coverage_0.9": held, "coverage_0.95": 0.95}
    return [{"set": dataset, "split": f"{kind} {k}", "method": method, **scores, "seconds": 1.0} for k in range(splits)]


RECORDS = [
    *fits("BDKN", nll=1.0, held=0.8, crps=2.0),
    *fits("BDKN", "wine", nll=2.0, held=0.7),
    *fits("deep ensemble", nll=3.0),
    *fits("deep ensemble", "wine", nll=1.5),
    *fits("GP", nll=1.5, splits=2),
    *fits("quantile forest", nll=None),
]


def lines(table):
    return {row[0]: dict(zip(table.columns[1:], row[1:], strict=True)) for row in table.rows}


def text(records):
    return "\n".join(outside_section(outside_results(records)))


def test_the_summary():
    assert summary_table(outside_results(RECORDS)).rows == (
        ("gap", "BDKN", "75.0 %, 2 sets", "Wine 70.0 %", "1 of 2", "-0.75 (-0.75)", "1 of 1", "-0.50 (-0.50)"),
    )


def test_two_methods_are_compared_on_the_splits_that_both_have():
    far = fits("BDKN", nll=1.0)
    far[2]["nll"] = 100.0
    results = outside_results([*far, *fits("GP", nll=2.0, splits=2)])
    assert results.differences("gap", "nll", "BDKN", "GP") == {"boston": -1.0}
    assert results.mean("gap", "boston", "BDKN", "nll") == 34.0


def test_without_common_splits_there_is_nothing_to_compare():
    (row,) = summary_table(outside_results(fits("stack", kind="tail"))).rows
    assert row == ("tail", "Stacking", "90.0 %, 1 set", "Boston 90.0 %", "–", "–", "–", "–")


def test_scores_bold_and_missing():
    found = lines(score_table(outside_results(RECORDS), "gap", "nll"))
    assert found["BDKN"]["Boston"] == "**1.00**"
    assert found["GP"]["Boston"] == "1.50 (2/3)"
    assert (found["GP"]["Wine"], found["BDKN"]["Yacht"]) == ("–", "–")
    assert found["deep ensemble"]["Wine"] == "**1.50**"
    assert (found["BDKN"]["mean"], found["GP"]["mean"]) == ("**1.50**", "1.50 (1 of 2)")
    assert "quantile forest" not in found
    crps = lines(score_table(outside_results(RECORDS), "gap", "crps"))
    assert (crps["BDKN"]["Boston"], crps["quantile forest"]["Boston"]) == ("2.00", "**1.00**")
    assert "mean" not in crps["BDKN"]


def test_methods_with_missing_splits_are_never_bold():
    found = lines(score_table(outside_results([*fits("BDKN", splits=2, nll=0.0), *fits("GP", nll=1.0)]), "gap", "nll"))
    assert (found["BDKN"]["Boston"], found["BDKN"]["mean"]) == ("0.00 (2/3)", "0.00")
    assert (found["GP"]["Boston"], found["GP"]["mean"]) == ("**1.00**", "**1.00**")


def test_coverage():
    found = lines(coverage_table(outside_results(RECORDS), "gap", 0.9))
    assert (found["BDKN"]["Boston"], found["BDKN"]["Wine"], found["BDKN"]["mean"]) == ("80", "70", "75")
    assert (found["GP"]["Boston"], found["GP"]["Power"], found["GP"]["mean"]) == ("90 (2/3)", "–", "90 (1 of 2)")


def test_scores_that_are_not_finite():
    results = outside_results([*fits("BDKN", nll=1.0), *fits("GP", nll=math.inf), *fits("deep ensemble", nll=math.nan)])
    (row,) = summary_table(results).rows
    assert row[4:] == ("–", "–", "1 of 1", "−∞ (−∞)")
    assert "nan" not in outside_page(results)


def test_other_records_are_left_out_and_of_two_the_last_counts():
    strange = [*fits("oracle"), *fits("GP", "moon"), *fits("GP", kind="other")]
    assert not outside_results(strange)
    results = outside_results([*fits("GP", nll=1.0), *fits("GP", nll=5.0, splits=3)])
    assert results.mean("gap", "boston", "GP", "nll") == 5.0


def test_the_page_says_what_its_numbers_say():
    page = outside_page(outside_results([*RECORDS, *fits("stack", kind="random", held=0.95)]))
    assert "from 20 records" in page
    assert (
        "gap splits: BDKN 75.0 %, deep ensemble 90.0 %, GP 90.0 %, quantile forest 90.0 %; random splits: Stacking "
        "95.0 %." in page
    )
    assert page.index("## Summary") < page.index("## Gap splits") < page.index("## Random splits")
    assert "## Tail splits" not in page
    assert outside_page(outside_results(RECORDS)) == outside_page(outside_results(RECORDS[::-1]))


def test_the_page_without_ours_has_tables_and_no_summary():
    page = outside_page(outside_results(fits("GP")))
    assert "## Gap splits" in page
    assert "## Summary" not in page
    assert text(fits("GP")) == text([]) == ""


@pytest.mark.parametrize("method", METHOD_TITLES)
def test_the_page_can_always_be_written(method):
    assert "nan" not in outside_page(outside_results(fits(method, kind="tail", splits=1)))


def test_the_section_of_the_results_leads_to_the_page(tmp_path):
    outside, ours = outside_results(RECORDS), [made("defaults", "boston", "bdkn")]
    assert "[outside.md](outside.md)" in results_page(ours, outside)
    assert "outside.md" not in results_page(ours)
    page = write_results(ours, tmp_path / "results.md", outside)
    assert (page.parent / "outside.md").read_text() == outside_page(outside)
    write_results(ours, tmp_path / "other" / "results.md")
    assert not (tmp_path / "other" / "outside.md").exists()


def test_written_from_a_file(tmp_path):
    file = tmp_path / "outside.ndjson"
    whole = "".join(json.dumps(record) + "\n" for record in RECORDS)
    file.write_text(whole + '{"set": "boston", "spl')
    assert read_outside(file) == RECORDS
    assert read_outside(tmp_path / "none.ndjson") == []
    page = write_outside(outside_results(read_outside(file)), tmp_path / "docs" / "outside.md")
    assert page.read_text() == outside_page(outside_results(RECORDS))
    with pytest.raises(InvalidParameterError, match="there must be records of random, gap or tail splits; got none"):
        write_outside(outside_results([]), page)
