"""Deep ensembles: every network counts the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.errors import check_choice
from bdkn.members import Design
from bdkn.predictive import Gaussian, GaussianMixture
from bdkn.regressors.ensemble import EnsembleRegressor
from bdkn.typing import Array, FloatArray

PREDICTIVES = ("mixture", "gaussian")


@dataclass(kw_only=True, eq=False, repr=False)
class DeepEnsembleRegressor(EnsembleRegressor):
    """Deep ensemble: an equally weighted mixture of Gaussians.

    H networks are trained independently, each to predict a mean and a variance (Lakshminarayanan et al., 2017).

    Parameters
    ----------
    n_members : int or "auto", default="auto"
        How many members the ensemble has, H. "auto" is 12 and, for more than 4000 rows, 6.
    hidden_layer_sizes : int, sequence of int or "auto", default="auto"
        Units of each hidden layer; ``()`` is a linear model. "auto" is two layers of 50 units and, for more than 4000
        rows, five of 36.
    activation : {"relu", "leaky_relu", "tanh", "silu"} or a sequence of them, default=("silu", "relu")
        Activation of the hidden layers. Several are taken in turn, one a member.
    objective : {"nll", "beta_nll", "mse"}, default="nll"
        What a network minimises: the Gaussian likelihood with a variance for each row; the same with each row's
        gradient scaled by its variance to the power ``beta``; or the squared error; a network's variance is then its
        mean squared error on the training rows, the same for every row.
    beta : float, default=0.5
        Between 0 (as "nll") and 1 (mean trained as by "mse"); for "beta_nll" only.
    warmup_epochs : int, default=0
        First epochs on squared error, whatever the objective.
    epochs : int or "auto", default="auto"
        Passes over the rows, at most. "auto" is 500; for more than 1000 rows, 500 times the square root of 1000 over
        their number; for more than 4000, 250 times the fourth root of 4000 over their number.
    learning_rate : float, default=0.003
        Rate of Adam.
    schedule : {"constant", "cosine"}, default="cosine"
        Keep the rate, or let it fall to zero along half a cosine wave.
    batch_size : int, default=32
        Rows a step.
    weight_decay : float or sequence of float, default=(0.0, 0.3, 0.0, 1.0, 0.0, 0.3)
        Decoupled weight decay, as in AdamW. Several values are taken in turn, each once with every activation: without
        decay networks fit what is nearly free of noise, with much of it they do not fit the noise.
    early_stopping : bool, default=False
        Let every network hold out rows of its own, stop once its loss on them no longer falls, and go back to its best
        epoch.
    validation_fraction : float, default=0.1
        Share of the rows held out for early stopping.
    patience : int, default=20
        Epochs without progress after which a network stops.
    tol : float, default=0.0001
        Fall of the held-out loss that counts as progress.
    standardize_y : bool, default=True
        Train on targets of mean 0 and standard deviation 1. Inputs are always standardised.
    engine : {"fused", "reference", "torch"} or Engine, default="fused"
        What trains the networks: compiled code, plain NumPy, PyTorch, or an object with options of its own, such as
        ``bdkn.TorchEngine(device="cuda")`` or ``bdkn.TorchEngine(module=factory)`` for your own ``nn.Module``.
    n_jobs : int or None, default=-1
        Threads to train on, -1 for all cores. The result does not depend on it. Inside a parallel search, 1 is best.
    random_state : int, Generator, RandomState or None, default=None
        Seed. More members with the same integer begin with the same networks.
    verbose : int, default=0
        1 shows a progress bar on standard error.
    predictive : {"mixture", "gaussian"}, default="mixture"
        Predict the mixture itself, or the Gaussian of the same mean and variance, which the literature scores.

    Attributes
    ----------
    ensemble_ : NetworkEnsemble
        All networks in use with the scaling they were trained under.
    members_ : list of NetworkMember
        The networks in use, each with ``predict(X) -> (mean, variance)``.
    member_names_ : tuple of str
        Their names; networks that diverged are missing, the others keep their numbers.
    member_scores_ : MemberScores
        Mean squared error and NLL of each network on the training rows, in scaled units.
    loss_curves_ : tuple of ndarray
        Training loss an epoch of each network in use.
    loss_curve_ : ndarray
        Their mean.
    validation_curves_ : tuple of ndarray
        Loss on the rows a network held out, an epoch; empty without early stopping.
    best_epochs_ : ndarray of int
        The epoch, from 0, whose weights each network kept.
    n_iter_ : int
        Epochs run by the network that ran longest.
    n_features_in_ : int
        Columns of ``X``.
    feature_names_in_ : ndarray of str
        Their names, where ``X`` had names.

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

    predictive: str = "mixture"

    @classmethod
    def _paper_extras(cls) -> dict[str, Any]:
        return {"predictive": "gaussian"}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("predictive", self.predictive, PREDICTIVES)

    def _combine(self, design: Design) -> dict[str, Any]:
        return {}  # every network counts the same

    def _predictive(self, X: Array) -> Gaussian | GaussianMixture:
        check_choice("predictive", self.predictive, PREDICTIVES)  # it may have been set since the fit
        mixture = GaussianMixture(*self._outputs(X))
        return mixture if self.predictive == "mixture" else mixture.moment_matched()

    def _moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        means, variances = self.ensemble_.outputs(X)
        targets, centre = self.ensemble_.targets, means.mean(axis=1, keepdims=True)
        apart = means - centre
        covariance = np.diag(variances.mean(axis=1)) + apart @ apart.T / means.shape[1]
        return targets.mean + targets.scale * centre[:, 0], np.asarray(targets.squared * covariance)

    def _joint_draws(self, X: Array, size: int, generator: np.random.Generator) -> FloatArray:
        check_choice("predictive", self.predictive, PREDICTIVES)
        means, stds = self._outputs(X)
        noise = generator.standard_normal((len(X), size))
        if self.predictive == "mixture":  # each draw believes one network on all rows
            chosen = generator.integers(means.shape[1], size=size)
            return np.asarray(means[:, chosen] + stds[:, chosen] * noise)
        centre = means.mean(axis=1, keepdims=True)
        apart = (means - centre) / np.sqrt(means.shape[1])  # apart @ apart.T is the covariance of the means
        shared = generator.standard_normal((means.shape[1], size))
        return np.asarray(centre + apart @ shared + np.sqrt((stds**2).mean(axis=1, keepdims=True)) * noise)

    def _outputs(self, X: Array) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations, each (n, H), in the units of the target."""
        means, variances = self.ensemble_.outputs(X)
        targets = self.ensemble_.targets
        return targets.mean + targets.scale * means, targets.scale * np.sqrt(variances)
