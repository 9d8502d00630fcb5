"""Data frames as numbers: every kind of column, of every library, by name."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn import ColumnsWarning
from bdkn.arrays import is_frame
from bdkn.data.encoder import FOLDS, ColumnReport, TableEncoder, normal_scores, parts_of_rows, target_statistics

RNG = np.random.default_rng(0)
N = 120
FRAME = pd.DataFrame(
    {
        "area": np.where(np.arange(N) % 9 == 0, np.nan, RNG.gamma(5.0, 15.0, N)),
        "rooms": pd.array(RNG.integers(1, 6, N), dtype="Int64"),
        "balcony": pd.array(RNG.random(N) < 0.4, dtype="boolean"),
        "heating": np.where(np.arange(N) % 11 == 0, None, RNG.choice(["gas", "oil", "pump"], N)),
        "street": RNG.choice([f"street {j}" for j in range(30)], N),
        "built": pd.Timestamp("1990-01-01") + pd.to_timedelta(RNG.integers(0, 9000, N), unit="D"),
        "lease": pd.to_timedelta(RNG.integers(1, 90, N), unit="D"),
        "number": [f"F{j:05d}" for j in range(N)],
        "country": "CH",
        "words": [" ".join(RNG.choice(["sunny", "quiet", "lake", "garden", "view"], 4)) + f" {j}" for j in range(N)],
    }
)
ENCODER = TableEncoder.fit(FRAME)
KINDS = {
    "area": "number",
    "rooms": "number",
    "balcony": "boolean",
    "heating": "category",
    "street": "category",
    "built": "date",
    "lease": "duration",
    "number": "identifier",
    "country": "constant",
    "words": "text",
}


def test_kinds_of_columns():
    report = ColumnReport.of(ENCODER)
    assert {row["name"]: row["kind"] for row in report.rows} == KINDS
    assert len(report) == len(KINDS)
    lines = str(report).splitlines()
    assert lines[0].split("  ")[-1] == "itself, and whether it is missing (some values are missing)"
    assert "nothing: it is not used (all values are 'CH')" in lines[8]
    assert report.to_frame().shape == (10, 4)


def test_inputs_are_finite_and_named():
    inputs = ENCODER.transform(FRAME)
    assert inputs.shape == (N, len(ENCODER.features))
    assert np.isfinite(inputs).all()
    assert len(ENCODER.column_of_feature) == len(ENCODER.features)
    by_name = dict(zip(ENCODER.features, inputs.T, strict=True))
    np.testing.assert_array_equal(by_name["area is missing"], FRAME["area"].isna())
    np.testing.assert_array_equal(by_name["area"], FRAME["area"].fillna(FRAME["area"].median()))
    np.testing.assert_array_equal(by_name["heating = gas"], FRAME["heating"] == "gas")
    np.testing.assert_array_equal(by_name["heating is missing"], FRAME["heating"].isna())
    np.testing.assert_array_equal(by_name["lease"], FRAME["lease"].dt.total_seconds())
    sine, cosine = by_name["built: weekday (sine)"], by_name["built: weekday (cosine)"]
    weekday = FRAME["built"].dt.day_of_week.to_numpy()
    same = weekday[:, None] == weekday
    apart = np.hypot(sine[:, None] - sine, cosine[:, None] - cosine)
    np.testing.assert_array_equal(apart < 1e-6, same)


@pytest.mark.parametrize(
    "library", [pl.from_pandas, pa.Table.from_pandas, lambda f: f.convert_dtypes(dtype_backend="pyarrow")]
)
def test_frames_of_other_libraries_give_the_same(library):
    frame = library(FRAME)
    assert is_frame(frame)
    np.testing.assert_allclose(ENCODER.transform(frame), ENCODER.transform(FRAME), rtol=1e-12)
    np.testing.assert_allclose(TableEncoder.fit(frame).transform(FRAME), ENCODER.transform(FRAME), rtol=1e-12)


def test_other_objects_are_not_frames():
    for other in (np.eye(2), [[1.0]], pd.Series([1.0]), None, "text"):
        assert not is_frame(other)
    with pytest.raises(ValueError, match=r"must be a data frame with the columns of the fit, 'area', .* got a ndarray"):
        ENCODER.transform(np.eye(10))


def test_columns_are_found_by_name():
    other = FRAME[FRAME.columns[::-1]]
    np.testing.assert_array_equal(ENCODER.transform(other), ENCODER.transform(FRAME))
    with pytest.warns(ColumnsWarning, match="1 column that the fit did not have is ignored: 'colour'"):
        ENCODER.transform(FRAME.assign(colour="red"))
    with pytest.raises(ValueError, match="missing: 'area', 'street'; it has 'Area', which the fit did not"):
        ENCODER.transform(FRAME.drop(columns="street").rename(columns={"area": "Area"}))
    doubled = pd.concat([FRAME, FRAME[["area"]]], axis=1)
    with pytest.raises(ValueError, match="columns must have different names; got 'area' more than once"):
        TableEncoder.fit(doubled)


def test_unseen_and_newly_missing_values():
    new = FRAME.iloc[:2].assign(heating="coal", street=[None, "elsewhere"], rooms=pd.array([None, 3], dtype="Int64"))
    with pytest.warns(ColumnsWarning) as caught:
        by_name = dict(zip(ENCODER.features, ENCODER.transform(new).T, strict=True))
    text = " ".join(str(warning.message) for warning in caught)
    assert "column 'rooms' is missing in 1 of 2 rows, and was never in training" in text
    assert (
        "column 'heating' holds values that it did not have in training: 'coal' in place of 'gas', 'oil', 'pump'"
        in text
    )
    assert [by_name[f"heating = {value}"].tolist() for value in ("gas", "oil", "pump")] == [[0, 0]] * 3
    assert by_name["rooms"].tolist() == [FRAME["rooms"].median(), 3]


def test_values_of_another_kind():
    with pytest.raises(ValueError, match="column 'area' held numbers in training; row 1 is 'big'"):
        ENCODER.transform(FRAME.assign(area=["1", "big"] * (N // 2)))
    with pytest.raises(ValueError, match="column 'area' must hold finite or missing numbers; row 0 is inf"):
        ENCODER.transform(FRAME.assign(area=np.inf))
    with pytest.raises(ValueError, match=r"column 'parts' must hold one value per row, .*; got List"):
        TableEncoder.fit(pl.DataFrame({"parts": [[1, 2], [3]]}))
    with pytest.raises(ValueError, match="at least one column must be usable; got 'a': all values are missing"):
        TableEncoder.fit(pd.DataFrame({"a": [None, None]}))
    as_text = FRAME.assign(area=FRAME["area"].map(lambda v: None if np.isnan(v) else repr(v)))
    np.testing.assert_array_equal(ENCODER.transform(as_text), ENCODER.transform(FRAME))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([str(j / 2) for j in range(40)], "number"),
        ([f"{j:03d}" for j in range(20)] * 2, "category"),
        (["2024-01-01", "2025-06-30"] * 20, "date"),
        ([datetime.date(2024, 1, 1), datetime.date(2025, 6, 30)] * 20, "date"),
        ([datetime.timedelta(days=1), None] * 20, "duration"),
        ([True, None] * 20, "boolean"),
        ([1, 2.5, None, 4] * 10, "number"),
        ([1, "two", None, 4] * 10, "category"),
    ],
)
def test_kinds_of_objects(values, kind):
    encoder = TableEncoder.fit(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    assert ColumnReport.of(encoder).rows[0]["kind"] == kind


def test_moments_with_time_zones_are_the_same_moments():
    moments = pd.date_range("2024-01-01", periods=50, freq="7h")
    plain, zoned = (pd.DataFrame({"t": t}) for t in (moments, moments.tz_localize("UTC").tz_convert("Asia/Tokyo")))
    encoder = TableEncoder.fit(plain)
    np.testing.assert_allclose(encoder.transform(zoned), encoder.transform(plain), rtol=1e-12)
    assert "t: time of day (sine)" in encoder.features


def test_ordered_categories_have_the_number_of_their_level():
    values = pd.Categorical(["low", "high", "middle"] * 10, categories=["low", "middle", "high"], ordered=True)
    encoder = TableEncoder.fit(pd.DataFrame({"x": values}))
    inputs = dict(
        zip(encoder.features, encoder.transform(pd.DataFrame({"x": ["low", "middle", "high"]})).T, strict=True)
    )
    assert inputs["x: number of the level"].tolist() == [0, 1, 2]


def test_target_statistics_of_a_row_do_not_depend_on_its_own_target():
    """Two rows of one part exchange targets: no rank changes, and statistics of other parts' rows do."""
    codes, parts = ENCODER.code(FRAME), parts_of_rows(N, None)
    street = FRAME["street"].astype("category").cat.codes.to_numpy()
    y = RNG.normal(size=N) + street / 5.0
    own = np.flatnonzero(parts == parts[7])
    other = own[street[own] != street[7]][0]
    exchanged = y.copy()
    exchanged[[7, other]] = y[[other, 7]]
    at = ENCODER.features.index("street: mean target")
    before, after = (ENCODER.learn(codes, targets)[1] for targets in (y, exchanged))
    np.testing.assert_array_equal(before[own], after[own])
    changed = np.setdiff1d(np.flatnonzero(np.isin(street, street[[7, other]])), own)
    assert len(changed) > 5
    assert (before[changed, at] != after[changed, at]).all()


