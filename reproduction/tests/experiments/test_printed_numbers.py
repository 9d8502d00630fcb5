import math

import pytest

from bdkn_paper import paper
from bdkn_paper.data import DATASETS


def test_every_cell_of_the_tables_is_there_but_those_the_paper_lacks():
    cells = [(d, m) for d in paper.DATASETS for m in paper.METHODS]
    missing = {("protein", "gp"), ("sarcos", "gp"), ("song", "gp"), ("song", "ldbll")}
    for setting in (1, 2):
        for metric in ("rmse", "nll"):
            assert {c for c in cells if (setting, metric, *c) not in paper.scores()} == missing
        assert {c for c in cells if (setting, *c) not in paper.runtimes()} == missing
    assert len(paper.scores()) == 4 * (88 - 4)
    assert len(paper.runtimes()) == 2 * (88 - 4)


@pytest.mark.parametrize(
    ("cell", "mean", "std", "splits"),
    [
        ((1, "rmse", "boston", "bdkn"), 3.03, 0.78, 20),
        ((1, "rmse", "power", "de"), 3424.99, 6918.44, 20),
        ((2, "nll", "protein", "vbll"), 2.80, 0.01, 5),
        ((2, "nll", "yacht", "vbll"), 2.22, 2.63, 20),
        ((1, "nll", "song", "bdkn"), 3.49, 0.00, 1),
    ],
)
def test_scores_as_printed(cell, mean, std, splits):
    assert paper.scores()[cell] == paper.Printed(mean, std, splits)


def test_every_score_is_printed_with_two_decimals():
    for printed in paper.scores().values():
        assert round(printed.mean / paper.UNIT) * paper.UNIT == pytest.approx(printed.mean, abs=1e-9)


def test_the_totals_of_the_ten_sets():
    for setting, minutes in ((1, 63.03), (2, 749.35)):
        ten = [paper.runtimes()[setting, name, "bdkn"] for name in paper.DATASETS if name != "song"]
        assert sum(ten) == pytest.approx(minutes)


def test_data_sets():
    assert tuple(paper.datasets()) == tuple(paper.DATASETS)
    assert paper.datasets()["sarcos"] == paper.DatasetLine(39449, 21, 20, 35000, 4449)
    for line in paper.datasets().values():
        assert line.train_size + line.test_size == line.rows


def test_the_data_sets_are_those_of_the_registry():
    for name, line in paper.datasets().items():
        info = DATASETS[name]
        assert (info.features, info.n_splits, info.train_size, info.test_size) == (
            line.features,
            line.splits,
            line.train_size,
            line.test_size,
        )


def test_standard_error_from_a_population_deviation():
    assert paper.Printed(1.0, 0.57, 20).error == pytest.approx(0.57 / math.sqrt(19))
    assert math.isnan(paper.Printed(10.85, 0.0, 1).error)


def test_names_with_a_number():
    assert paper.stem_and_number("bdkn-30") == ("bdkn", 30)
    assert paper.stem_and_number("bdkn") == ("bdkn", 0)
    assert paper.stem_and_number("bdkn-exact") == ("bdkn-exact", 0)
    assert paper.stem_and_number("-3") == ("-3", 0)
