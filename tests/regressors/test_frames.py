"""Tables other than NumPy arrays."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from quick import BOTH, EACH, QUICK, grouped, table

X, y = table()
NAMES = ["a", "b", "c"]


@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize("library", [pd, pl])
def test_data_frames(cls, library):
    frame, target = library.DataFrame(dict(zip(NAMES, X.T, strict=True))), library.Series(y)
    model = cls(**grouped(**QUICK)).fit(frame, target)
    np.testing.assert_array_equal(model.feature_names_in_, NAMES)
    plain = cls(**grouped(**QUICK)).fit(X, y)
    np.testing.assert_array_equal(model.predict(frame), plain.predict(X))
    np.testing.assert_array_equal(model.predict_interval(frame), plain.predict_interval(X))
    assert model.log_score(frame, target) == plain.log_score(X, y)


def test_integer_columns_keep_all_their_digits():
    stamps = 1_700_000_000 + np.arange(120)  # single precision cannot tell these apart
    frame = pd.DataFrame({"stamp": stamps})
    target = np.arange(120.0) + np.sin(np.arange(120.0))
    model = BOTH[0](**grouped(**QUICK)).fit(frame, target)
    assert model.score(frame, target) > 0.9


def test_member_report_without_pandas_names_the_extra(monkeypatch):
    import sys

    model = BOTH[0](**grouped(**QUICK, select_members=False)).fit(X, y)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'pip install "bdkn\[frames\]"'):
        model.member_report()
    assert model.member_table()["member"] == ["network 1", "network 2", "network 3"]
