"""Base classes of displays: objects that draw a figure and keep its axes, as those of scikit-learn do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from numpy.typing import ArrayLike

from bdkn.metrics import predictive_of
from bdkn.plots.files import save_figure
from bdkn.plots.style import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Data = TypeVar("Data")


class Display(Generic[Data]):
    """Base class of displays of ``data``: ``ax_`` are the axes it drew on, ``figure_`` is the figure with them."""

    ax_: Axes

    def __init__(self, data: Data) -> None:
        self.data = data

    @property
    def figure_(self) -> Figure:
        """The figure that contains ``ax_``."""
        figure = self.ax_.get_figure(root=True)
        assert figure is not None
        return figure

    def save(self, folder: str | Path, stem: str, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
        """Write the figure to files; see ``save_figure``.

        Parameters
        ----------
        folder : str or path-like
            Folder of the files; it is created if it does not exist.
        stem : str
            Name of the files without their extension.
        formats : sequence of {"png", "svg", "pdf"}, default=("png", "svg")
            Formats, one file each.

        Returns
        -------
        paths : list of Path
            The files that were written.
        """
        return save_figure(self.figure_, folder, stem, formats)

    def _repr_png_(self) -> bytes:
        """Return the figure as PNG, which notebooks show in place of the object's text."""
        from io import BytesIO

        buffer = BytesIO()
        self.figure_.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


class PredictionDisplay(Display[Data], ABC):
    """Base class of displays of observed targets and their predicted distributions."""

    @classmethod
    @abstractmethod
    def from_predictions(cls, *args: Any, **options: Any) -> Self:
        """Draw the figure for observed targets and predicted distributions.

        Parameters
        ----------
        *args
            Observed targets and predicted distributions.
        **options
            Parameters of the figure.

        Returns
        -------
        display : PredictionDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, **options: Any) -> Self:
        """Draw the figure for the predictions of a fitted regressor.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``predict_dist``, or a pipeline, search or transformed target that ends with one.
        X : array-like or data frame of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Observed targets of these rows.
        name : str, optional
            Name of the model in the figure; the name of the class by default.
        **options
            Other parameters of ``from_predictions``.

        Returns
        -------
        display : PredictionDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        require_matplotlib()
        return cls.from_predictions(y, predictive_of(estimator, X), name=name or type(estimator).__name__, **options)
