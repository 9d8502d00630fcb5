"""Bayesian last layer with a prior of the latent derivative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bdkn.errors import check_number
from bdkn.regressors.bll import BLLRegressor


@dataclass(kw_only=True, eq=False, repr=False)
class LDBLLRegressor(BLLRegressor):
    """Bayesian last layer whose derivative by the inputs has a prior: unsure where there are no rows, not only noisy.

    As ``BLLRegressor``, but the features are learned under a prior of the latent derivative z(x) = ∂f/∂x as well. What
    is minimised, a row, is

        -log p(y | X)/n + β · mean over x of Σⱼ KL( N(0, γ) ‖ p(zⱼ | x, y) ),

    with x the training rows moved a little at random. Under the posterior of the last layer z is Gaussian in closed
    form; the divergence is the forward one, which asks the posterior to be at least as wide as the prior. The paper
    that proposed it has no public code; where it is silent the choices here are ours, and β = 0 is ``BLLRegressor``.
    With few rows, or many inputs, intervals are too narrow, if less so than there.

    Parameters
    ----------
    beta : float or None, default=None
        Weight β of the prior against a row's log evidence; None is one over the rows, so that it fades as they come.
    derivative_variance : float, default=0.01
        Variance γ of a derivative under the prior, in scaled units.
    jitter : float, default=0.1
        Standard deviation of the random move of a row, in scaled units.
    derivative_rows : int or None, default=None
        Rows, drawn anew each step, at which the derivative is looked at; None is all. The time of a step grows with
        rows times inputs; the memory does not, beyond a chunk of them.
    hidden_layer_sizes : int or sequence of int, default=(50, 50)
        Units of each hidden layer; the last are the features. ``()`` is a linear model of the inputs.
    activation : {"relu", "leaky_relu", "tanh", "silu"}, default="leaky_relu"
        Activation of the hidden layers.
    head : {"normal-inverse-gamma", "gaussian"}, default="normal-inverse-gamma"
        Whether σ² is integrated out under Jeffreys' prior, for Student-t predictions with σ_w² relative to σ²; or one
        number, for Gaussian predictions.
    noise : "learned" or float, default="learned"
        σ² of a Gaussian head, in scaled units: learned with the rest, or known.
    prior_variance : "learned" or float, default="learned"
        σ_w²: learned with the rest, or given.
    stale_weights : bool, default=False
        Predict with the posterior that w had before the last step moved the features. Nobody wants that; it is our
        guess at what was done for the scores printed for learning rate 0.1, most of which come out so.
    learning_rate : float, default=0.01
        Rate of Adam.
    epochs : int, default=2000
        Steps on all rows, at most.
    weight_decay : float, default=0.0
        Decoupled weight decay, as in AdamW.
    early_stopping : bool, default=True
        Hold rows out, see after how many epochs they are predicted best, and train anew on all rows for so long.
    validation_fraction : float, default=0.2
        Share of the rows held out for that.
    patience : int or None, default=300
        Epochs without a better score after which it is not waited for one; None waits to the end.
    standardize_y : bool, default=True
        Train on targets of mean 0 and standard deviation 1. Inputs are always standardised.
    device : str, default="cpu"
        Where to train, as PyTorch spells it, for example "cuda".
    n_jobs : int or None, default=None
        Threads PyTorch may use, -1 for all cores; None is one, or PyTorch's own number where a step is worth it. More
        may change the last digits.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the network, of the moves and of the rows held out.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    features_ : FeatureMap
        The hidden layers, on scaled inputs.
    posterior_ : Posterior
        The posterior of (w, σ²) in scaled units, the constant's weight last; σ² is certain for a Gaussian head.
    noise_ : float
        The noise variance, or its posterior scale b/a, in squared units of the target.
    loss_curve_ : ndarray
        Loss of each epoch on all rows.
    validation_curve_ : ndarray of shape (2, n)
        Epochs after which the rows held out were predicted, and how well, as NLL in scaled units.
    n_iter_ : int
        Epochs run on all rows.
    n_features_in_ : int
        Columns of ``X``.
    feature_names_in_ : ndarray of str
        Their names, where ``X`` had names.

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

    beta: float | None = None
    derivative_variance: float = 0.01
    jitter: float = 0.1
    derivative_rows: int | None = None

    paper_name: ClassVar[str] = "ldbll"

    @classmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        # Neither β nor γ is in either paper; its scores are those of learned noise and of a prior that weighs heavily.
        own = {"beta": 0.1, "derivative_variance": 1.0, "jitter": 0.1, "derivative_rows": None}
        return {**super()._paper_extras(setting), "noise": "learned", **own}

    def _penalty(self, features: Any, X: Any, seed: np.random.SeedSequence) -> Any:
        beta = 1 / len(X) if self.beta is None else self.beta
        if not beta:
            return None
        import torch

        from bdkn.regressors.learners.derivatives import DerivativePrior

        generator = torch.Generator().manual_seed(int(seed.generate_state(1)[0]))
        return DerivativePrior(
            features, X, beta, self.derivative_variance, self.jitter, self.derivative_rows, generator
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.beta is not None:
            check_number("beta, if not None,", self.beta, low=0)
        check_number("derivative_variance", self.derivative_variance, low=0, strict=True)
        check_number("jitter", self.jitter, low=0)
        if self.derivative_rows is not None:
            check_number("derivative_rows, if not None,", self.derivative_rows, low=1, whole=True)
