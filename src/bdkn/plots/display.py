"""What the figures share: an object that keeps the axes it drew on, as scikit-learn's displays do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from bdkn.metrics import predictive_of
from bdkn.plots.files import save_figure
from bdkn.plots.style import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Display:
    """A drawn figure: ``ax_`` holds the axes, ``figure_`` the figure around them."""

    ax_: Axes

    @property
    def figure_(self) -> Figure:
        """The figure that holds ``ax_``."""
        figure = self.ax_.get_figure(root=True)
        assert figure is not None
        return figure

    def save(self, folder: str | Path, stem: str, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
        """Write the figure as ``folder/stem.png`` and ``.svg``; return the paths."""
        return save_figure(self.figure_, folder, stem, formats)

    def _repr_png_(self) -> bytes:
        """Show the figure where a notebook prints the display."""
        from io import BytesIO

        buffer = BytesIO()
        self.figure_.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


class PredictionDisplay(Display, ABC):
    """A figure of observations against their predictive distributions."""

    @classmethod
    @abstractmethod
    def from_predictions(cls, *args: Any, **options: Any) -> Self:
        """Draw the figure for observations ``y`` and predictions ``dist``, with the options of the figure."""

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, **options: Any) -> Self:
        """Draw the figure for what a fitted ``estimator`` predicts at ``X``, under its class name unless named."""
        require_matplotlib()
        return cls.from_predictions(y, predictive_of(estimator, X), name=name or type(estimator).__name__, **options)
