"""Bayesian last layer: the features of one network as the basis of a Bayesian linear model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdkn.inference import Posterior
from bdkn.networks import FeatureMap
from bdkn.regressors.base import Table
from bdkn.regressors.baselines.fitted import FittedBLL, TrainingCourse
from bdkn.regressors.baselines.last_layer import LastLayerSettings, last_layer_paper_parameters
from bdkn.regressors.baselines.plan import Plan
from bdkn.regressors.baselines.torch_regressor import TorchRegressor
from bdkn.regressors.publication import of_one_state
from bdkn.regressors.shared_docs import with_shared_docs
from bdkn.rows import Rows
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from bdkn.regressors.baselines.learners.evidence import EvidenceLearner


@with_shared_docs
@dataclass(kw_only=True, eq=False, repr=False)
class BLLRegressor(TorchRegressor):
    """Bayesian last layer: features and noise learned together by the exact evidence of a Bayesian linear model.

    y = φ(x; θ)ᵀw + ε, with φ the last hidden layer of a network and a constant, w ~ N(0, σ_w² I) and ε ~ N(0, σ²). The
    weights w are integrated out in closed form; θ, σ_w² and, with a Gaussian head, σ² maximise the evidence of all
    rows. The evidence does not prevent θ from fitting noise, so training stops early by default. As the features are
    fitted to the same rows as σ², intervals are too narrow with few rows or many inputs.

    Parameters
    ----------
    <last_layer_parameters>
    <stopping_parameters>
    patience : int or None, default=300
        Epochs without improvement after which the search for the best number of epochs ends; None runs all epochs.
    <torch_parameters>

    Attributes
    ----------
    features_ : FeatureMap
        The hidden layers, on scaled inputs.
    posterior_ : Posterior
        The posterior of (w, σ²) in scaled units; the last weight is that of the constant. With a Gaussian head σ² is
        certain.
    noise_variance_ : float
        The noise variance, or its posterior scale b/a, in squared units of the target.
    <torch_attributes>
    <column_attributes>

    See Also
    --------
    BDKNRegressor : The same linear model on the predictions of many networks instead of the features of one.

    References
    ----------
    J. Watson, J. A. Lin, P. Klink, J. Pajarinen and J. Peters, "Latent derivative Bayesian last layer networks", 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BLLRegressor
    >>> X = np.linspace(-2, 2, 100)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=100)
    >>> model = BLLRegressor(epochs=200, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    hidden_layer_sizes: int | Sequence[int] = (50, 50)
    activation: str = "leaky_relu"
    head: str = "normal-inverse-gamma"
    noise: float | str = "learned"
    prior_variance: float | str = "learned"
    stale_weights: bool = False
    learning_rate: float = 0.01
    epochs: int = 2000
    weight_decay: float = 0.0
    early_stopping: bool = True
    validation_fraction: float = 0.2
    patience: int | None = 300

    paper_name: ClassVar[str] = "bll"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        return last_layer_paper_parameters(setting)

    @of_one_state
    def predict_derivative(self, X: Table) -> tuple[FloatArray, FloatArray]:
        """Predict the derivative ∂f/∂x of the function f(x) = φ(x)ᵀw at each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        mean : ndarray of shape (n_samples, n_features)
            Posterior means, in units of the target per unit of the input.
        std : ndarray of shape (n_samples, n_features)
            Posterior standard deviations; infinite with two degrees of freedom or fewer.
        """
        mean, std = self._bll.derivative(self._scaled(self._rows(X)))
        unit = self.targets_.scale / self.inputs_.scale
        return unit * mean, unit * std

    @property
    def _bll(self) -> FittedBLL:
        state: FittedBLL = self._state
        return state

    @property
    def features_(self) -> FeatureMap:
        """The hidden layers, on scaled inputs."""
        return self._bll.features

    @property
    def posterior_(self) -> Posterior:
        """The posterior of (w, σ²) in scaled units."""
        return self._bll.posterior

    def _plan(self) -> Plan:
        LastLayerSettings.of(self)
        return Plan.of(self)

    def _learner(self, rows: Rows, held_out: Rows | None, root: np.random.SeedSequence) -> EvidenceLearner:
        return LastLayerSettings.of(self).learner(rows, held_out, root)

    def _freeze(self, learner: EvidenceLearner, course: TrainingCourse) -> FittedBLL:
        return FittedBLL(course, learner.features.frozen(), learner.posterior())

    def _step_work(self, n_rows: int, n_inputs: int) -> float:
        return LastLayerSettings.of(self).step_work(n_rows, n_inputs)
