"""Numbers, dates and booleans that are written as text, and columns of unusual types."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bdkn.arrays import is_frame
from bdkn.data.encoder import ColumnReport, TableEncoder
from bdkn.errors import ColumnsWarning, InvalidParameterError

N = 40
NUMBERS = np.random.default_rng(0).integers(1_000, 99_999, N) / 4
DAYS = pd.date_range("2024-01-05", periods=N, freq="3D")


def frame(values):
    return pd.DataFrame({"x": values})


def kind_of(values):
    return ColumnReport.of(TableEncoder.fit(frame(values))).rows[0]["kind"]


@pytest.mark.parametrize(
    "write",
    [
        lambda v: f"{v:,.2f}",
        lambda v: f"{v:,.2f}".replace(",", "'"),
        lambda v: f"€ {v:.2f}",
        lambda v: f"CHF {v:,.2f}",
        lambda v: f"{v:.2f} %",
        lambda v: f"{v:.2f}".replace(".", ","),
        lambda v: f"{v:,.2f}".translate(str.maketrans(",.", ".,")),
    ],
)
def test_formats_of_numbers(write):
    encoder = TableEncoder.fit(frame([write(v) for v in NUMBERS]))
    assert encoder.columns[0].kind == "number"
    np.testing.assert_allclose(encoder.transform(frame([write(v) for v in NUMBERS]))[:, 0], NUMBERS)
    np.testing.assert_allclose(encoder.transform(frame([write(1234.5)])), [[1234.5]])


@pytest.mark.parametrize("word", ["?", "n/a", "-", "missing", "Unknown"])
def test_words_for_missing_values_among_numbers_and_dates_are_missing(word):
    encoder = TableEncoder.fit(frame([word, *map(str, NUMBERS[1:])]))
    assert encoder.features == ("x", "x is missing")
    assert encoder.transform(frame([word, "5"]))[:, 1].tolist() == [1, 0]
    assert kind_of([word, *map(str, DAYS[1:].date)]) == "date"
    assert f"{word!r} in it is a missing value" in str(ColumnReport.of(encoder))


def test_words_for_missing_values_among_words_are_values():
    assert kind_of(["unknown", "gas", "oil", "?"] * 10) == "category"


@pytest.mark.parametrize(
    "form", ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%b %d, %Y", "%d %B %Y", "%d.%m.%Y %H:%M", "%m/%d/%y"]
)
def test_formats_of_dates(form):
    encoder, plain = TableEncoder.fit(frame(DAYS.strftime(form))), TableEncoder.fit(frame(DAYS))
    np.testing.assert_array_equal(encoder.transform(frame(DAYS.strftime(form))), plain.transform(frame(DAYS)))
    one = frame([datetime.datetime(2024, 3, 2).strftime(form)])  # day and month could be either
    assert encoder.transform(one)[0, 0] == plain.transform(frame(pd.to_datetime(["2024-03-02"])))[0, 0]


def test_ambiguous_dates_are_warned_about():
    days = [f"{month:02d}/{day:02d}/2024" for month in range(1, 5) for day in range(1, 11)]
    with pytest.warns(ColumnsWarning, match="could be written as MM/DD/YYYY or as DD/MM/YYYY; they are read as MM/DD"):
        TableEncoder.fit(frame(days))


def test_a_wrong_date_is_named_with_the_form_of_training():
    encoder = TableEncoder.fit(frame(DAYS.strftime("%d.%m.%Y")))
    with pytest.raises(InvalidParameterError, match=r"dates in training, written as DD.MM.YYYY; row 1 is '3/4/2024'"):
        encoder.transform(frame(["01.02.2024", "3/4/2024"]))


def test_times_of_day_are_seconds():
    times = [datetime.time(j % 24, j) for j in range(N)]
    for given in (times, [time.strftime("%H:%M") for time in times]):
        seconds = TableEncoder.fit(frame(given)).transform(frame(given))[:, 0]
        np.testing.assert_array_equal(seconds, [3600 * (j % 24) + 60 * j for j in range(N)])


def test_a_time_of_day_that_does_not_vary_is_no_cycle():
    evenings = pd.date_range("2024-01-05 23:00", periods=N)
    assert not any("time of day" in feature for feature in TableEncoder.fit(frame(evenings)).features)


def test_booleans_may_be_written():
    encoder = TableEncoder.fit(frame([True, False] * 20))
    assert encoder.transform(frame(["Yes", "no", "TRUE", "f"]))[:, 0].tolist() == [1, 0, 1, 0]


def test_columns_must_have_their_kind_of_training():
    dates, numbers = TableEncoder.fit(frame(DAYS)), TableEncoder.fit(frame(NUMBERS))
    with pytest.raises(InvalidParameterError, match="column 'x' held dates in training; it holds numbers now"):
        dates.transform(frame([20240203]))
    with pytest.raises(InvalidParameterError, match="column 'x' held numbers in training; it holds dates now"):
        numbers.transform(frame(DAYS))
    with pytest.raises(InvalidParameterError, match="column 'x' held durations in training; it holds numbers now"):
        TableEncoder.fit(frame(DAYS - DAYS[0])).transform(frame([3.0]))


def test_space_around_texts_does_not_count_and_empty_ones_are_missing():
    encoder = TableEncoder.fit(frame(["gas", "oil ", " gas", "pump"] * 10))
    assert encoder.columns[0].values == ("gas", "oil", "pump")
    assert TableEncoder.fit(frame(["", "a", "b"] * 10)).features == ("x = a", "x = b", "x is missing")


def test_categorical_columns_of_a_frame_are_categories():
    codes = pd.Categorical(np.arange(N) % 15)
    encoder = TableEncoder.fit(frame(codes))
    assert len(encoder.columns[0].values) == 15
    for other in ([3, 4], [3.0, 4.0], ["3", "4"]):
        np.testing.assert_array_equal(encoder.code(frame(other)), encoder.code(frame(codes))[3:5])


def test_levels_of_polars_enums_are_ordered():
    values = pl.Series("x", ["low", "high", "middle"] * 10, dtype=pl.Enum(["low", "middle", "high"]))
    encoder = TableEncoder.fit(pl.DataFrame({"x": values}))
    assert encoder.transform(pl.DataFrame({"x": values[:3]}))[:, -1].tolist() == [0, 2, 1]


def test_a_third_value_lies_between_two_values_and_is_warned_about():
    encoder = TableEncoder.fit(frame(["yes", "no", "no", "no"] * 10))
    with pytest.warns(ColumnsWarning, match="did not have in training: 'Yes' in place of 'no', 'yes'"):
        inputs = encoder.transform(frame(["Yes", "no", "yes"]))
    assert inputs[:, 0].tolist() == [0.25, 0, 1]


def test_columns_that_are_not_used_need_not_be_there():
    given = frame(NUMBERS).assign(nothing=None, same="a")
    encoder = TableEncoder.fit(given)
    np.testing.assert_array_equal(encoder.transform(given[["x"]]), encoder.transform(given))


@pytest.mark.parametrize(
    "values",
    [
        [1j, 2j],
        [[1], [2]],
        [{"a": 1}, {}],
        [b"a", b"b"],
        [(1, 2), (3, 4)],
        [np.arange(2), np.arange(3)],
        [object()] * 2,
    ],
)
def test_values_that_are_no_single_ones_are_named(values):
    with pytest.raises(InvalidParameterError, match="column 'x' must hold one value per row, a number, a date or a"):
        TableEncoder.fit(frame(pd.Series(values, dtype=object)))


def test_tables_of_other_shapes():
    assert kind_of(pd.period_range("2020-01", periods=N, freq="M")) == "date"
    with pytest.raises(InvalidParameterError, match=r"got a LazyFrame: X\.collect\(\) makes one"):
        is_frame(pl.LazyFrame({"x": [1]}))
    with pytest.raises(InvalidParameterError, match="at least one column; got a data frame without columns"):
        TableEncoder.fit(pd.DataFrame(index=range(3)))
    encoder = TableEncoder.fit(frame(NUMBERS))
    with pytest.raises(InvalidParameterError, match="at least one row; got a data frame without rows"):
        encoder.transform(frame(NUMBERS).iloc[:0])
    with pytest.raises(InvalidParameterError, match=r"got a dict: pandas.DataFrame\(\[X\]\), for one row, makes one"):
        encoder.transform({"x": 1.0})
    named = pa.Table.from_pandas(frame(NUMBERS).iloc[::2])  # has a column with row names
    assert TableEncoder.fit(named).names == ("x",)


def test_statistics_of_targets_that_are_noise_are_constant():
    generator = np.random.default_rng(0)
    values = frame([f"v{v:02d}" for v in generator.integers(0, 30, 300)])
    encoder = TableEncoder.fit(values)
    codes, spread = encoder.code(values), []
    for _ in range(8):
        spread.append(np.ptp(encoder.learn(codes, generator.normal(size=300))[1][:, -2:], axis=0).max())
    assert 2 <= np.count_nonzero(spread) <= 6  # the estimated variance between values is zero in about half of them
    reports = [str(ColumnReport.of(encoder.learn(codes, y)[0])) for y in generator.normal(size=(8, 300))]
    assert any("nothing: targets of its values differ no more than by chance" in text for text in reports)
    effect = codes[:, 0] / 5 + generator.normal(size=300)
    assert np.ptp(encoder.learn(codes, effect)[1][:, -2]) > 0.5
