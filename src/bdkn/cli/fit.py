"""``bdkn fit``: learn to predict a column of a table, and write the model to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bdkn.cli.labelled import Roles, read_labelled
from bdkn.cli.model_files import record_making
from bdkn.cli.options import AsJson, Coverage, Data, Jobs, Quiet, Seed, Target
from bdkn.cli.terminal import Screen, errors_as_messages
from bdkn.cli.training import Training

HELP = """Learn to predict a column of a table, and write the model to a file.

Columns may hold numbers, true/false, dates and text, with gaps. The fit ends with an estimate of how good predictions
for new rows will be, from rows that were left out of training.

Example:

    bdkn fit flats.csv --target price --drop id --out flats.bdkn
"""


def fit(
    data: Data,
    target: Target,
    out: Annotated[Path, typer.Option(help="Model file to write.", show_default=False)],
    method: Annotated[str, typer.Option(help="bdkn or deep-ensemble.")] = "bdkn",
    features: Annotated[str | None, typer.Option(help="Input columns: a,b,c. All others if not given.")] = None,
    drop: Annotated[str | None, typer.Option(help="Columns that are no inputs: x,y.")] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Column of labels; rows with the same label are left out together, as of one patient."),
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of dates or numbers; later rows are predicted from earlier ones.")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Column that says how many times each row counts.")] = None,
    effort: Annotated[str, typer.Option(help="fast, balanced or best.")] = "balanced",
    coverage: Coverage = 0.9,
    lower: Annotated[float | None, typer.Option(help="Lowest number that the target can be.")] = None,
    upper: Annotated[float | None, typer.Option(help="Highest number that the target can be.")] = None,
    time_limit: Annotated[float | None, typer.Option(min=0.1, help="Seconds that training should take.")] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn to predict a column of a table, and write the model to a file."""
    with errors_as_messages():
        from bdkn.table_files import check_output, format_of

        screen = Screen(json=as_json, quiet=quiet)
        verbose = int(not quiet and sys.stderr.isatty())
        training = Training(method, effort, coverage, seed, time_limit, lower, upper, jobs, time is not None, verbose)
        if time is not None and groups is not None:
            from bdkn.errors import InvalidParameterError

            raise InvalidParameterError("--time and --groups cannot both divide the rows; give one of them")
        check_output(out, data)
        format_of(data)
        rows = read_labelled(data, Roles.of(target, features, drop, groups, time, weights), screen)
        screen.progress(f"Fitting {method} to {len(rows):,} rows and {rows.X.shape[1]} columns of {data}")
        with screen.noting_warnings():
            model, estimate = training.fit(rows)
        tell_columns(model, screen)
        record_making(model, data=data.name, target=target, rows=len(rows), estimate=estimate.numbers())
        model.save(out)
        screen.say(*estimate.sentences(target), f"Model: {out}")
        screen.finish({"model": str(out), "target": target, "inputs": list(rows.X.columns), **_as_result(estimate)})


def tell_columns(model: Any, screen: Screen) -> None:
    """Note the columns that carry nothing, if the model says which."""
    for row in getattr(getattr(model, "columns_", None), "rows", ()):
        if row.get("kind") in ("constant", "identifier", "copy", "empty"):
            screen.note(f"column {row['name']!r} is not used: {row['why']}")


def _as_result(estimate: Any) -> dict[str, Any]:
    return {"estimate": estimate.numbers()}
