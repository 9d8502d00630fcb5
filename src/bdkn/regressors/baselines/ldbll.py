"""Bayesian last layer with a prior of the latent derivative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bdkn.errors import check_number
from bdkn.inference import Posterior
from bdkn.networks import FeatureMap
from bdkn.regressors.base import Table
from bdkn.regressors.baselines.fitted import FittedBLL, TrainingCourse
from bdkn.regressors.baselines.last_layer import LastLayerSettings, last_layer_paper_parameters
from bdkn.regressors.baselines.plan import Plan, check_optional
from bdkn.regressors.baselines.torch_regressor import TorchRegressor
from bdkn.regressors.publication import of_one_state
from bdkn.regressors.shared_docs import with_shared_docs
from bdkn.rows import Rows
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

    from bdkn.regressors.baselines.learners.derivatives import DerivativePrior
    from bdkn.regressors.baselines.learners.evidence import EvidenceLearner
    from bdkn.regressors.baselines.learners.features import TorchFeatures


@with_shared_docs
@dataclass(kw_only=True, eq=False, repr=False)
class LDBLLRegressor(TorchRegressor):
    """Bayesian last layer with a prior of the derivative, for wider predictions where there are no rows.

    As ``BLLRegressor``, but the features are also learned under a prior of the latent derivative z(x) = ∂f/∂x. The loss
    per row is

        -log p(y | X)/n + β · mean over x of Σⱼ KL( N(0, γ) ‖ p(zⱼ | x, y) ),

    with x the training rows plus random noise. Under the posterior of the last layer z is Gaussian in closed form. The
    direction of the divergence favours a posterior that is at least as wide as the prior. The paper that proposed the
    method has no public code; where it gives no details, the choices are ours. β = 0 is ``BLLRegressor``. With few rows
    or many inputs intervals are too narrow, but less so than those of ``BLLRegressor``.

    Parameters
    ----------
    beta : float or None, default=None
        Weight β of the prior relative to the log evidence per row; None is one over the number of rows.
    derivative_variance : float, default=0.01
        Variance γ of a derivative under the prior, in scaled units.
    jitter : float, default=0.1
        Standard deviation of the noise that is added to a row, in scaled units.
    derivative_rows : int or None, default=None
        Number of rows, drawn at random in each step, at which the derivative is computed; None is all. The time of a
        step grows with the number of rows times that of inputs; the memory is bounded.
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
    BLLRegressor : The same without the prior of the derivative.

    References
    ----------
    J. Watson, J. A. Lin, P. Klink, J. Pajarinen and J. Peters, "Latent derivative Bayesian last layer networks", 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import LDBLLRegressor
    >>> X = np.linspace(-2, 2, 100)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=100)
    >>> model = LDBLLRegressor(epochs=50, random_state=0).fit(X, y)
    >>> mean, std = model.predict_derivative(X[:3])
    >>> mean.shape, std.shape
    ((3, 1), (3, 1))
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
    beta: float | None = None
    derivative_variance: float = 0.01
    jitter: float = 0.1
    derivative_rows: int | None = None

    paper_name: ClassVar[str] = "ldbll"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        # Neither β nor γ is in either paper; its scores are those of learned noise and of a prior with a large weight.
        own = {"beta": 0.1, "derivative_variance": 1.0, "jitter": 0.1, "derivative_rows": None}
        return {**last_layer_paper_parameters(setting), "noise": "learned", **own}

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
        check_optional("beta", self.beta, low=0)
        check_number("derivative_variance", self.derivative_variance, low=0, strict=True)
        check_number("jitter", self.jitter, low=0)
        check_optional("derivative_rows", self.derivative_rows, low=1, whole=True)
        return Plan.of(self)

    def _learner(self, rows: Rows, held_out: Rows | None, root: np.random.SeedSequence) -> EvidenceLearner:
        return LastLayerSettings.of(self).learner(rows, held_out, root, self._derivative_prior)

    def _derivative_prior(
        self, features: TorchFeatures, X: Tensor, seed: np.random.SeedSequence
    ) -> DerivativePrior | None:
        """Return the prior of the derivative, None if its weight is zero."""
        import torch

        from bdkn.regressors.baselines.learners.derivatives import DerivativePrior

        beta = 1 / len(X) if self.beta is None else self.beta
        if not beta:
            return None
        generator = torch.Generator().manual_seed(int(seed.generate_state(1)[0]))
        variance, jitter, rows = self.derivative_variance, self.jitter, self.derivative_rows
        return DerivativePrior(features, X, beta, variance, jitter, rows, generator)

    def _freeze(self, learner: EvidenceLearner, course: TrainingCourse) -> FittedBLL:
        return FittedBLL(course, learner.features.frozen(), learner.posterior())

    def _step_work(self, n_rows: int, n_inputs: int) -> float:
        return LastLayerSettings.of(self).step_work(n_rows, n_inputs)
