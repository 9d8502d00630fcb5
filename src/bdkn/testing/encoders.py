"""Checks that an encoder, or a fitted member of an ensemble, does what this library relies on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bdkn.data.rows import Rows, RowSource
from bdkn.data.scaling import Encoder
from bdkn.ensemble.estimators import Member
from bdkn.typing import FloatArray


def require(holds: bool | np.bool_, statement: str) -> None:
    """Raise AssertionError with ``statement`` as its message unless ``holds``."""
    if not holds:
        raise AssertionError(f"this must hold: {statement}")


def require_equal(found: ArrayLike, expected: ArrayLike, statement: str) -> None:
    """Raise AssertionError unless both arrays are exactly equal."""
    require(np.array_equal(np.asarray(found), np.asarray(expected), equal_nan=True), statement)


def require_close(
    found: ArrayLike, expected: ArrayLike, statement: str, *, rtol: float = 1e-7, atol: float = 0.0
) -> None:
    """Raise AssertionError unless both arrays are equal within a tolerance."""
    require(np.allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=atol, equal_nan=True), statement)


def check_encoder(fit: Callable[[RowSource], Encoder], *, X: FloatArray | None = None) -> None:
    """Check that an encoder, which turns table columns into inputs, does what the regressors rely on.

    Parameters
    ----------
    fit : callable
        Function that fits the encoder to rows, for example ``Standardizer.fit``.
    X : ndarray of shape (n, n_columns), optional
        Table to check it on; by default a small one with a constant column and columns in very different units.

    Raises
    ------
    AssertionError
        If a check fails; the message is the statement that does not hold.

    Examples
    --------
    >>> from bdkn.data.scaling import Standardizer
    >>> from bdkn.testing import check_encoder
    >>> check_encoder(Standardizer.fit)
    """
    if X is None:
        columns = np.random.default_rng(0).normal(size=(40, 4))
        X = columns * [1.0, 1e5, 1e-5, 0.0] + [0.0, 1e6, 0.0, 3.0]
    table = np.asarray(X)
    rows = Rows(table, np.zeros(len(table)))
    encoder = fit(rows)
    inputs = encoder.transform(table)
    require(encoder.n_columns == table.shape[1], "n_columns is the number of columns of the table it was fitted to")
    for part in (table, table[:1], 1e6 * np.nan_to_num(table)):
        found = encoder.transform(part)
        require(found.dtype == np.float32, "inputs are in single precision")
        require(found.ndim == 2 and len(found) == len(part), "there is one row of inputs per row of the table")
        require(found.flags.c_contiguous, "inputs are C-contiguous")
        require(np.isfinite(found).all(), "inputs are finite")
    require_equal(encoder.transform(table), inputs, "the same rows give the same inputs each time")
    require_equal(encoder.transform(table[::-1]), inputs[::-1], "the inputs of a row depend on that row alone")
    require_equal(fit(rows).transform(table), inputs, "fitting to the same rows gives the same encoder")
    blocks = fit(_Blocks(rows)).transform(table)
    require(np.allclose(blocks, inputs, rtol=1e-5, atol=1e-5), "rows in blocks give the encoder of all rows at once")
    require(is_dataclass(encoder), "an encoder is a dataclass, so that its fields can be saved with a model")
    again = type(encoder)(**{part.name: getattr(encoder, part.name) for part in fields(encoder)})  # type: ignore[arg-type]
    require(again is not encoder, "an encoder can be made again from its fields")
    require_equal(again.transform(table), inputs, "an encoder with the same fields gives the same inputs")


class _Blocks:
    """A row source that yields at most seven rows at once."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def blocks(self, size: int | None = None):  # type: ignore[no-untyped-def]
        yield from self._rows.blocks(min(7, size or 7))


def check_member(member: Member, X: Any) -> None:
    """Check that a fitted member does what the combination of members relies on.

    Parameters
    ----------
    member : Member
        Object with ``predict(X) -> (mean, variance or None)``.
    X : array-like of shape (n, n_columns)
        Rows that it can predict, at least two; rows are taken by slices.

    Raises
    ------
    AssertionError
        If a check fails; the message is the statement that does not hold.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BDKNRegressor
    >>> from bdkn.testing import check_member
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> model = BDKNRegressor(n_members=2, epochs=5, random_state=0).fit(X, X[:, 0])
    >>> check_member(model.members_[0], X)
    """
    n = len(X)
    require(n >= 2, "the member is checked on at least two rows")
    answer = member.predict(X)
    require(isinstance(answer, tuple) and len(answer) == 2, "predict returns a pair: means, and variances or None")
    mean, variance = answer
    _check_column("means", mean, n)
    if variance is not None:
        _check_column("variances", variance, n)
        require((np.asarray(variance) >= 0).all(), "variances are not negative")
    again = member.predict(X)
    require_equal(again[0], mean, "the same rows give the same means each time")
    require((again[1] is None) == (variance is None), "a member has variances always or never")
    half, rest = member.predict(X[: n // 2]), member.predict(X[n // 2 :])
    require_close(
        np.concatenate([half[0], rest[0]]), mean, "the mean of a row depends on that row alone", rtol=1e-5, atol=1e-8
    )


def _check_column(name: str, values: Any, n: int) -> None:
    column = np.asarray(values)
    require(column.shape == (n,), f"{name} are of shape (n,)")
    require(column.dtype == np.float64, f"{name} are in double precision")
    require(np.isfinite(column).all(), f"{name} are finite for rows like the training rows")
