"""``bdkn explain``: what drives predictions, and what makes them uncertain."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bdkn.cli.model_files import input_names, load_model, with_inputs
from bdkn.cli.terminal import AsJson, Data, Model, Quiet, Screen, Seed, cell, errors_as_messages, number

HELP = """Say what each column adds to the prediction and to its uncertainty, for one row or for all.

Example:

    bdkn explain flats.bdkn new.csv --row 3
"""


def explain(
    model: Model,
    data: Data,
    row: Annotated[int | None, typer.Option(min=1, help="Number of a row, from 1; all rows if not given.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Most rows to explain, chosen at random.")] = 100,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say what each column adds to the prediction and to its uncertainty."""
    with errors_as_messages():
        screen = Screen(json=as_json, quiet=quiet)
        fitted = explainable(load_model(model))
        X = read_inputs(fitted, data, screen)
        with screen.noting_warnings():
            found = fitted.explain(one_row(X, row), X, max_rows=rows, random_state=seed)
        if row is None:
            show_all(found, screen)
        else:
            show_row(found, screen, row, X)


def explainable(model: Any) -> Any:
    """Return the model; raise if it cannot be explained."""
    from bdkn.errors import InvalidParameterError

    if not hasattr(model, "explain"):
        raise InvalidParameterError(
            f"bdkn explain needs a model that combines networks; got a {type(model).__name__}: make one by "
            "`bdkn fit --method bdkn`"
        )
    return model


def read_inputs(model: Any, data: Any, screen: Screen) -> Any:
    """Return the columns of a table that a model needs, as a data frame."""
    from bdkn.table_files import read_table

    return with_inputs(model, read_table(data, screen.note), data)[list(input_names(model) or ())]


def one_row(X: Any, row: int | None) -> Any:
    """Return one row of a table as a table; all rows if none is named."""
    from bdkn.errors import InvalidParameterError

    if row is None:
        return X
    if row > len(X):
        raise InvalidParameterError(f"--row must be at most {len(X)}, the number of rows; got {row}")
    return X.iloc[[row - 1]]


def show_all(found: Any, screen: Screen) -> None:
    """Print how much each column changes predictions, and the standard deviation, on average over rows."""
    import numpy as np

    sizes = np.abs(found.values).mean(axis=0)
    order = np.argsort(-sizes[:, 0], kind="stable")
    rows = [{"column": found.columns[j], **dict(zip(found.parts, sizes[j].tolist(), strict=True))} for j in order]
    title = f"How much each column changes a prediction, on average over {len(found.values)} rows"
    screen.table(title, ("column", *found.parts), [_cells(row) for row in rows])
    screen.finish({"rows": len(found.values), "columns": rows})


def show_row(found: Any, screen: Screen, number: int, X: Any) -> None:
    """Print what each column adds to the prediction of one row, from the average prediction to its own."""
    import numpy as np

    values = found.values[0]
    order = np.argsort(-np.abs(values[:, 0]), kind="stable")
    rows = [{"column": found.columns[j], **dict(zip(found.parts, values[j].tolist(), strict=True))} for j in order]
    given = X.iloc[number - 1]
    cells = [(_given(row["column"], given[row["column"]]), *_cells(row, sign=True)[1:]) for row in rows]
    ends = [("average prediction", *_plain(found.base)), *cells, (f"row {number}", *_plain(found.prediction[0]))]
    screen.table(f"What each column adds to the prediction of row {number}", ("", *found.parts), ends)
    totals = {"average": found.base, "prediction": found.prediction[0]}
    named = {key: dict(zip(found.parts, total.tolist(), strict=True)) for key, total in totals.items()}
    screen.finish({"row": number, **named, "columns": rows})


def _cells(row: dict[str, Any], *, sign: bool = False) -> tuple[str, ...]:
    return tuple(value if isinstance(value, str) else number(value, sign=sign) for value in row.values())


def _given(name: str, value: Any) -> str:
    return f"{name} = {cell(value)}" if cell(value) else f"{name} is missing"


def _plain(numbers: Any) -> tuple[str, ...]:
    return tuple(map(number, numbers))
