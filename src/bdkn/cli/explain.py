"""bdkn explain."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bdkn.cli.model_files import input_names, load_model, read_inputs
from bdkn.cli.terminal import AsJson, Data, Model, Quiet, Screen, Seed, cell, errors_as_messages, number
from bdkn.errors import InvalidParameterError

HELP = """Show what each column adds to the prediction and to its uncertainty, for one row or for all.

Example:

    bdkn explain flats.bdkn new.csv --row 3
"""


def explain(
    model: Model,
    data: Data,
    row: Annotated[int | None, typer.Option(min=1, help="Number of a row, from 1; all rows if not given.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Largest number of rows to explain, chosen at random.")] = 100,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show what each column adds to the prediction and to its uncertainty."""
    with errors_as_messages():
        screen = Screen(json=as_json, quiet=quiet)
        fitted = load_model(model)
        X = read_inputs(fitted, data, screen.note)[list(input_names(fitted))]
        if row is not None and row > len(X):
            raise InvalidParameterError(f"--row must be at most {len(X)}, the number of rows; got {row}")
        with screen.noting_warnings():
            explained = X if row is None else X.iloc[[row - 1]]
            found = fitted.explain(explained, X, max_rows=rows, random_state=seed)
        if row is None:
            show_all(found, screen)
        else:
            show_row(found, screen, row, X)


def show_all(found: Any, screen: Screen) -> None:
    """Print the mean absolute change of a prediction, and of the parts of its variance, by each column."""
    import numpy as np

    rows = _by_column(found, np.abs(found.values).mean(axis=0))
    cells = [(row["column"], *(number(row[part]) for part in found.parts)) for row in rows]
    title = f"How much each column changes a prediction, on average over {len(found.values)} rows"
    screen.table(title, ("column", *found.parts), cells)
    screen.finish({"rows": len(found.values), "columns": rows})


def show_row(found: Any, screen: Screen, row_number: int, X: Any) -> None:
    """Print what each column adds to the prediction of one row, from the average prediction to its own."""
    rows, given = _by_column(found, found.values[0]), X.iloc[row_number - 1]
    cells = [("average prediction", *map(number, found.base))]
    for row in rows:
        value = cell(given[row["column"]])
        name = f"{row['column']} = {value}" if value else f"{row['column']} is missing"
        cells.append((name, *(number(row[part], sign=True) for part in found.parts)))
    cells.append((f"row {row_number}", *map(number, found.prediction[0])))
    screen.table(f"What each column adds to the prediction of row {row_number}", ("", *found.parts), cells)
    totals = {"average": found.base, "prediction": found.prediction[0]}
    named = {key: dict(zip(found.parts, total.tolist(), strict=True)) for key, total in totals.items()}
    screen.finish({"row": row_number, **named, "columns": rows})


def _by_column(found: Any, values: Any) -> list[dict[str, Any]]:
    """Return the values (p, K) of each column by the names of the parts, the largest first."""
    import numpy as np

    order = np.argsort(-np.abs(values[:, 0]), kind="stable")
    return [{"column": found.columns[j], **dict(zip(found.parts, values[j].tolist(), strict=True))} for j in order]
