"""Display of a monitor, a sequential test of calibration: coverage of each batch, and evidence against calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bdkn.errors import InvalidParameterError, require
from bdkn.metrics import Monitor
from bdkn.plots.display import (
    BLUE,
    GREY,
    SERIES,
    VERMILION,
    Display,
    draw_legend,
    label_axes,
    percent_axis,
    prepare_axes,
)
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_SMALL: dict[str, Any] = {"fontsize": 8.5, "handlelength": 1.6, "columnspacing": 1.4, "borderaxespad": 0.3}
_LN10 = float(np.log(10.0))


@dataclass(frozen=True, eq=False)
class MonitorData:
    """Data of the monitor figure, with one number per batch; ``rows`` are the numbers of rows watched so far.

    ``coverage`` has shares of rows inside intervals, by level. ``wealth`` and its ``threshold`` for an alarm are log₁₀.
    """

    rows: FloatArray
    coverage: dict[float, FloatArray]
    outside: FloatArray
    wealth: FloatArray
    threshold: float
    alarm_row: int | None


class MonitorDisplay(Display[MonitorData]):
    """Coverage of each batch over time and, below it, the evidence against calibration with the threshold of the alarm.

    Parameters
    ----------
    data : MonitorData
        Data of the figure. Use ``from_monitor`` to compute it.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the evidence against calibration.
    coverage_ax_ : matplotlib Axes or None
        The axes with the coverage; None if the display drew on axes that were given.
    figure_ : matplotlib Figure
        The figure that contains the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import Gaussian, Monitor
    >>> from bdkn.plots import MonitorDisplay
    >>> monitor = Monitor()
    >>> report = monitor.add([0.1, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0]))
    >>> display = MonitorDisplay.from_monitor(monitor)
    >>> print(display.data.rows, display.data.coverage[0.9])
    [2.] [1.]
    """

    coverage_ax_: Axes | None = None

    @classmethod
    def from_monitor(cls, monitor: Monitor, *, ax: Axes | None = None, name: str | None = None) -> Self:
        """Draw the coverage and the evidence for all batches that a monitor has watched.

        Parameters
        ----------
        monitor : Monitor
            The monitor.
        ax : matplotlib Axes, optional
            Axes for the evidence alone; by default a new figure with the coverage above it.
        name : str, optional
            Name of the model, which is the title of the figure.

        Returns
        -------
        display : MonitorDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        reports = monitor.reports
        if not reports:
            raise InvalidParameterError(
                "a monitor is drawn with the batches it has watched; it has watched none: add one"
            )
        shares = {level: np.array([report.coverage[level] for report in reports]) for level in reports[0].coverage}
        data = MonitorData(
            rows=np.array([float(report.first + report.n) for report in reports]),
            coverage=shares,
            outside=np.array([report.outside for report in reports]),
            wealth=np.array([report.log_wealth for report in reports]) / _LN10,
            threshold=monitor.threshold / _LN10,
            alarm_row=None if monitor.alarm_row is None else monitor.alarm_row + monitor.start,
        )
        return cls(data).plot(ax, name=name)

    def _prepare(self, ax: Axes | None) -> Axes:
        self.coverage_ax_ = None
        if ax is None:
            require("matplotlib", extra="plots")
            from matplotlib.figure import Figure

            above, ax = Figure(figsize=(6.4, 5.6), layout="constrained").subplots(2, 1, sharex=True)
            self.coverage_ax_ = prepare_axes(above)
        return prepare_axes(ax)

    def _draw(self, name: str | None) -> None:
        data = self.data
        if self.coverage_ax_ is not None:
            ax = self.coverage_ax_
            for colour, (level, shares) in zip(SERIES, data.coverage.items(), strict=False):
                ax.axhline(level, color=colour, linewidth=1, linestyle="--")
                ax.plot(data.rows, shares, color=colour, marker="o", markersize=4, label=f"{level:.0%} interval")
            if np.isfinite(data.outside).all():
                ax.plot(data.rows, data.outside, color=GREY, marker="s", markersize=4, label="outside the data")
            ax.set(ylim=(-0.03, 1.03))
            percent_axis(ax.yaxis)
            label_axes(ax, "", "Share of rows", name)
            ax.legend(loc="upper left", bbox_to_anchor=(0.0, -0.04), ncols=4, frameon=False, **_SMALL)
        self.ax_.plot(np.r_[0.0, data.rows], np.r_[0.0, data.wealth], color=BLUE, label="evidence")
        self.ax_.axhline(data.threshold, color=VERMILION, linewidth=1, linestyle="--", label="alarm")
        if data.alarm_row is not None:
            self.ax_.axvline(data.alarm_row, color=VERMILION, linewidth=1)
        title = name if self.coverage_ax_ is None else None
        label_axes(self.ax_, "Rows watched", "log₁₀ evidence of a change", title)
        draw_legend(self.ax_, columns=2)
