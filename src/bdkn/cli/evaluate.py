"""bdkn evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bdkn.cli.fit import Estimate
from bdkn.cli.labelled import Labelled, labelled_for
from bdkn.cli.model_files import load_model, target_of
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

Prints the errors, the observed coverage of intervals at several levels, and the rows that were predicted worst. The
rows should be new to the model: on rows that it was fitted to, every model looks better than it is.

Example:

    bdkn evaluate flats.bdkn sold.csv --target price
"""

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Levels of the intervals in the table of calibration."""


def evaluate(
    model: Model,
    data: Data,
    target: KnownTarget = None,
    coverage: Coverage = 0.9,
    worst: Annotated[int, typer.Option(min=0, help="Number of the worst rows to show.")] = 5,
    density: Density = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare predictions of a model with the true values of a table."""
    with errors_as_messages():
        from bdkn.metrics import calibration_curve

        screen = Screen(json=as_json, quiet=quiet)
        fitted = load_model(model, density)
        name = target_of(fitted, target)
        rows = labelled_for(fitted, data, name, screen)
        with screen.noting_warnings():
            dist = fitted.predict_dist(rows.X)
        estimate = Estimate.of(rows.y, dist, coverage, f"Predictions by {model} for {data}")
        screen.say(*estimate.sentences(name))
        levels, shares = (part.tolist() for part in calibration_curve(rows.y, dist, LEVELS))
        calibration = list(zip(levels, shares, strict=True))
        screen.table("Calibration", ("interval", "rows inside"), [(f"{n:.0%}", f"{s:.1%}") for n, s in calibration])
        found = worst_rows(rows, dist, coverage, worst)
        if found:
            cells = [(str(row["row"]), *map(number, list(row.values())[1:])) for row in found]
            screen.table("Rows predicted worst", ("row", name, "predicted", "lower", "upper", "log density"), cells)
        screen.finish({**estimate.as_dict(), "calibration": calibration, "worst": found})


def worst_rows(rows: Labelled, dist: Predictive, coverage: float, count: int) -> list[dict[str, float]]:
    """Return the rows whose true values have the lowest predicted densities."""
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
