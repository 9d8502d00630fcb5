import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn_paper.data import Fingerprint
from bdkn_paper.data.fingerprint import statistics

ROWS, COLUMNS = 400, 5


def table(seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(ROWS, COLUMNS)) * [1e-4, 1.0, 1e3, 1e5, 10.0] + [0.0, 5.0, 0.0, 1e5, 1000.0]
    numbers[:, 1] = 288.0  # A constant column
    return numbers


def fingerprint(numbers, **options):
    return Fingerprint(len(numbers), tuple(map(tuple, statistics(numbers).tolist())), **options)


KNOWN = fingerprint(table())


def test_statistics_by_loops():
    numbers = table()[:50]
    golden = (5**0.5 - 1) / 2
    for column, (mean, sd, wave) in enumerate(statistics(numbers)):
        values = [float(value) for value in numbers[:, column]]
        assert mean == pytest.approx(sum(values) / 50, rel=1e-14)
        assert sd == pytest.approx((sum((value - mean) ** 2 for value in values) / 50) ** 0.5, rel=1e-12)
        product = sum((i * golden % 1 - 0.5) * 12**0.5 * (value - mean) for i, value in enumerate(values)) / 50
        assert wave == pytest.approx(product, rel=1e-9, abs=1e-12 * abs(mean))


def test_the_wave_has_mean_zero_and_variance_one():
    unit = np.eye(2000)[:, :1]  # a column of one 1 shows the wave's value there
    waves = np.array([statistics(np.roll(unit, i, axis=0))[0, 2] * 2000 for i in range(2000)])
    assert waves.mean() == pytest.approx(0, abs=1e-2)
    assert waves.var() == pytest.approx(1, abs=1e-2)


def test_the_same_numbers_match():
    assert KNOWN.mismatch(table()) is None


@pytest.mark.parametrize("digits", [12, 9, 8])
def test_rounding_in_print_is_tolerated(digits):
    numbers = np.array([[float(f"{value:.{digits}g}") for value in row] for row in table()])
    assert not np.array_equal(numbers, table())
    assert KNOWN.mismatch(numbers) is None


def test_single_precision_is_tolerated():
    assert KNOWN.mismatch(table().astype(np.float32).astype(np.float64)) is None


@given(st.permutations(range(40)))
def test_any_other_order_of_rows_is_told(order):
    numbers = table()
    numbers[:40] = numbers[:40][order]
    why = KNOWN.mismatch(numbers)
    if list(order) == sorted(order):
        assert why is None
    else:
        assert why == "its rows are in another order, which the row numbers of the splits would not fit"


@given(st.tuples(st.integers(0, ROWS - 1), st.integers(0, ROWS - 1)))
def test_two_exchanged_rows_are_told(pair):
    numbers = table()
    numbers[list(pair)] = numbers[list(pair[::-1])]
    assert (KNOWN.mismatch(numbers) is None) == (pair[0] == pair[1])


def test_exchanged_columns_are_told():
    why = KNOWN.mismatch(table()[:, [0, 1, 2, 4, 3]])
    assert why.startswith("column 4 of 5 has the mean ")


def test_one_wrong_number_is_told():
    numbers = table()
    numbers[7, 4] += 1.0
    assert KNOWN.mismatch(numbers).startswith("column 5 of 5 has the mean ")


def test_another_constant_is_told():
    numbers = table()
    numbers[:, 1] = 288.001
    assert KNOWN.mismatch(numbers) == "column 2 of 5 has the mean 288.001, not 288"


def test_a_wider_spread_is_told():
    numbers = table()
    numbers[:, 2] = (numbers[:, 2] - numbers[:, 2].mean()) * 1.01 + numbers[:, 2].mean()
    assert KNOWN.mismatch(numbers).startswith("column 3 of 5 has the standard deviation ")


def test_shape_and_missing_numbers_are_told():
    assert KNOWN.mismatch(table()[:-1]) == "it has the shape (399, 5), not (400, 5)"
    assert KNOWN.mismatch(table()[:, :-1]) == "it has the shape (400, 4), not (400, 5)"
    numbers = table()
    numbers[3, 3], numbers[4, 4] = np.nan, np.inf
    assert KNOWN.mismatch(numbers) == "it holds 2 numbers that are missing or not finite"


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_known_rounding_is_tolerated_however_it_falls(seed, one_sided):
    rounding = np.array([1e-6, 0.05, 5.0, 50.0, 0.05])
    shift = np.random.default_rng(seed).uniform(-1, 1, size=(ROWS, COLUMNS))
    known = fingerprint(table(), rounding=tuple(rounding))
    assert known.mismatch(table() + rounding * (np.sign(shift[0]) if one_sided else shift)) is None


def test_more_than_the_known_rounding_is_told():
    known = fingerprint(table(), rounding=(0.0, 0.0, 0.0, 0.0, 0.05))
    numbers = table()
    numbers[:, 4] += 0.051
    assert known.mismatch(numbers).startswith("column 5 of 5 has the mean ")
    numbers[:, 4] -= 0.051
    numbers[:, 3] += 0.5
    assert known.mismatch(numbers).startswith("column 4 of 5 has the mean ")


def test_a_known_head_is_all_that_is_compared():
    known = Fingerprint(ROWS, fingerprint(table()[:10]).columns, head=10)
    numbers = table()
    numbers[10:] = 0
    assert known.mismatch(numbers) is None
    numbers[9] = 0
    assert known.mismatch(numbers) is not None
