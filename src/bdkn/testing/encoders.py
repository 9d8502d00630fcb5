"""What every encoder must do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass

import numpy as np

from bdkn.members import Encoder
from bdkn.rows import Rows, RowSource
from bdkn.testing.checks import require, require_equal
from bdkn.typing import FloatArray


def check_encoder(fit: Callable[[RowSource], Encoder], *, X: FloatArray | None = None) -> None:
    """Check that an encoder does what the regressors rely on.

    Parameters
    ----------
    fit : callable
        Function that fits the encoder to rows, for example ``Standardizer.fit``.
    X : ndarray of shape (n, n_columns), optional
        Table to check it on; by default a small one with a constant column and columns in very different units.

    Raises
    ------
    AssertionError
        If a check fails; the message says which.

    Examples
    --------
    >>> from bdkn.members import Standardizer
    >>> from bdkn.testing import check_encoder
    >>> check_encoder(Standardizer.fit)
    """
    table = _table() if X is None else X
    rows = Rows(table, np.zeros(len(table)))
    encoder = fit(rows)
    inputs = encoder.transform(table)
    require(encoder.n_columns == table.shape[1], "n_columns is the number of columns of the table it was fitted to")
    _check_inputs(encoder, table)
    require_equal(encoder.transform(table), inputs, "the same rows give the same inputs each time")
    require_equal(encoder.transform(table[::-1]), inputs[::-1], "the inputs of a row depend on that row alone")
    require_equal(fit(rows).transform(table), inputs, "fitting to the same rows gives the same encoder")
    blocks = fit(_Blocks(rows)).transform(table)
    require(np.allclose(blocks, inputs, rtol=1e-5, atol=1e-5), "rows in blocks give the encoder of all rows at once")
    require(is_dataclass(encoder), "an encoder is a dataclass, so that its fields can be saved with a model")
    require(type(encoder)(**_fields(encoder)) is not encoder, "an encoder can be made again from its fields")
    require_equal(type(encoder)(**_fields(encoder)).transform(table), inputs, "an encoder is what its fields are")


def _check_inputs(encoder: Encoder, table: FloatArray) -> None:
    for part in (table, table[:1], 1e6 * np.nan_to_num(table)):
        inputs = encoder.transform(part)
        require(inputs.dtype == np.float32, "inputs are in single precision")
        require(inputs.ndim == 2 and len(inputs) == len(part), "there is one row of inputs per row of the table")
        require(bool(inputs.flags.c_contiguous), "inputs are C-contiguous")
        require(bool(np.isfinite(inputs).all()), "inputs are finite")


def _fields(encoder: Encoder) -> dict[str, object]:
    return {part.name: getattr(encoder, part.name) for part in fields(encoder)}  # type: ignore[arg-type]


def _table() -> FloatArray:
    generator = np.random.default_rng(0)
    return generator.normal(size=(40, 4)) * [1.0, 1e5, 1e-5, 0.0] + [0.0, 1e6, 0.0, 3.0]


class _Blocks:
    """Rows that come one by one and by seven."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def blocks(self, size: int | None = None):  # type: ignore[no-untyped-def]
        yield from self._rows.blocks(min(7, size or 7))