def test_target_statistics_of_a_row_are_shrunken_means_of_other_parts():
    codes, parts = ENCODER.code(FRAME), parts_of_rows(N, None)
    street = FRAME["street"].astype("category").cat.codes.to_numpy()
    y = RNG.normal(size=N) + street / 5.0
    inputs, scores = ENCODER.learn(codes, y)[1], normal_scores(y, np.ones(N))
    means = inputs[:, ENCODER.features.index("street: mean target")]
    for row in range(0, N, 10):
        others = parts != parts[row]
        with_value = others & (street == street[row])
        low, high = sorted((scores[with_value].mean(), scores[others].mean()))
        assert low - 1e-12 <= means[row] <= high + 1e-12


def test_numbers_of_rows_in_other_parts_are_scaled_to_those_of_all_rows():
    codes, parts = ENCODER.code(FRAME), parts_of_rows(N, None)
    street = FRAME["street"].astype("category").cat.codes.to_numpy()
    inputs = ENCODER.learn(codes, RNG.normal(size=N) + street / 5.0)[1]
    found = inputs[:, ENCODER.features.index("street: logarithm of the number of rows")]
    for row in range(0, N, 10):
        others = parts != parts[row]
        expected = N / others.sum() * (street[others] == street[row]).sum()
        assert np.expm1(found[row]) == pytest.approx(expected, rel=1e-5)


