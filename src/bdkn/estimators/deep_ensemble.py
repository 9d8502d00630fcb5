"""Deep ensembles: equally weighted networks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.data.frames import as_frame
from bdkn.data.rows import Rows
from bdkn.data.scaling import encode
from bdkn.ensemble.held_out import MemberScores
from bdkn.ensemble.networks import NetworkEnsemble, NetworkMember
from bdkn.ensemble.provenance import Seed, seed_sequence
from bdkn.errors import check_choice
from bdkn.estimators.base import ProbabilisticRegressor, Table
from bdkn.estimators.fitted import FittedNetworks
from bdkn.estimators.page import report_on
from bdkn.estimators.publication import of_one_state
from bdkn.estimators.published import fit_all_rows, paper_parameters
from bdkn.estimators.shared_docs import with_shared_docs
from bdkn.networks import Engine
from bdkn.networks.settings import NetworkSettings
from bdkn.predictive import Gaussian, GaussianMixture
from bdkn.stages import stage
from bdkn.typing import Array, FloatArray, IndexArray

PREDICTIVES = ("mixture", "gaussian")


@with_shared_docs
@dataclass(kw_only=True, eq=False, repr=False)
class DeepEnsembleRegressor(ProbabilisticRegressor):
    """Deep ensemble: an equally weighted mixture of Gaussians.

    H networks are trained independently, each to predict a mean and a variance (Lakshminarayanan et al., 2017).

    Parameters
    ----------
    <network_parameters>
    predictive : {"mixture", "gaussian"}, default="mixture"
        Predict the mixture itself, or the Gaussian of the same mean and variance, which the literature scores.

    Attributes
    ----------
    <network_attributes>
    <column_attributes>

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
    beta: float = 0.5
    warmup_epochs: int = 0
    epochs: int | str = "auto"
    learning_rate: float = 3e-3
    schedule: str = "cosine"
    batch_size: int = 32
    weight_decay: float | Sequence[float] = (0.0, 0.0, 0.3, 0.0, 1.0, 0.0)
    n_bins: int | Sequence[int] | str = "auto"
    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int = 20
    tol: float = 1e-4
    standardize_y: bool = True
    engine: str | Engine = "fused"
    n_jobs: int | None = -1
    random_state: Seed = None
    verbose: int = 0
    effort: str = "balanced"
    predictive: str = "mixture"

    @classmethod
    def from_paper(cls, setting: int = 1, dataset: str | None = None, **overrides: Any) -> Self:
        """Return the regressor with the parameters of the paper's experiments.

        Parameters
        ----------
        setting : {1, 2}, default=1
            1: learning rate 0.1 for 40 epochs; 2: learning rate 0.001 for 500 epochs.
        dataset : str, optional
            Name of a data set of the paper; this method has the same parameters for all of them.
        **overrides
            Parameters to set otherwise, for example ``random_state=0``.

        Returns
        -------
        model : DeepEnsembleRegressor
            The regressor, not fitted.

        Examples
        --------
        >>> from bdkn import DeepEnsembleRegressor
        >>> DeepEnsembleRegressor.from_paper(setting=2).epochs
        500
        """
        return cls(**{**paper_parameters(setting, dataset), "predictive": "gaussian", **overrides})

    def member_table(self) -> dict[str, Any]:
        """Return each network's name, its RMSE and NLL on the training rows, and its epochs.

        Returns
        -------
        table : dict of str to list or ndarray
            One column per key. RMSE and NLL are in the units of the target, the NLL that of the network's own Gaussian.
            ``epochs`` were run; the weights are those after ``best_epoch`` of them.
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

    @of_one_state
    def report(self, X: Table, y: ArrayLike, path: str | os.PathLike[str] | None = None, **options: Any) -> Any:
        """Make a page about the model, by rows that it has not seen: one HTML file that needs no network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to judge the model by.
        y : array-like of shape (n_samples,)
            Their targets.
        path : str or path-like, optional
            File to write; an existing file is replaced.
        **options
            ``title``, ``target_name``, ``rows`` and ``what_if``, as in ``bdkn.report.write_page``.

        Returns
        -------
        page : bdkn.report.Page
            The page. Notebooks show it, and its ``save(path)`` writes it.
        """
        return report_on(self, X, y, path, **options)

    def _fit(self, rows: Rows) -> FittedNetworks:
        check_choice("predictive", self.predictive, PREDICTIVES)
        settings = NetworkSettings.of(self)
        n_members = settings.size(len(rows)).n_members
        settings.check_memory(len(rows), rows.X.shape[1], n_members=n_members, fits=1, combined=False)
        with stage("encode"):
            encoded, encoders = encode(rows, standardize_y=settings.standardize_y)
        return fit_all_rows(settings, encoded, encoders, seed_sequence(self.random_state))[0]

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
        if self.predictive == "mixture":  # each draw takes one network for all rows
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

    @property
    def _networks(self) -> FittedNetworks:
        networks: FittedNetworks = self._state
        return networks

    @property
    def ensemble_(self) -> NetworkEnsemble:
        """All networks in use with the encoders they were trained under."""
        return self._networks.ensemble

    @property
    def members_(self) -> list[NetworkMember]:
        """The members in use, each with ``predict(X) -> (mean, variance)`` in the units of the target."""
        return self._networks.ensemble.members

    @property
    def member_names_(self) -> tuple[str, ...]:
        """Names of the members in use; if some were left out, the others keep their numbers."""
        return self._networks.ensemble.names

    @property
    def member_scores_(self) -> MemberScores:
        """Mean squared error and NLL of each member in scaled units."""
        return self._networks.scores

    @property
    def loss_curves_(self) -> tuple[Array, ...]:
        """Training loss per epoch of each network in use, fold by fold."""
        return self._networks.loss_curves

    @property
    def loss_curve_(self) -> FloatArray:
        """Training loss per epoch, averaged over the networks that ran it."""
        return self._networks.loss_curve

    @property
    def validation_curves_(self) -> tuple[Array, ...]:
        """Loss per epoch on the rows that a network held out; empty without early stopping."""
        return self._networks.validation_curves

    @property
    def best_epochs_(self) -> IndexArray:
        """The epoch, from 0, whose weights each network kept."""
        return self._networks.best_epochs

    @property
    def n_iter_(self) -> int:
        """Epochs run by the network that ran longest."""
        return self._networks.n_iter
