"""The parameters and the fitted attributes of regressors that train networks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from bdkn.ensemble.held_out import MemberScores
from bdkn.ensemble.networks import NetworkEnsemble, NetworkMember, NetworkMembers
from bdkn.ensemble.provenance import Seed
from bdkn.estimators.base import ProbabilisticRegressor, Table
from bdkn.estimators.paper import paper_parameters
from bdkn.networks import Engine
from bdkn.networks.settings import TrainingOptions
from bdkn.typing import Array, FloatArray, IndexArray


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkRegressor(ProbabilisticRegressor):
    """Base class of regressors whose members are networks.

    Parameters
    ----------
    n_members : int or "auto", default="auto"
        Number of members of the ensemble, H. "auto" is 11 and, for more than 4000 rows, 8.
    hidden_layer_sizes : int, sequence of int or "auto", default="auto"
        Units of each hidden layer; ``()`` is a linear model. "auto" is two layers of 50 units and, for more than 4000
        rows, five of 36, or of 28 in networks whose inputs are divided into bins.
    activation : {"relu", "leaky_relu", "tanh", "silu"} or a sequence of them, default=("silu", "relu")
        Activation of the hidden layers. Members take several values in turn.
    objective : {"nll", "beta_nll", "mse"} or Objective, default="nll"
        The loss that a network minimises: the Gaussian negative log likelihood with a variance for each row; the same
        with each row's gradient scaled by its variance to the power ``beta`` of ``training``; or the squared error.
        With "mse" the variance of a network is its mean squared error, the same for every row.
    epochs : int or "auto", default="auto"
        Maximum number of passes over the rows. "auto" is 500; for more than 1000 rows, 500 times the square root of
        1000 over their number; for more than 4000, 250 times the fourth root of 4000 over their number.
    learning_rate : float, default=0.003
        Learning rate of Adam.
    weight_decay : float or sequence of float, default=(0.0, 0.0, 0.3, 0.0, 1.0, 0.0)
        Decoupled weight decay, as in AdamW. Members take several values in turn, each value once with every activation:
        without decay networks fit data nearly free of noise, with much decay they do not fit the noise.
    n_bins : int, sequence of int or "auto", default="auto"
        Number of bins into which each column is divided. In addition to the inputs, a network then sees for each bin
        how far a value lies through it, from 0 to 1, so that it can bend where the data do. 0: the network sees the
        inputs only. Members take several values in turn, as for ``weight_decay``. "auto" is (0, 4, 0, 8, 0, 16) and,
        for more than 4000 rows, (0, 16, 0, 0). There are fewer bins, or none, if columns are many (the bins of all
        columns add at most 128 inputs and, for more than 4000 rows, 256) or rows few (less than 12 per bin).
    training : TrainingOptions or None, default=None
        Options that are rarely set: batch size, learning-rate schedule, early stopping, warm-up, scaling of targets.
        None: their defaults.
    engine : {"fused", "auto", "gpu", "reference", "torch"} or Engine, default="fused"
        The code that trains the networks: compiled code on the CPU, the fastest that is there, programs for a GPU of
        NVIDIA, plain NumPy, PyTorch, or an object with options of its own, such as ``bdkn.TorchEngine(device="cuda")``
        or ``bdkn.TorchEngine(module=factory)`` for your own ``nn.Module``. "auto" takes a GPU if there is one and the
        fit is large, else it is "fused". "gpu" takes the CPU, with a warning, where no GPU can be used.
    n_jobs : int or None, default=-1
        Number of threads for training, -1 for all cores. The result does not depend on it. Inside a parallel search, 1
        is best.
    random_state : int, Generator, RandomState or None, default=None
        Seed. More members with the same integer begin with the same networks.
    verbose : int, default=0
        1 shows a progress bar on standard error.
    effort : {"fast", "balanced", "best"}, default="balanced"
        What "auto" means: "balanced" as given above; "fast" a third of the members and half of the epochs, which takes
        about as long as CatBoost; "best" twice as many members. Parameters that are set to numbers are not changed.

    Attributes
    ----------
    ensemble_ : NetworkEnsemble
        All networks in use with the encoders they were trained under.
    members_ : list of NetworkMember
        The members in use, each with ``predict(X) -> (mean, variance)``.
    member_names_ : tuple of str
        Names of the members in use. Members that diverged or were not selected are missing; the others keep their
        numbers.
    member_scores_ : MemberScores
        Mean squared error and NLL of each member in scaled units, on held-out rows or, if there are none, on the
        training rows.
    loss_curves_ : tuple of ndarray
        Training loss per epoch of each network in use, fold by fold.
    loss_curve_ : ndarray
        Their mean.
    validation_curves_ : tuple of ndarray
        Loss per epoch on the rows that a network held out; empty without early stopping.
    best_epochs_ : ndarray of int
        The epoch, from 0, whose weights each network kept.
    n_iter_ : int
        Number of epochs run by the network that ran longest.
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of str
        Their names, if ``X`` had names.
    model_ : object
        The fitted model, which never changes: an update or another fit replaces it.
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

    _published: ClassVar[Mapping[str, Any]] = {}
    """Parameters of the class in the paper's experiments, beside those of the networks."""

    @classmethod
    def from_paper(cls, setting: int = 1, dataset: str | None = None, **overrides: Any) -> Self:
        """Return the regressor with the parameters of the paper's experiments.

        Parameters
        ----------
        setting : {1, 2}, default=1
            1: learning rate 0.1 for 40 epochs; 2: learning rate 0.001 for 500 epochs.
        dataset : str, optional
            Name of a data set of the paper; both methods have the same parameters for all of them.
        **overrides
            Parameters to set otherwise, for example ``random_state=0``.

        Returns
        -------
        model : object
            The regressor, not fitted.

        Examples
        --------
        >>> from bdkn import BDKNRegressor, DeepEnsembleRegressor
        >>> BDKNRegressor.from_paper(setting=1).learning_rate, DeepEnsembleRegressor.from_paper(setting=2).epochs
        (0.1, 500)
        """
        return cls(**{**paper_parameters(setting, dataset), **cls._published, **overrides})

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
        pages = import_module("bdkn.report.page")  # a layer above this one, which imports regressors itself
        if path is not None:
            pages.check_page_file(path)
        page = pages.make_page(self._frozen(), X, y, **options)
        if path is not None:
            page.save(path)
        return page

    def _fitted(self) -> Any:
        return self._on_engine(super()._fitted())

    def _on_engine(self, model: Any) -> Any:
        """Return the fitted model, whose networks predict where the engine that is set now trains."""
        if self.engine == "fused" or not isinstance(model.members, NetworkMembers):
            return model
        return replace(model, members=replace(model.members, engine=self.engine))

    @property
    def _networks(self) -> NetworkMembers:
        networks: NetworkMembers = self._fitted().networks
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
        """Names of the members in use; if some were not selected, the others keep their numbers."""
        names: tuple[str, ...] = self._fitted().members.names
        return names

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
        """Number of epochs run by the network that ran longest."""
        return self._networks.n_iter
