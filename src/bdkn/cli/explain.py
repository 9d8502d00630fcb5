"""The command ``bdkn explain``, which shows what each column adds to predictions."""

from __future__ import annotations

from typing import Annotated

import typer

from bdkn.cli.inputs import input_names, load_model, read_inputs
from bdkn.cli.terminal import AsJson, Data, Model, Quiet, Screen, Seed, cell, number
from bdkn.errors import InvalidParameterError


def explain(
    model: Model,
    data: Data,
    row: Annotated[int | None, typer.Option(min=1, help="Number of a row, from 1; all rows if not given.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Largest number of rows to explain, chosen at random.")] = 100,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show what each column adds to the prediction and to its uncertainty, for one row or for all.

    Example:

        bdkn explain flats.bdkn new.csv --row 3
    """
    import numpy as np

    screen = Screen(json=as_json, quiet=quiet)
    fitted = load_model(model)
    X = read_inputs(fitted, data, screen)[list(input_names(fitted))]
    if row is not None and row > len(X):
        raise InvalidParameterError(f"--row must be at most {len(X)}, the number of rows; got {row}")
    with screen.noting_warnings():
        found = fitted.explain(X if row is None else X.iloc[[row - 1]], X, max_rows=rows, random_state=seed)
    # For one row, its contributions; for all rows, means of absolute contributions. The largest come first.
    values = np.abs(found.values).mean(axis=0) if row is None else found.values[0]
    order = np.argsort(-np.abs(values[:, 0]), kind="stable")
    columns = [{"column": found.columns[j], **dict(zip(found.parts, values[j].tolist(), strict=True))} for j in order]
    if row is None:
        cells = [(one["column"], *(number(one[part]) for part in found.parts)) for one in columns]
        title = f"How much each column changes a prediction, on average over {len(found.values)} rows"
        screen.table(title, ("column", *found.parts), cells)
        screen.finish({"rows": len(found.values), "columns": columns})
        return
    cells, given = [("average prediction", *map(number, found.base))], X.iloc[row - 1]
    for one in columns:
        value = cell(given[one["column"]])
        name = f"{one['column']} = {value}" if value else f"{one['column']} is missing"
        cells.append((name, *(number(one[part], sign=True) for part in found.parts)))
    cells.append((f"row {row}", *map(number, found.prediction[0])))
    screen.table(f"What each column adds to the prediction of row {row}", ("", *found.parts), cells)
    totals = {"average": found.base, "prediction": found.prediction[0]}
    named = {key: dict(zip(found.parts, total.tolist(), strict=True)) for key, total in totals.items()}
    screen.finish({"row": row, **named, "columns": columns})
