"""What every member must do."""

from __future__ import annotations

from typing import Any

import numpy as np

from bdkn.members import Member
from bdkn.testing.checks import require, require_close, require_equal


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
        If a check fails; the message says which.

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
        require(bool((np.asarray(variance) >= 0).all()), "variances are not negative")
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
    require(bool(np.isfinite(column).all()), f"{name} are finite for rows like the training rows")
