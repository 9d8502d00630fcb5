"""Rows that are the same, and rows that are not."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from bdkn.data.rows import Rows
from bdkn.ensemble import provenance

X = np.arange(24.0).reshape(8, 3)
y = np.arange(8.0)
WORDS = {"word": ["a", "b"] * 4, "number": list(range(8))}


def digest(X, y, counts):
    return provenance.digest(Rows(X, y, counts))


def other(table, change):
    """Return the table with one entry changed."""
    changed = {name: list(column) for name, column in table.items()}
    changed[change][-1] = changed[change][0]
    return changed


@pytest.mark.parametrize("library", [pd, pl])
def test_data_frames(library):
    seen = digest(library.DataFrame(WORDS), y, None)
    assert seen == digest(library.DataFrame(dict(WORDS)), y.copy(), None)
    renamed = {"text": WORDS["word"], "number": WORDS["number"]}
    for table in (other(WORDS, "word"), other(WORDS, "number"), renamed):
        assert digest(library.DataFrame(table), y, None) != seen


def test_arrays():
    seen = digest(X, y, None)
    assert seen == digest(np.asfortranarray(X), y, None)
    changed = X.copy()
    changed[7, 2] += 1e-9
    others = [
        (changed, y, None),
        (X.reshape(8, 3)[::-1], y, None),
        (X, y + 1, None),
        (X, y, np.ones(8)),
        (X[:4], y, None),
    ]
    assert len({seen, *(digest(*given) for given in others)}) == 6


def test_sparse_tables():
    seen = digest(csr_array(X), y, None)
    assert seen == digest(csr_array(X), y, None)
    assert seen != digest(csr_array(2 * X), y, None)
    assert seen != digest(csr_array(np.roll(X, 1, axis=1)), y, None)


def test_rows_beyond_the_first_thousands_count():
    many = np.zeros((20_000, 1))
    changed = many.copy()
    changed[-1] = 1
    assert digest(many, many[:, 0], None) != digest(changed, many[:, 0], None)
