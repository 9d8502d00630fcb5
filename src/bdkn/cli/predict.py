"""``bdkn predict``: predict the rows of a table, in blocks, so that tables of any length fit into memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from bdkn.cli.model_files import choose_density, load_model
from bdkn.cli.options import AsJson, Coverage, Density, Jobs, Model, Quiet, names_of
from bdkn.cli.terminal import Screen, errors_as_messages

HELP = """Predict the rows of a table.

Writes one line per row, in the order of the table: mean, standard deviation and interval; on request quantiles and the
probability to exceed a threshold; and whether the row lies inside the training data ("inside", "gap", "outside"), with
the column that is responsible. Files are read and written by their ending; "-" is standard input or output, as CSV.

Example:

    bdkn predict flats.bdkn new.csv --id id --above 500000 --out predicted.csv
"""


def predict(
    model: Model,
    data: Annotated[str, typer.Argument(help="Table to predict, or - for CSV on standard input.", show_default=False)],
    out: Annotated[str, typer.Option(help="Table to write, or - for CSV on standard output.")] = "-",
    id: Annotated[str | None, typer.Option(help="Column that identifies rows; it is copied as it stands.")] = None,
    keep: Annotated[str | None, typer.Option(help="More columns to copy: a,b,c.")] = None,
    coverage: Coverage = 0.9,
    quantiles: Annotated[str | None, typer.Option(help="Levels of quantiles: 0.05,0.5,0.95.")] = None,
    above: Annotated[str | None, typer.Option(help="Thresholds t for the probability P(y > t): 10,20.")] = None,
    support: Annotated[
        bool, typer.Option("--support/--no-support", help="Say which rows lie outside the training data.")
    ] = True,
    formulas: Annotated[
        bool, typer.Option("--formulas", help="Copy texts to CSV as they stand, also those that spreadsheets compute.")
    ] = False,
    density: Density = None,
    jobs: Jobs = -1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table."""
    with errors_as_messages():
        from bdkn.cli.prediction_blocks import PredictionPlan, predict_file
        from bdkn.errors import InvalidParameterError
        from bdkn.table_files import STREAM, check_output, format_of

        if as_json and out == STREAM:
            raise InvalidParameterError("--json prints a summary on standard output; name a file for the table: --out")
        screen = Screen(json=as_json, quiet=quiet)
        format_of(out)
        if out != STREAM:
            check_output(out, *(() if data == STREAM else (data,)), model)
        fitted = choose_density(load_model(model), density)
        copied = tuple(dict.fromkeys([*names_of(id), *names_of(keep)]))
        plan = PredictionPlan.of(
            fitted, copied, coverage, _numbers("--quantiles", quantiles), _numbers("--above", above), support=support
        )
        with screen.noting_warnings():
            counts = predict_file(plan, data, out, _workers(jobs), screen.note, formulas=formulas)
        for note in counts.notes(Path(data).name):
            screen.note(note)
        screen.progress(
            f"{counts.rows:,} row{'s' if counts.rows != 1 else ''} predicted" + ("" if out == STREAM else f": {out}")
        )
        screen.finish({"rows": counts.rows, "support": counts.status, "out": out})


def _workers(jobs: int) -> int:
    """Return the number of threads; more than twice as many as there are cores only need memory."""
    cores = os.cpu_count() or 1
    return min(jobs, 2 * cores) if jobs > 0 else cores


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    """Return the numbers in a list that is separated by commas."""
    from bdkn.errors import InvalidParameterError

    try:
        return tuple(float(word) for word in names_of(text))
    except ValueError as error:
        raise InvalidParameterError(
            f"{option} must be numbers separated by commas, as 0.1,0.9; got {text!r}"
        ) from error
