"""``bdkn explain``: what drives predictions, and what makes them uncertain."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bdkn.cli.model_files import input_names, load_model
from bdkn.cli.options import AsJson, Data, Model, Quiet, Seed
from bdkn.cli.terminal import Screen, errors_as_messages

HELP = """Say what each column adds to the prediction and to its uncertainty, for one row or for all.

Example:

    bdkn explain flats.bdkn new.csv --row 3
"""


def explain(
    model: Model,
    data: Data,
    row: Annotated[int | None, typer.Option(min=1, help="Number of a row, from 1; all rows if not given.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Most rows to explain together, chosen at random.")] = 1000,
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
            found = fitted.explain(chosen(X, row, rows, seed))
        show(found, screen, row)


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
    from bdkn.table_files.reading import check_columns

    frame, names = read_table(data, screen.note), input_names(model) or ()
    check_columns(names, list(frame.columns), data)
    return frame[list(names)]


def chosen(X: Any, row: int | None, most: int, seed: int) -> Any:
    """Return one row, or at most so many, chosen at random."""
    from bdkn.errors import InvalidParameterError

    if row is None:
        return X if len(X) <= most else X.sample(most, random_state=seed)
    if row > len(X):
        raise InvalidParameterError(f"--row must be at most {len(X)}, the number of rows; got {row}")
    return X.iloc[[row - 1]]


def show(found: Any, screen: Screen, row: int | None) -> None:
    """Print what an explanation says."""
    raise NotImplementedError
