"""``bdkn compare``: which method predicts a column best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bdkn.cli.labelled import Roles, read_labelled
from bdkn.cli.options import AsJson, Coverage, Data, Quiet, Seed, Target, names_of
from bdkn.cli.terminal import Screen, errors_as_messages
from bdkn.cli.wording import number

HELP = """Compare methods on a table: those of bdkn, and those of other libraries that are installed.

All are fitted with their defaults to the same folds and predict the rows left out. Other methods see the table behind
the usual encoders; CatBoost and NGBoost stop when a tenth of the rows, left out for this, is predicted worse. The best
CRPS comes first.

Methods: bdkn, stack, deep-ensemble, catboost, ngboost, boosting, process, ridge, mean.

Example:

    bdkn compare flats.csv --target price --methods bdkn,boosting,ridge --picture compared.png
"""


def compare(
    data: Data,
    target: Target,
    methods: Annotated[str | None, typer.Option(help="Methods: a,b,c. All that are installed if not given.")] = None,
    folds: Annotated[int, typer.Option(min=2, help="Number of folds.")] = 5,
    features: Annotated[str | None, typer.Option(help="Input columns: a,b,c. All others if not given.")] = None,
    drop: Annotated[str | None, typer.Option(help="Columns that are no inputs: x,y.")] = None,
    groups: Annotated[str | None, typer.Option(help="Column of labels; same labels are left out together.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of dates or numbers; later rows are left out.")] = None,
    effort: Annotated[str, typer.Option(help="fast, balanced or best; for the methods of bdkn.")] = "balanced",
    coverage: Coverage = 0.9,
    picture: Annotated[Path | None, typer.Option(help="Picture to write: .png, .svg or .pdf.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare methods on a table."""
    with errors_as_messages():
        from bdkn.cli.comparison import METRICS, TITLES, compare_methods, draw_comparison, folds_of, write_comparison
        from bdkn.cli.peers import chosen_methods
        from bdkn.errors import InvalidParameterError, check_choice
        from bdkn.report import check_picture
        from bdkn.table_files import check_output

        screen = Screen(json=as_json, quiet=quiet)
        check_choice("--effort", effort, ("fast", "balanced", "best"))
        if picture is not None:
            check_output(check_picture(picture), data)
        chosen_methods(names_of(methods), 0)
        rows = read_labelled(data, Roles.of(target, features, drop, groups, time, None), screen)
        if len(rows) < 2 * folds:
            raise InvalidParameterError(f"{folds} folds need at least {2 * folds} rows with a target; got {len(rows)}")
        splits = folds_of(rows, folds, seed, ordered=time is not None)
        with screen.noting_warnings():
            found = compare_methods(
                chosen_methods(names_of(methods), len(rows)),
                rows,
                splits,
                seed=seed,
                effort=effort,
                coverage=coverage,
                tell=screen.progress,
            )
        title = f"Predictions of {target!r} for rows left out, averages of {folds} folds"
        cells = [(one.title, *(number(one.mean(metric)) for metric in METRICS)) for one in found]
        screen.table(title, ("method", *TITLES.values()), cells)
        if picture is not None:
            write_comparison(picture, draw_comparison(found, target, coverage))
            screen.say(f"Picture: {picture}")
        screen.finish({"methods": [one.numbers() for one in found], "picture": picture and str(picture)})
