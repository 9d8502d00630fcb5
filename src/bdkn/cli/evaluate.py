"""The command ``bdkn evaluate``, which compares predictions with true values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from bdkn.cli.fit import Estimate
from bdkn.cli.inputs import labelled_for, load_model
from bdkn.cli.terminal import AsJson, Coverage, Data, Density, KnownTarget, Model, Quiet, Screen, number

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Probabilities of the intervals whose observed coverage is printed."""


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
    """Compare predictions of a model with the true values of a table.

    Prints the errors, the observed coverage of intervals at several levels, and the rows that were predicted worst. The
    rows should be new to the model: on rows that it was fitted to, every model looks better than it is.

    Example:

        bdkn evaluate flats.bdkn sold.csv --target price
    """
    import numpy as np

    from bdkn.metrics import calibration_curve

    screen = Screen(json=as_json, quiet=quiet)
    fitted = load_model(model, density)
    name, rows = labelled_for(fitted, data, target, screen)
    with screen.noting_warnings():
        dist = fitted.predict_dist(rows.X)
    estimate = Estimate.of(rows.y, dist, coverage, f"Predictions by {model} for {data}")
    screen.write(*estimate.sentences(name))
    levels, shares = (part.tolist() for part in calibration_curve(rows.y, dist, LEVELS))
    calibration = list(zip(levels, shares, strict=True))
    screen.table("Calibration", ("interval", "rows inside"), [(f"{n:.0%}", f"{s:.1%}") for n, s in calibration])
    # The worst rows: their true values have the lowest predicted densities.
    logs = dist.logpdf(rows.y)
    chosen = np.argsort(logs, kind="stable")[:worst]
    columns = (rows.numbers, rows.y, dist.mean(), *dist.interval(coverage), logs)
    keys = ("row", "target", "mean", "lower", "upper", "log_density")
    found = [dict(zip(keys, line, strict=True)) for line in zip(*(c[chosen].tolist() for c in columns), strict=True)]
    if found:
        cells = [(str(row["row"]), *map(number, list(row.values())[1:])) for row in found]
        screen.table("Rows predicted worst", ("row", name, "predicted", "lower", "upper", "log density"), cells)
    screen.finish({**asdict(estimate), "calibration": calibration, "worst": found})
