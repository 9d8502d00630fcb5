"""``bdkn evaluate``: compare predictions of a model with the true values of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bdkn.cli.fit import Estimate
from bdkn.cli.labelled import Labelled, Roles, labelled
from bdkn.cli.model_files import choose_density, input_names, load_model, target_of, with_inputs
from bdkn.cli.terminal import (
    AsJson,
    Coverage,
    Data,
    Density,
    KnownTarget,
    Model,
    Quiet,
    Screen,
    errors_as_messages,
    number,
)

if TYPE_CHECKING:
    from bdkn.predictive import Predictive


HELP = """Compare predictions of a model with the true values of a table.

Prints the errors, whether intervals hold what they promise at several levels, and the rows that were predicted worst.
The rows should be new to the model: on rows that it was fitted to, every model looks better than it is.

Example:

    bdkn evaluate flats.bdkn sold.csv --target price
"""

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


def evaluate(
    model: Model,
    data: Data,
    target: KnownTarget = None,
    coverage: Coverage = 0.9,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst rows to show.")] = 5,
    density: Density = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare predictions of a model with the true values of a table."""
    with errors_as_messages():
        screen = Screen(json=as_json, quiet=quiet)
        fitted = choose_density(load_model(model), density)
        name = target_of(fitted, target)
        rows = labelled_for(fitted, data, name, screen)
        with screen.noting_warnings():
            dist = fitted.predict_dist(rows.X)
        estimate = Estimate.of(rows.y, dist, coverage, f"Predictions by {model} for {data}")
        screen.say(*estimate.sentences(name))
        calibration = observed_coverages(rows, dist)
        screen.table("Calibration", ("interval", "rows inside"), [(f"{n:.0%}", f"{s:.1%}") for n, s in calibration])
        found = worst_rows(rows, dist, coverage, worst)
        if found:
            columns = ("row", name, "predicted", "lower", "upper", "log density")
            screen.table("Rows predicted worst", columns, [_cells(row) for row in found])
        screen.finish({**estimate.numbers(), "calibration": calibration, "worst": found})


def labelled_for(model: Any, data: Any, target: str, screen: Screen) -> Labelled:
    """Return the rows of a table that have a target, with the columns of a model."""
    from bdkn.table_files import read_table

    roles = Roles(target, features=input_names(model) or ())
    frame = with_inputs(model, read_table(data, screen.note), data)
    return labelled(frame, roles, roles.inputs(list(frame.columns)), screen)


def observed_coverages(rows: Labelled, dist: Predictive) -> list[tuple[float, float]]:
    """Return levels of intervals, and the share of rows inside each."""
    from bdkn.metrics import calibration_curve

    levels, shares = calibration_curve(rows.y, dist, LEVELS)
    return list(zip(levels.tolist(), shares.tolist(), strict=True))


def worst_rows(rows: Labelled, dist: Predictive, coverage: float, count: int) -> list[dict[str, float]]:
    """Return the rows whose true value was least expected."""
    import numpy as np

    logs, (lower, upper), mean = dist.logpdf(rows.y), dist.interval(coverage), dist.mean()
    return [
        {
            "row": int(rows.numbers[i]),
            "target": float(rows.y[i]),
            "mean": float(mean[i]),
            "lower": float(lower[i]),
            "upper": float(upper[i]),
            "log_density": float(logs[i]),
        }
        for i in np.argsort(logs, kind="stable")[:count]
    ]


def _cells(row: dict[str, float]) -> tuple[str, ...]:
    numbers = (row[key] for key in ("target", "mean", "lower", "upper", "log_density"))
    return (str(row["row"]), *map(number, numbers))
