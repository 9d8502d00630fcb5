"""Conversion of user input to numbers, and errors that name other values."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pytest

from bdkn.arrays import check_readable, read_numbers
from bdkn.errors import InvalidParameterError


@pytest.mark.parametrize(
    "given",
    [[1, 2.5], (1, 2.5), np.array([1, 2.5], dtype=np.float16), np.array([Decimal(1), 2.5], dtype=object), ["1", "2.5"],
     np.ma.array([1, 2.5]), np.array([1, 2.5], dtype=">f8")],
)  # fmt: skip
def test_numbers_of_any_kind_are_read(given):
    np.testing.assert_array_equal(read_numbers("y", given), [1.0, 2.5])


def test_double_precision_is_not_copied():
    y = np.array([1.0, 2.0])
    assert read_numbers("y", y) is y
    assert np.isnan(read_numbers("y", [1.0, None])[1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ma.array([1.0, 2.0], mask=[False, True]), "y must hold a number everywhere; row 1 is masked: fill"),
        (np.array(["2026-01-01", "NaT"], dtype="datetime64[D]"), "y must hold numbers; got dates: subtract a date"),
        (np.array([1, 2], dtype="timedelta64[s]"), "y must hold numbers; got durations: divide"),
        (np.array([1j, 2]), "y must hold numbers; got complex numbers"),
        (np.zeros(2, dtype=[("a", "f8")]), "y must hold numbers; got a structured array"),
        (np.array([1.0, datetime.date(2026, 1, 1)], dtype=object), r"y must hold numbers; row 1 is datetime\.date"),
        (np.array([1.0, "a"], dtype=object), "y must hold numbers; row 1 is 'a': convert them"),
        (np.array([1.0, 10**400], dtype=object), "y must hold numbers of double precision; row 1 is 1000"),
        ([[1.0], [1.0, 2.0]], "y must be an array of numbers; got"),
    ],
)  # fmt: skip
def test_values_that_are_not_numbers_are_refused(given, message):
    with pytest.raises(InvalidParameterError, match=message):
        read_numbers("y", given)


def test_missing_values_of_pandas_and_sparse_matrices_are_refused():
    pd = pytest.importorskip("pandas")
    from scipy.sparse import csr_matrix

    with pytest.raises(
        InvalidParameterError, match=r"X must hold a number everywhere; row 0, column 1 is missing \(<NA>\)"
    ):
        check_readable("X", np.array([[1.0, pd.NA]], dtype=object))
    with pytest.raises(
        InvalidParameterError, match=r"y must be an array; got a sparse matrix: y\.toarray\(\) makes one"
    ):
        read_numbers("y", csr_matrix(np.eye(2)))


def test_moments_of_distributions_at_the_edge_of_all_numbers():
    from bdkn import Gaussian, GaussianMixture, StudentT
    from bdkn.predictive import StudentTMixture

    with np.errstate(all="raise"):
        assert Gaussian([1.0], [2.0]).affine(1e-300, 1.7e308).std() == pytest.approx(2e-300)
        assert GaussianMixture([[1.7e308, 1.7e308]], [[0.3, 0.3]]).mean()[0] == pytest.approx(1.7e308)
        assert StudentT(np.inf, [0.0], [1.0]).logpdf(1e25)[0] == pytest.approx(-0.5e50)
    dist = StudentTMixture(5.0, [0.0], [1.0], 0.5, [[0.0]], [[1.0]], [[0.5]])
    assert np.isnan(dist.logpdf(np.nan)[0])
    with pytest.raises(InvalidParameterError, match="shift must be a number"):
        dist.affine(1.0, 10**400)


def test_quantiles_of_a_mixture_as_wide_as_all_numbers():
    from bdkn import GaussianMixture

    with np.errstate(over="raise", invalid="raise"):
        lower, upper = GaussianMixture([[0.0, 1.0], [0.0, 1.0]], [[1.7e308, 1.7e308], [1.0, 1.0]]).interval(0.9)
        score = GaussianMixture([[0.0, 1.0]], [[1.7e308, 1.7e308]]).crps(0.0)
    assert score[0] == pytest.approx(1.7e308 * GaussianMixture([[0.0, 0.0]], [[1.0, 1.0]]).crps(0.0)[0])
    assert lower[0] < -1e308
    assert upper[0] > 1e308
    expected = np.ravel(GaussianMixture([[0.0, 1.0]], [[1.0, 1.0]]).interval(0.9))
    np.testing.assert_allclose((lower[1], upper[1]), expected)