def test_rows_of_one_set_are_in_one_part():
    sets = np.repeat(np.arange(40), 3)
    parts = parts_of_rows(120, sets).reshape(40, 3)
    assert (parts == parts[:, :1]).all()
    assert set(parts.ravel()) == set(range(FOLDS))


@given(st.data())
def test_shrunken_means_lie_between_the_value_and_the_whole(data):
    n, k = data.draw(st.integers(2, 40)), data.draw(st.integers(1, 6))
    codes = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    scores = np.array(data.draw(st.lists(st.floats(-5, 5), min_size=n, max_size=n)))
    counts = np.array(data.draw(st.lists(st.floats(0.5, 3), min_size=n, max_size=n)))
    (*means, overall), _ = target_statistics(codes, scores, counts, k)[0].T
    for value in range(k):
        at = codes == value
        if at.any():
            raw = np.average(scores[at], weights=counts[at])
            low, high = sorted((raw, overall))
            assert low - 1e-9 <= means[value] <= high + 1e-9
        else:
            assert means[value] == overall


def test_normal_scores_are_ranks():
    y = np.array([3.0, 1.0, 1e9, 2.0])
    scores = normal_scores(y, np.ones(4))
    np.testing.assert_array_equal(np.argsort(scores), np.argsort(y))
    np.testing.assert_allclose(scores.sum(), 0.0, atol=1e-12)
    np.testing.assert_allclose(
        normal_scores(np.repeat(y, 2), np.ones(8)), np.repeat(normal_scores(y, np.full(4, 2.0)), 2)
    )
