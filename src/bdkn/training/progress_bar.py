"""Progress bars of fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bdkn.errors import require
from bdkn.training.job import EpochReport, Hook

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


def progress_bar(console: Console | None = None, **options: Any) -> Progress:
    """Return a bar with a description, the time elapsed and the time remaining, on standard error by default."""
    require("rich", extra="progress")
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console or Console(stderr=True), **options)


@contextmanager
def training_progress(n_networks: int, epochs: int, console: Console | None = None, place: str = "") -> Iterator[Hook]:
    """Show a bar for the training of networks and yield the hook that moves it; ``place`` says where they are trained.

    The bar counts epochs of all networks together; the epochs that a network saves by stopping early are taken off.
    """
    networks = f"{n_networks} networks {place}".rstrip()
    with progress_bar(console) as progress:
        task = progress.add_task(f"training {networks}", total=n_networks * epochs)
        saved = 0

        def on_epoch(report: EpochReport) -> None:
            nonlocal saved
            saved += epochs - report.epoch - 1 if report.is_last else 0
            place = f"network {report.job + 1}/{n_networks}, epoch {report.epoch + 1}/{epochs}"
            description = f"{place}, loss {report.loss:.4g}"
            progress.update(task, advance=1, total=n_networks * epochs - saved, description=description)

        yield on_epoch
        progress.update(task, description=f"trained {networks}")
