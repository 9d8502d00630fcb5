"""``bdkn demo``: fit models to data that is part of scikit-learn, compare them, and write a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bdkn.cli.terminal import errors_as_messages, print_table
from bdkn.errors import require

if TYPE_CHECKING:
    from bdkn.report import Report, Trial

REMARK = (
    "BDKN weights its networks by their predictions for held-out rows. The published method, here with standardised "
    "targets, weights them by their predictions for the rows they were trained on: with few, noisy rows its intervals "
    "are too narrow."
)


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder to write the report to; the files of an earlier report are replaced.")
    ] = Path("report"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the networks; the split of the data is fixed.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(help="Also write all figures as one picture to this file (.png, .svg or .pdf).")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose/--quiet", help="Show the progress of training.")] = True,
) -> None:
    """Fit BDKN, the published BDKN and a deep ensemble to the diabetes data, compare them and write a report.

    The first run compiles the training code, which takes about 10 seconds.
    """
    with errors_as_messages():
        from bdkn.report import check_picture, draw_picture, prepare_folder, trial_report, write_picture, write_report

        # Checked before the fits, which take a while.
        require("matplotlib", "jinja2", extra="report")
        if picture is not None:
            check_picture(picture)
        prepare_folder(out)
        trial = fit(seed, verbose=verbose)
        report = trial_report(trial, [REMARK])
        show(report)
        typer.echo(f"Report: {write_report(out, report)}")
        if picture is not None:
            typer.echo(f"Picture: {write_picture(picture, draw_picture(trial))}")


def models(seed: int, verbose: bool) -> dict[str, Any]:
    """Return the models to compare: the default, the published method, equal weights, and a model without inputs."""
    from bdkn.regressors import BDKNRegressor, DeepEnsembleRegressor
    from bdkn.report import ConstantGaussian

    return {
        "BDKN": BDKNRegressor(random_state=seed, verbose=verbose),
        "BDKN as published": BDKNRegressor.from_paper(2, standardize_y=True, random_state=seed, verbose=verbose),
        "Deep ensemble": DeepEnsembleRegressor(random_state=seed, verbose=verbose),
        "Constant Gaussian": ConstantGaussian(),
    }


def fit(seed: int, *, verbose: bool) -> Trial:
    """Fit the models; with ``verbose``, print the progress to standard error."""
    from rich.console import Console

    from bdkn.report import diabetes, fit_models, warm_up

    console, data, unfitted = Console(stderr=True, quiet=not verbose), diabetes(), models(seed, verbose)
    with console.status("preparing to train"):
        warm_up(unfitted, data)
    return fit_models(unfitted, data, before_fit=lambda name: console.print(f"fitting {name}"))


def show(report: Report) -> None:
    """Print the tables and the notes of a report."""
    from rich.console import Console

    console = Console(highlight=False)
    for table in report.tables:
        print_table(console, table)
    console.print(*report.notes, sep="\n", markup=False)
    console.print()
