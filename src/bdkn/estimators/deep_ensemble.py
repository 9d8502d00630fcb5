"""Deep ensembles: equally weighted networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from bdkn.data.folds import Seed
from bdkn.data.rows import as_frame
from bdkn.errors import check_choice, check_parameters
from bdkn.estimators.base import ProbabilisticRegressor, Table, with_inherited_docs
from bdkn.estimators.paper import train_on_all_rows
from bdkn.estimators.parameters import NETWORKS
from bdkn.model.fitted import FittedEnsemble
from bdkn.networks import Engine
from bdkn.networks.settings import TrainingOptions

_PREDICTIVE = partial(check_choice, allowed=("mixture", "gaussian"))
"""Check that the parameter ``predictive`` has an allowed value."""


@with_inherited_docs
@dataclass(kw_only=True, eq=False, repr=False)
class DeepEnsembleRegressor(ProbabilisticRegressor):
    """Deep ensemble: an equally weighted mixture of the Gaussians that several networks predict.

    H networks are trained independently, each to predict a mean and a variance (Lakshminarayanan et al., 2017).

    Parameters
    ----------
    <Parameters of networks>
    predictive : {"mixture", "gaussian"}, default="mixture"
        Predicted distribution: the mixture itself, or a Gaussian with its mean and variance, as in the literature.

    <Attributes>

    See Also
    --------
    BDKNRegressor : The same networks, weighted by their posterior.

    References
    ----------
    B. Lakshminarayanan, A. Pritzel, C. Blundell (2017). "Simple and Scalable Predictive Uncertainty Estimation using
    Deep Ensembles".

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import DeepEnsembleRegressor
    >>> X = np.linspace(-2, 2, 200)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=200)
    >>> model = DeepEnsembleRegressor(epochs=100, learning_rate=0.01, random_state=0).fit(X, y)
    >>> model.predict_dist(X[:3]).mean().shape
    (3,)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    n_members: int | str = "auto"
    hidden_layer_sizes: int | Sequence[int] | str = "auto"
    activation: str | Sequence[str] = ("silu", "relu")
    objective: Any = "nll"
    epochs: int | str = "auto"
    learning_rate: float = 3e-3
    weight_decay: float | Sequence[float] = (0.0, 0.0, 0.3, 0.0, 1.0, 0.0)
    n_bins: int | Sequence[int] | str = "auto"
    training: TrainingOptions | None = None
    engine: str | Engine = "fused"
    n_jobs: int | None = -1
    random_state: Seed = None
    verbose: int = 0
    effort: str = "balanced"
    predictive: str = "mixture"

    _published: ClassVar[Mapping[str, Any]] = {"predictive": "gaussian"}

    def member_table(self) -> dict[str, Any]:
        """Return a table of the networks: name, RMSE and NLL on the training rows, and epochs.

        Returns
        -------
        table : dict of str to list or ndarray
            One column per key. RMSE and NLL are in the units of the target; the NLL is that of the network's Gaussian.
            A network was trained for ``epochs`` epochs and has the weights after epoch ``best_epoch``.
        """
        return self._networks.table()

    def member_report(self) -> Any:
        """Return ``member_table`` as a pandas data frame.

        Returns
        -------
        frame : pandas.DataFrame
            One row per network.
        """
        return as_frame(self.member_table())

    def _fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None) -> FittedEnsemble:
        check_parameters(self, {**NETWORKS, "predictive": _PREDICTIVE})
        reader, members, *_ = train_on_all_rows(self, X, y, sample_weight, combined=False)
        return FittedEnsemble(reader, members)

    def _fitted(self) -> FittedEnsemble:
        """Return the fitted model; the current parameter ``predictive`` selects mixture or Gaussian."""
        model: FittedEnsemble = super()._fitted()
        check_parameters(self, {"predictive": _PREDICTIVE})  # it may have changed since the fit
        is_mixture = self.predictive == "mixture"
        return model if model.is_mixture == is_mixture else replace(model, is_mixture=is_mixture)
