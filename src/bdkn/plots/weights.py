"""The weights figure: the posterior distribution of each member's weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError, require
from bdkn.metrics.estimators import route_of
from bdkn.plots.display import BLUE, GREY, ORANGE, Band, Display, central_bands, draw_legend, label_axes, literal
from bdkn.predictive.base import Predictive
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class WeightsData:
    """Data of the weights figure: members in the order of their mean weight, the largest first.

    ``clear`` is True where the widest interval of a weight excludes zero, ``equal`` is the weight of every member of an
    equally weighted ensemble, ``not_shown`` the number of members that are not drawn.
    """

    names: list[str]
    mean: FloatArray
    bands: tuple[Band, ...]
    clear: NDArray[np.bool_]
    equal: float
    not_shown: int


class WeightsDisplay(Display[WeightsData]):
    """Posterior mean and credible intervals of the weight of each member.

    Lines mark zero and the weight that members have in an equally weighted ensemble. Members whose widest interval
    contains zero are grey.

    Parameters
    ----------
    data : WeightsData
        Data of the figure. Use ``from_posterior`` or ``from_estimator`` to compute it.

    Examples
    --------
    >>> from bdkn import StudentT
    >>> from bdkn.plots import WeightsDisplay
    >>> weights = StudentT(df=10.0, loc=[0.1, 0.8], scale=[0.2, 0.1])
    >>> WeightsDisplay.from_posterior(weights, ["forest", "network"]).data.names
    ['network', 'forest']
    """

    @classmethod
    def from_posterior(
        cls,
        weights: Predictive,
        names: Sequence[str],
        *,
        ax: Axes | None = None,
        name: str | None = None,
        levels: Sequence[float] = (0.5, 0.9),
        max_members: int = 30,
    ) -> Self:
        """Draw the weights of members from their posterior distributions.

        Parameters
        ----------
        weights : Predictive
            Posterior distributions of the weights, one per member.
        names : sequence of str
            Names of the members.
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.
        name : str, optional
            Name of the model, which is the title of the figure.
        levels : sequence of float, default=(0.5, 0.9)
            Probabilities of the credible intervals.
        max_members : int, default=30
            Number of members to draw at most: those whose mean weight is farthest from zero.

        Returns
        -------
        display : WeightsDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        if len(names) != len(weights):
            raise InvalidParameterError(f"names must name each of the {len(weights)} weights; got {len(names)} names")
        mean = weights.mean()
        heaviest = np.argsort(-np.abs(mean), kind="stable")[:max_members]
        rows = heaviest[np.argsort(-mean[heaviest], kind="stable")]
        bands = central_bands(weights[rows], levels)
        clear = ~bands[0].holds(np.zeros(len(rows)))
        data = WeightsData(
            [names[row] for row in rows], mean[rows], bands, clear, 1 / len(names), len(names) - len(rows)
        )
        return cls(data).plot(ax, name=name)

    @classmethod
    def from_estimator(cls, estimator: Any, *, name: str | None = None, **options: Any) -> Self:
        """Draw the weights of the members of a fitted regressor.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``weight_posterior()`` and ``member_names_``, such as ``BDKNRegressor``, or a
            pipeline, search or transformed target that ends with one.
        name : str, optional
            Title of the figure; the name of the class by default.
        **options
            Other parameters of ``from_posterior``.

        Returns
        -------
        display : WeightsDisplay
            The display, with the axes in ``ax_`` and the figure in ``figure_``.
        """
        require("matplotlib", extra="plots")
        model = estimator if hasattr(estimator, "weight_posterior") else route_of(estimator, rows=False).regressor
        weights, names = model.weight_posterior(), model.member_names_
        return cls.from_posterior(weights, names, name=name or type(model).__name__, **options)

    @property
    def _size(self) -> tuple[float, float]:  # type: ignore[override]
        return 6.0, max(2.4, 1.6 + 0.24 * len(self.data.names))

    def _draw(self, name: str | None) -> None:
        data, height = self.data, np.arange(len(self.data.names))
        colours = [BLUE if clear else GREY for clear in data.clear]
        for band, width in zip(data.bands, np.linspace(1.4, 4.5, len(data.bands)), strict=True):
            words = f"{band.level:.0%} interval"
            self.ax_.hlines(height, band.lower, band.upper, colors=colours, linewidth=width, label=words)
        self.ax_.scatter(data.mean, height, s=26, c="white", edgecolors=colours, linewidths=1.4, zorder=3, label="mean")
        self.ax_.axvline(0.0, color=GREY, linewidth=1)
        self.ax_.axvline(data.equal, color=ORANGE, linewidth=1.2, linestyle="--", label="equal weights")
        if not data.clear.all():
            self.ax_.plot([], [], color=GREY, linewidth=1.4, label=f"{data.bands[0].level:.0%} interval holds zero")
        self.ax_.set_yticks(height, [literal(member) for member in data.names])
        self.ax_.set_ylim(len(height) - 0.4, -0.6)
        rest = f" ({data.not_shown} lighter members not shown)" if data.not_shown else ""
        label_axes(self.ax_, f"Posterior weight{rest}", "", name)
        draw_legend(self.ax_, columns=3)
