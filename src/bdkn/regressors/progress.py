"""Progress bars of fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bdkn.errors import missing_extra
from bdkn.training import EpochReport, Hook

if TYPE_CHECKING:
    from rich.console import Console

Update = Callable[..., None]
"""Moves a bar: keyword arguments of ``rich.progress.Progress.update``."""


@contextmanager
def progress_bar(title: str, total: int, console: Console | None = None) -> Iterator[Update]:
    """Show a bar on ``console`` (standard error by default) and yield the function that moves it."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    except ImportError as error:
        raise missing_extra("rich", "progress") from error
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console or Console(stderr=True)) as progress:
        task = progress.add_task(f"training {title}", total=total)
        yield lambda **changes: progress.update(task, **changes)
        progress.update(task, description=f"trained {title}")


@contextmanager
def training_progress(n_networks: int, epochs: int, console: Console | None = None) -> Iterator[Hook]:
    """Show a bar for the training of networks and yield the hook that moves it.

    The bar counts epochs of all networks together; the epochs that a network saves by stopping early are taken off.
    """
    with progress_bar(f"{n_networks} networks", n_networks * epochs, console) as update:
        saved = 0

        def on_epoch(report: EpochReport) -> None:
            nonlocal saved
            saved += epochs - report.epoch - 1 if report.is_last else 0
            place = f"network {report.job + 1}/{n_networks}, epoch {report.epoch + 1}/{epochs}"
            update(advance=1, total=n_networks * epochs - saved, description=f"{place}, loss {report.loss:.4g}")

        yield on_epoch


@contextmanager
def descent_progress(name: str, epochs: int, console: Console | None = None) -> Iterator[Callable[[int, float], None]]:
    """Show a bar for a single descent of at most ``epochs`` and yield the hook that moves it."""
    with progress_bar(name, epochs, console) as update:

        def on_epoch(epoch: int, loss: float) -> None:
            update(completed=epoch + 1, description=f"{name}, epoch {epoch + 1}/{epochs}, loss {loss:.4g}")

        yield on_epoch
