"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[Path, typer.Argument(help="Table: .csv, .tsv (also .gz) or .parquet.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="Model file that `bdkn fit` wrote.", show_default=False)]
Target = Annotated[str, typer.Option(help="Column to predict; it must hold numbers.", show_default=False)]
KnownTarget = Annotated[
    str | None, typer.Option(help="Column with the true values; the one that the model was fitted to if not given.")
]
Coverage = Annotated[float, typer.Option(min=0.01, max=0.999, help="Probability that each interval should hold.")]
MOST_SEED = 2**32 - 1
"""Largest seed that all libraries know."""

Seed = Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed; the same seed and table give the same result.")]
Jobs = Annotated[int, typer.Option(help="Number of threads; -1: one per core.")]
Density = Annotated[
    str | None, typer.Option(help="'student-t' leaves out densities of neighbouring rows, which makes it faster.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes on standard error.")]


def names_of(text: str | None) -> tuple[str, ...]:
    """Return the names in a list that is separated by commas; none if there is no text."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
