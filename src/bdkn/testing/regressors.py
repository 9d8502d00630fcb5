"""What every regressor must do: the public check, and the list of all that it checks."""

from __future__ import annotations

from bdkn.regressors import ProbabilisticRegressor
from bdkn.testing.checks import require
from bdkn.testing.regressor_case import Case, read_only, sample_table
from bdkn.testing.regressor_fits import (
    check_bad_tables,
    check_copies,
    check_failed_fit,
    check_file,
    check_fit,
    check_frames,
    check_parameters,
    check_refit,
    check_sample_weight,
    check_unfitted,
)
from bdkn.testing.regressor_predictions import (
    check_agreement,
    check_bad_arguments,
    check_joint,
    check_rows,
    check_shapes,
    check_units,
)
from bdkn.typing import FloatArray

_CHECKS = (
    check_parameters,
    check_unfitted,
    check_fit,
    check_refit,
    check_failed_fit,
    check_copies,
    check_shapes,
    check_agreement,
    check_joint,
    check_rows,
    check_units,
    check_bad_arguments,
    check_frames,
    check_bad_tables,
    check_sample_weight,
    check_file,
)


def check_regressor(model: ProbabilisticRegressor, *, X: FloatArray | None = None, y: FloatArray | None = None) -> None:
    """Check that a regressor keeps the contract of this library's regressors.

    The contract goes beyond scikit-learn's, whose ``check_estimator`` should be run, too: all ways to predict agree, a
    fit that fails changes nothing, the same seed gives the same bits, units of the target and order of rows do not
    matter, data frames keep their names, bad input is refused with a message that names it, and a saved model predicts
    the same bits. The regressor is fitted about fifteen times.

    Parameters
    ----------
    model : ProbabilisticRegressor
        Regressor with parameters that make its fits fast. It is cloned, not fitted. If its ``random_state`` is None, 0
        is used. It must scale its targets, as all regressors of this library do by default.
    X : ndarray of shape (n_samples, n_features), optional
        Rows to check it on, at least 24 of them with at least 2 columns; by default 60 rows with 3 columns.
    y : ndarray of shape (n_samples,), optional
        Their targets, which must not be constant.

    Raises
    ------
    AssertionError
        If a check fails; the message says what must hold.

    Examples
    --------
    >>> from bdkn import DeepEnsembleRegressor
    >>> from bdkn.testing import check_regressor
    >>> check_regressor(DeepEnsembleRegressor(n_members=2, hidden_layer_sizes=8, epochs=5))
    """
    if (X is None) != (y is None):
        raise TypeError("give both X and y, or neither")
    rows, targets = sample_table() if X is None or y is None else (X, y)
    require(len(rows) >= 24 and rows.shape[1] >= 2, "a regressor is checked on at least 24 rows with 2 columns")
    case = Case(model, read_only(rows), read_only(targets))
    for check in _CHECKS:
        try:
            check(case)
        except AssertionError as error:
            error.add_note(f"{check.__name__} of {type(model).__name__}")
            raise
