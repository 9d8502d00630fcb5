"""Facts about fitted regressors, and their description as plain data."""

import base64

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bdkn import BayesianStackingRegressor, BDKNRegressor, DeepEnsembleRegressor
from bdkn.analysis.explanation import mixed_rows
from bdkn.analysis.inspection import (
    column_codes,
    held_out_predictions,
    held_out_targets,
    input_columns,
    input_names,
    n_prototypes,
)
from bdkn.errors import ColumnsWarning, InvalidParameterError
from bdkn.model.description import NotDescribedError, describe_model
from bdkn.report.what_if import as_json

SMALL = {"n_members": 2, "hidden_layer_sizes": (4,), "epochs": 5, "random_state": 0}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"a": rng.normal(size=60), "b": rng.choice(["x", "y"], 60), "c": rng.random(60) < 0.5, "d": "same"}
    )
    X.loc[3, "a"] = np.nan
    X["e"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 60), unit="D")
    return X, rng.normal(size=60)


@pytest.fixture(scope="module")
def model(frame):
    return BDKNRegressor(**SMALL, cv=2, effort="fast", density="student-t").fit(*frame)


def test_held_out_rows_are_predicted_in_the_units_of_the_target(model, frame):
    np.testing.assert_allclose(np.sort(held_out_targets(model)), np.sort(frame[1]), rtol=1e-9, atol=1e-12)
    found = held_out_predictions(model)
    np.testing.assert_array_equal(found.y, held_out_targets(model))
    rmse = np.sqrt(np.average((found.dist.mean() - found.y) ** 2, weights=found.counts))
    assert rmse == pytest.approx(model.member_curve()["rmse"][-1], rel=1e-6)


def test_a_regressor_without_held_out_rows(frame):
    X = frame[0][["e"]].assign(e=np.arange(60.0))
    ensemble = DeepEnsembleRegressor(**SMALL).fit(X, frame[1])
    assert held_out_targets(ensemble) is None
    assert held_out_predictions(ensemble) is None
    assert n_prototypes(ensemble) == 0
    assert describe_model(ensemble.model_)["combination"] is None


def test_columns_and_their_codes(model, frame):
    columns = input_columns(model)
    assert [column["kind"] for column in columns] == ["number", "category", "boolean", "unused", "date"]
    assert [column["missing"] for column in columns if column["kind"] == "number"] == [True]
    codes = column_codes(model, frame[0])
    assert [part.shape[1] for part in codes] == [column["n_codes"] for column in columns]
    assert codes[0][3].tolist() == [columns[0]["fill"], 1.0]
    assert [columns[1]["values"][int(code)] for code in codes[1][:, 0]] == frame[0]["b"].tolist()
    assert input_names(model)[:2] == ["a", "a"]


def test_rows_of_a_data_frame_are_mixed_after_they_were_encoded(model, frame):
    X, names = frame[0], tuple("abcde")
    mixed, found = mixed_rows(model.model_, X[:7][list("edcba")], X[7:20])
    assert found == names
    np.testing.assert_array_equal(mixed.owner, model.table_.column_of_feature)
    numbers = np.random.default_rng(0).integers(0, 20, size=(30, 5))
    plain = pd.DataFrame({name: X[name].to_numpy()[numbers[:, j]] for j, name in enumerate(names)})
    np.testing.assert_array_equal(mixed.take(numbers), model.table_.transform(plain))


def test_dependence_on_a_column_with_a_number_as_its_name(frame):
    X = frame[0][["a", "e"]].set_axis([7, 3], axis=1)
    model = BDKNRegressor(**SMALL, cv=2, effort="fast", density="student-t").fit(X, frame[1])
    one, other = (model.partial_dependence(table, 7, [0.0, 1.0]) for table in (X, X[[3, 7]]))
    assert one.column == other.column == "7"
    np.testing.assert_array_equal(one.mean, other.mean)
    refused = pytest.raises(InvalidParameterError, match="column must be one of '7', '3'; got 'new'")
    with pytest.warns(ColumnsWarning), refused:
        model.partial_dependence(X.assign(new=1.0), "new", [0.0])


def test_prototypes_of_few_rows_are_the_rows(model):
    assert n_prototypes(model) == 60


def test_members_that_are_no_networks_cannot_be_described():
    X = np.linspace(-1.0, 1.0, 30)[:, None]
    stack = BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0])
    assert input_columns(stack) is None
    with pytest.raises(NotDescribedError, match="its members are not networks"):
        describe_model(stack.model_)


TYPES = {"u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "u32": "u4", "i32": "i4", "f32": "f4", "f64": "f8"}
ARRAYS = st.one_of(
    arrays(np.float64, st.integers(0, 5), elements=st.floats(allow_nan=True)),
    arrays(np.float32, st.integers(0, 5), elements=st.floats(width=32)),
    arrays(np.int32, st.integers(0, 5)),
    arrays(np.bool_, st.integers(0, 5)),
    st.sampled_from([np.array([-1.0, 127.0]), np.array([0.0, 255.0]), np.array([0, 65_536]), np.array([-(2.0**31)])]),
)


@given(ARRAYS)
def test_arrays_as_json_hold_the_same_numbers(values):
    ((name, text),) = as_json({"a": [values]})["a"][0].items()
    data = base64.b64decode(text)
    np.testing.assert_array_equal(np.frombuffer(data, f"<{TYPES[name]}"), values)
    assert len(data) <= values.nbytes or values.dtype == np.bool_
