"""Regressors on data frames with columns of several kinds."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from quick import BOTH, QUICK, grouped
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import bdkn
from bdkn import BayesianStackingRegressor, BDKNRegressor, ColumnsWarning, RepeatedRowsWarning

RNG = np.random.default_rng(3)
N = 150
FRAME = pd.DataFrame(
    {
        "area": np.where(np.arange(N) % 9 == 0, np.nan, RNG.gamma(5.0, 15.0, N)),
        "heating": np.where(np.arange(N) % 11 == 0, None, RNG.choice(["gas", "oil", "pump"], N)),
        "street": RNG.choice([f"street {j}" for j in range(20)], N),
        "built": pd.Timestamp("1990-01-01") + pd.to_timedelta(RNG.integers(0, 9000, N), unit="D"),
        "number": [f"F{j:05d}" for j in range(N)],
    }
)
STREET = FRAME["street"].str.split().str[1].astype(float)
y = (0.1 * FRAME["area"].fillna(75.0) + 3.0 * (FRAME["heating"] == "gas") + 0.3 * STREET).to_numpy()
y = y + 0.3 * RNG.normal(size=N)


@pytest.fixture(scope="module", params=BOTH)
def model(request):
    return request.param(**grouped(**QUICK | {"epochs": 60})).fit(FRAME, y)


def test_a_frame_is_used_as_it_is(model):
    assert model.n_features_in_ == 5
    assert list(model.feature_names_in_) == list(FRAME.columns)
    assert model.score(FRAME, y) > 0.5
    assert np.isfinite(model.log_score(FRAME, y))
    kinds = {row["name"]: row["kind"] for row in model.columns_.rows}
    assert kinds == {
        "area": "number", "heating": "category", "street": "category", "built": "date", "number": "identifier"
    }  # fmt: skip


def test_frames_of_all_libraries_and_orders_are_predicted_alike(model):
    expected = model.predict(FRAME)
    for frame in (pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME), FRAME[FRAME.columns[::-1]]):
        np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(FRAME[5:6]), model.predict(FRAME)[5:6])


def test_a_loaded_model_has_its_columns(model, tmp_path):
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    np.testing.assert_array_equal(loaded.predict_interval(FRAME), model.predict_interval(FRAME))
    assert str(loaded.columns_) == str(model.columns_)
    assert loaded.table_.features == model.table_.features


def test_what_new_rows_may_hold(model):
    new = FRAME.iloc[:3].assign(heating=["coal", None, "gas"], street="elsewhere", area=[None, 70.0, 80.0])
    with pytest.warns(
        ColumnsWarning, match="column 'street' holds values that it did not have in training: 'elsewhere'"
    ):
        assert np.isfinite(model.predict_interval(new)).all()
    with pytest.warns(ColumnsWarning, match="'colour'"):
        model.predict(FRAME.assign(colour="red"))
    with pytest.raises(ValueError, match="missing: 'area'"):
        model.predict(FRAME.drop(columns="area"))
    with pytest.raises(ValueError, match="must be a data frame with the columns of the fit"):
        model.predict(np.zeros((2, 5)))


@pytest.mark.no_cover
def test_a_fit_to_an_array_forgets_the_frame():
    model = BOTH[0](**grouped(**QUICK)).fit(FRAME, y)
    X = np.column_stack([STREET, y])
    model.fit(X, y)
    assert model.table_ is None
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    assert [row["kind"] for row in model.columns_.rows] == ["number", "number"]


def test_support_names_the_columns_of_the_frame():
    model = BOTH[0](**grouped(**QUICK)).fit(FRAME, y)
    report = model.support(FRAME.iloc[:4].assign(area=5000.0))
    assert set(report.status) == {"outside"}
    assert set(report.column) == {"area"}


@pytest.mark.no_cover
def test_members_can_be_added_to_a_fit_to_a_frame():
    model = BOTH[0](**grouped(**QUICK, select_members=False)).fit(FRAME, y)
    more = model.add_members(1, FRAME, y)
    at_once = BOTH[0](**grouped(**QUICK | {"n_members": QUICK["n_members"] + 1}, select_members=False)).fit(FRAME, y)
    np.testing.assert_allclose(more.predict(FRAME), at_once.predict(FRAME))


def test_copies_are_found_in_frames():
    twice, targets = pd.concat([FRAME, FRAME], ignore_index=True), np.tile(y, 2)
    with pytest.warns(RepeatedRowsWarning, match=f"{N} of {2 * N} rows repeat another row"):
        BOTH[0](**grouped(**QUICK)).fit(twice, targets)


def test_a_column_that_repeats_the_target_is_told():
    with pytest.warns(ColumnsWarning, match="column 'price' repeats the target"):
        BOTH[0](**grouped(**QUICK)).fit(FRAME.assign(price=2.0 * y + 1.0), y)


@pytest.mark.no_cover
def test_rows_that_count_twice_and_groups():
    counts = np.where(np.arange(N) % 2, 2.0, 0.0)
    model = BOTH[0](**grouped(**QUICK)).fit(FRAME, y, sample_weight=counts)
    assert np.isfinite(model.predict(FRAME)).all()
    by_street = BOTH[0](**grouped(**QUICK)).fit(FRAME, y, groups=FRAME["street"])
    assert np.isfinite(by_street.predict(FRAME)).all()


@pytest.mark.no_cover
def test_the_default_stack_takes_frames():
    stack = BayesianStackingRegressor(effort="fast", random_state=0).fit(FRAME, y)
    assert stack.score(FRAME, y) > 0.5
    assert stack.drop_members(stack.member_names_[0]).predict(pl.from_pandas(FRAME)).shape == (N,)
    assert stack.columns_.rows[1]["kind"] == "category"


@pytest.mark.no_cover
def test_members_that_are_given_receive_the_frame_as_it_is():
    hot = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["heating", "street"]))
    members = [
        ("line", make_pipeline(hot, Ridge())),
        ("networks", bdkn.DeepEnsembleRegressor(**grouped(**QUICK))),
    ]
    frame = FRAME.astype({"heating": "category", "street": "category"})
    stack = BayesianStackingRegressor(members, random_state=0).fit(frame, y)
    more = stack.add_members([("also", make_pipeline(hot, Ridge(10.0)))], frame, y)
    trees = HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype")
    of_trees = BayesianStackingRegressor([("trees", trees)], random_state=0).fit(frame[["area", "heating"]], y)
    assert np.isfinite(of_trees.predict(frame[["area", "heating"]])).all()
    assert np.isfinite(more.predict(frame)).all()


@pytest.mark.no_cover
def test_a_model_of_a_frame_lives_and_decides(model, tmp_path):
    if not hasattr(model, "partial_fit"):
        pytest.skip("a deep ensemble is not updated")
    new, targets = FRAME.iloc[:20].assign(area=60.0), y[:20]
    before = model.predict(FRAME)
    model.partial_fit(new, targets)
    assert (model.predict(FRAME) != before).any()
    model.forget(new, targets)
    np.testing.assert_allclose(model.predict(FRAME), before, rtol=1e-8)
    assert model.predict_above(FRAME, float(np.median(y))).shape == (N,)
    explained = model.explain(FRAME.iloc[:5], background=FRAME)
    assert list(explained.columns) == list(FRAME.columns)
    assert explained.importance().shape[0] == FRAME.shape[1]  # the last column is not used
    model.report(FRAME, y, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["1,045", *["900"] * (len(FRAME) - 1)], "y must hold numbers; row 0 is '1,045': convert them"),
        ([1.0, None, *[2.0] * (len(FRAME) - 2)], f"1 of {len(FRAME)} are missing or infinite, the first in row 1"),
        (pd.date_range("2024-01-01", periods=len(FRAME)), "y must hold numbers; got dates: subtract a date"),
    ],
)
def test_targets_that_are_no_numbers_are_named(targets, message):
    with pytest.raises(ValueError, match=message):
        BDKNRegressor().fit(FRAME, targets)


def test_names_of_columns_are_no_weights_and_no_groups():
    y = np.arange(float(len(FRAME)))
    with pytest.raises(ValueError, match=r"sample_weight must hold one number.*if this is a column, X\['area'\]"):
        BDKNRegressor().fit(FRAME, y, sample_weight="area")
    with pytest.raises(ValueError, match=r"groups must hold one label per row.*if this is a column, X\['heating'\]"):
        BDKNRegressor().fit(FRAME, y, groups="heating")


def test_dependence_on_dates_and_numbers_in_text_is_in_their_order():
    days = pd.date_range("2023-01-01", periods=80, freq="9D")
    frame = pd.DataFrame({"day": days.strftime("%d.%m.%Y"), "tax": [f"{9000 + 37 * j:,}" for j in range(80)]})
    model = BDKNRegressor(n_members=2, epochs=5, effort="fast", random_state=0, n_jobs=1).fit(
        frame, np.arange(80.0) ** 2
    )
    grid = pd.to_datetime(pd.Series(model.partial_dependence(frame, "day").grid), format="%d.%m.%Y")
    assert grid.is_monotonic_increasing
    assert grid.iloc[-1] > days[75]
    taxes = [int(text.replace(",", "")) for text in model.partial_dependence(frame, "tax").grid]
    assert taxes == sorted(taxes)
    assert taxes[-1] > 11_000
