from made_records import made

from bdkn_paper.analysis.peer_results import peer_results
from bdkn_paper.analysis.shape import shapes
from bdkn_paper.pages.results import results_page
from bdkn_paper.pages.shape import shape_section
from bdkn_paper.tables.shape import shape_coverage_table, shape_table

COVERAGE = {"coverage_50": 0.5, "coverage_90": 0.9, "coverage_95": 0.95}


def fits(method="bdkn", dataset="boston", splits=20, mixtures=20, gain=0.5):
    """Return records of which the first have a mixture, whose scores are lower by ``gain`` and something of a split."""
    found = []
    for split in range(splits):
        record = made("defaults", dataset, method, split, rmse=2.0, nll=2.0, seconds={"fit": 1.0, "fit_cpu": 1.0})
        record["metrics"] |= COVERAGE
        if split < mixtures:
            lost = gain + 0.01 * (split % 3)
            record["student_t"] = record["metrics"] | {"nll": 2.0 + lost, "crps": 1.0 + lost, "coverage_50": 0.6}
        found.append(record)
    return found


def old(records):
    return [record | {"seconds": {"fit": 1.0}} for record in records]


def text(records):
    return "\n".join(shape_section(peer_results(records)))


def test_scores_with_and_without():
    found = peer_results([*fits(), *fits("stack", mixtures=0)])
    assert shape_table(found, "nll").rows == (
        ("Boston", "2.51", "**2.00** +", "20 of 20", "**2.00**", "**2.00**", "0 of 20"),
    )
    assert shape_coverage_table(found).rows == (
        ("Boston", "60 / 90 / 95", "50 / 90 / 95", "20 of 20", "50 / 90 / 95", "50 / 90 / 95", "0 of 20"),
    )


def test_where_no_mixture_was_chosen_the_student_t_is_what_is_predicted():
    found = shapes(peer_results(fits(mixtures=5)), "boston", "bdkn")
    assert (found.chosen, len(found)) == (5, 20)
    assert found.predicted("nll").mean == 2.0
    assert found.student_t("nll").mean == (2.5 + 2.51 + 2.52 + 2.5 + 2.51 + 15 * 2.0) / 20


def test_a_mixture_that_loses_is_marked():
    (row,) = shape_table(peer_results(fits(gain=-0.5)), "crps").rows
    assert row[1:3] == ("**0.509**", "1.000 −")


def test_missing_splits_are_told():
    (row,) = shape_table(peer_results(fits(splits=4, mixtures=2)), "nll").rows
    assert row[3:] == ("2 of 4 (4/20)", "–", "–", "–")


def test_records_older_than_mixtures_are_left_out():
    assert text(old(fits(mixtures=0))) == ""
    mixed = [*fits(splits=3, mixtures=3), *old(fits("stack", mixtures=0)), *old(fits(dataset="wine", mixtures=0))]
    (row,) = shape_table(peer_results(mixed), "nll").rows
    assert row[3:] == ("3 of 3 (3/20)", "–", "–", "–")


def test_scores_that_records_do_not_have():
    records = fits(splits=2, mixtures=2)
    for record in records:
        del record["metrics"]["crps"], record["metrics"]["coverage_95"]
    (scores,), (coverage,) = (
        table.rows
        for table in (shape_table(peer_results(records), "crps"), shape_coverage_table(peer_results(records)))
    )
    assert scores[1:3] == ("–", "–")
    assert coverage[1:3] == ("60 / 90 / 95", "–")


def test_the_section_says_what_its_numbers_say():
    records = [*fits(), *fits(dataset="wine", mixtures=0), *fits("stack", mixtures=0), *fits(dataset="sarcos-clean")]
    page = text(records)
    assert (
        "BDKN chose a mixture on 1 of 2 data sets; there its NLL is below that of the Student-t on 1, significantly on "
        "1, and significantly above on 0. Stacking chose a mixture on 0 of 1 data sets." in page
    )
    assert page.count("### ") == 3
    assert "Sarcos, clean" in page
    assert "Stacking chose" not in text(fits())


def test_one_split_is_no_test():
    page = text(fits(splits=1, mixtures=1))
    assert "below that of the Student-t on 1, significantly on 0" in page


def test_the_section_is_part_of_the_page_if_there_are_mixtures():
    assert "## Shape on and off" in results_page(fits())
    assert "## Shape on and off" not in results_page(fits(mixtures=0))
