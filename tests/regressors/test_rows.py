"""Rows that need no validation take a short way; all others are told apart from them."""

import numpy as np
import pytest
from quick import BOTH, QUICK, grouped, table
from sklearn.utils import validation

X, y = table()


@pytest.fixture(scope="module")
def model():
    return BOTH[0](**grouped(**QUICK)).fit(X, y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_plain_arrays_are_taken_as_they_are(model, dtype):
    rows = X.astype(dtype)
    assert model.model_.reader.read(rows) is rows
    assert validation.validate_data(model, rows, reset=False, dtype=(np.float64, np.float32)) is rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X[:, :2], "X has 2 features, but BDKNRegressor is expecting 3 features as input"),
        (X[0], "Expected 2D array, got 1D array instead"),
        (X[:0], r"Found array with 0 sample\(s\)"),
        (np.where(X > 0, np.nan, X), "Input X contains NaN"),
        (np.where(X > 0, np.inf, X), "Input X contains infinity"),
        (X.astype(complex), "Complex data not supported"),
        (X.astype(str), "dtype='numeric' is not compatible|could not convert string to float|not supported"),
    ],
    ids=["columns", "one dimension", "no rows", "nan", "inf", "complex", "text"],
)
def test_bad_rows_are_refused_in_scikit_learns_words(model, rows, message):
    if rows.dtype.kind == "U":
        rows = np.full_like(rows, "one")
    with pytest.raises(ValueError, match=message):
        model.predict(rows)


def test_rows_that_can_be_converted_are_accepted(model):
    expected = model.predict(np.round(X))
    for rows in (np.round(X).astype(int), np.round(X).astype(">f8"), np.round(X).tolist(), np.round(X).astype(object)):
        np.testing.assert_array_equal(model.predict(rows), expected)


def test_rows_without_names_are_warned_of_where_names_were_fitted():
    pandas = pytest.importorskip("pandas")
    model = BOTH[0](**grouped(**QUICK)).fit(pandas.DataFrame(X, columns=list("abc")), y)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)
