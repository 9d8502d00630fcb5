"""The base class of regressors that PyTorch trains: parameters, encoding, seeds, device, and predictions."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import (
    InvalidParameterError,
    check_choice,
    check_flag,
    check_n_jobs,
    check_number,
    check_verbosity,
    missing_extra,
    warn_user,
)
from bdkn.members import Standardizer, TargetScaler
from bdkn.members.provenance import Seed, seed_sequence
from bdkn.networks.activation import ACTIVATIONS
from bdkn.predictive import Predictive
from bdkn.regressors.base import ProbabilisticRegressor, Table
from bdkn.regressors.baselines.fitted import FittedBaseline, TrainingCourse
from bdkn.regressors.baselines.plan import Plan
from bdkn.regressors.paper import baseline_parameters
from bdkn.regressors.publication import of_one_state
from bdkn.rows import Rows
from bdkn.training.progress_bar import descent_progress
from bdkn.training.settings import layer_sizes
from bdkn.typing import Array, FloatArray

if TYPE_CHECKING:
    from bdkn.regressors.baselines.learners.descent import Curves, Hook, Learner

_MODULES = {"pyro-ppl": "pyro"}
"""Modules whose names are not those of their packages."""


@dataclass(kw_only=True, eq=False, repr=False)
class TorchRegressor(ProbabilisticRegressor):
    """Base class of regressors that are trained by PyTorch's Adam on scaled rows.

    A subclass has parameters, a plan of training, a learner, and a fitted state that the learner is turned into. The
    state makes all predictions, from arrays.
    """

    learning_rate: float = 0.01
    epochs: int = 1000
    standardize_y: bool = True
    device: str = "cpu"
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: int = 0

    packages: ClassVar[tuple[str, ...]] = ("torch",)
    """Packages that a fit imports; all of them come with the extra ``baselines``."""

    paper_name: ClassVar[str]
    """Name of the method in the paper's tables of learning rates."""

    @abstractmethod
    def _plan(self) -> Plan:
        """Check all parameters of the method and return the plan of its training."""

    @abstractmethod
    def _learner(self, rows: Rows, held_out: Rows | None, root: np.random.SeedSequence) -> Learner:
        """Return a learner of encoded rows, which is scored on held-out rows; its seeds are spawned from ``root``."""

    @abstractmethod
    def _freeze(self, learner: Any, course: TrainingCourse) -> FittedBaseline:
        """Return the fitted state that a learner has reached."""

    @abstractmethod
    def _step_work(self, n_rows: int, n_inputs: int) -> float:
        """Return the approximate number of multiplications of one step."""

    @classmethod
    @abstractmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        """Return the paper's values of the parameters that only this method has."""

    @classmethod
    def from_paper(cls, setting: int = 1, dataset: str | None = None, **overrides: Any) -> Self:
        """Return the regressor with the parameters of the paper's experiments.

        Parameters
        ----------
        setting : {1, 2}, default=1
            1: learning rate 0.1 for at most 40 epochs; 2: the learning rates and epochs that the paper lists for each
            data set.
        dataset : str, optional
            Name of a data set of the paper, such as "yacht". Setting 2 requires it, or ``learning_rate`` and
            ``epochs``, for methods whose parameters differ between data sets.
        **overrides
            Parameters to set otherwise, for example ``random_state=0``.

        Returns
        -------
        model : TorchRegressor
            The regressor, not fitted.

        Examples
        --------
        >>> from bdkn import BLLRegressor
        >>> BLLRegressor.from_paper(setting=2, dataset="yacht").epochs
        8000
        """
        shared = baseline_parameters(cls.paper_name, setting, dataset, overrides)
        return cls(**{**shared, **cls._paper_extras(setting), **overrides})

    def fit(self, X: Table, y: ArrayLike) -> Self:  # type: ignore[override]
        """Fit the regressor to training rows; every row counts once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A NumPy array, or a pandas or polars data frame, of finite numbers.
        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        return super().fit(X, y)

    def fit_watched(self, X: Table, y: ArrayLike, watch: Callable[[Self], None]) -> Self:
        """Fit as ``fit`` does, and call ``watch`` with a fitted copy of the regressor after every epoch.

        With early stopping, only the training on all rows is watched, not the search for the best number of epochs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Targets.
        watch : callable
            Function of a regressor with the state that training has reached; what it returns is ignored.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        return self._publish(lambda model: model._fit_rows(model._training_rows(X, y, None), watch))

    @classmethod
    def load_packages(cls) -> None:
        """Import the packages that a fit needs; raise an error that names the extra to install if one is missing."""
        for package in cls.packages:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # warnings of these packages about their own dependencies
                    import_module(_MODULES.get(package, package))
            except ImportError as error:
                raise missing_extra(package, "baselines") from error

    @classmethod
    def check_device(cls, device: str) -> None:
        """Raise unless PyTorch is installed and can compute on this device."""
        cls.load_packages()
        from bdkn.regressors.baselines.learners.session import check_device

        check_device(device)

    @property
    def inputs_(self) -> Standardizer:
        """The encoder, which scales the columns of ``X``."""
        return self._baseline.course.inputs

    @property
    def targets_(self) -> TargetScaler:
        """The mean and the scale of the targets."""
        return self._baseline.course.targets

    @property
    def loss_curve_(self) -> FloatArray:
        """Loss of each epoch on all rows."""
        return self._baseline.course.loss_curve

    @property
    def validation_curve_(self) -> FloatArray:
        """Epochs, and the NLL of held-out rows after each of them in scaled units, (2, n); empty without any."""
        return self._baseline.course.validation_curve

    @property
    def n_iter_(self) -> int:
        """Number of epochs on all rows."""
        return len(self.loss_curve_)

    @property
    @of_one_state
    def noise_variance_(self) -> float:
        """The noise variance, in squared units of the target."""
        return self._baseline.noise * self.targets_.squared

    @property
    def noise_(self) -> float:
        """Former name of ``noise_variance_``."""
        warn_user("noise_ is now noise_variance_, and will be removed in bdkn 0.3", FutureWarning)
        return self.noise_variance_

    def _fit(self, rows: Rows) -> FittedBaseline:
        return self._fit_rows(rows, None)

    def _fit_rows(self, rows: Rows, watch: Callable[[Self], None] | None) -> FittedBaseline:
        plan = self._checked_plan()
        self.check_device(self.device)
        if len(rows) < 2:
            raise InvalidParameterError(f"a fit needs at least 2 rows; got n_samples={len(rows)}: add rows")
        root = seed_sequence(self.random_state)
        with self._session(root, self._step_work(*rows.X.shape)):
            return self._train(rows, plan, root, watch)

    def _train(
        self, rows: Rows, plan: Plan, root: np.random.SeedSequence, watch: Callable[[Self], None] | None
    ) -> FittedBaseline:
        """Return the state after encoding the rows and training, inside a session of PyTorch."""
        from bdkn.regressors.baselines.learners.descent import train

        inputs = Standardizer.fit(rows)
        targets = TargetScaler.fit(rows.y) if self.standardize_y else TargetScaler()
        encoded = Rows(inputs.transform(rows.X), targets.transform(rows.y))

        def state(learner: Learner, curves: Curves) -> FittedBaseline:
            course = TrainingCourse(inputs, targets, np.array(curves.losses), curves.validation_curve)
            return self._freeze(learner, course)

        make = partial(self._learner, root=root)
        after_epoch = None if watch is None else partial(self._show, watch, state)
        return state(*train(make, encoded, plan, root, progress=self._progress, after_epoch=after_epoch))

    def _show(
        self,
        watch: Callable[[Self], None],
        state: Callable[[Learner, Curves], FittedBaseline],
        learner: Learner,
        curves: Curves,
    ) -> None:
        """Call ``watch`` with a fitted copy; random numbers that this draws do not change those of the training."""
        from bdkn.regressors.baselines.learners.session import own_draws

        with own_draws(self.device):
            model = copy.copy(self)
            model.fitted_ = state(learner, curves)
            watch(model)

    def _session(self, root: np.random.SeedSequence, work: float) -> AbstractContextManager[None]:
        from bdkn.regressors.baselines.learners.session import session, threads_for

        return session(root.spawn(1)[0], threads_for(self.n_jobs, work), self.device)

    def _progress(self, epochs: int) -> AbstractContextManager[Hook | None]:
        return descent_progress(type(self).__name__, epochs) if self.verbose else nullcontext()

    def _checked_plan(self) -> Plan:
        """Check all parameters and return the plan of training."""
        check_flag("standardize_y", self.standardize_y)
        check_verbosity(self.verbose)
        check_n_jobs(self.n_jobs)
        return self._plan()

    @property
    def _baseline(self) -> FittedBaseline:
        state: FittedBaseline = self._state
        return state

    def _predictive(self, X: Array) -> Predictive:
        return self._baseline.predictive(self._scaled(X)).affine(self.targets_.scale, self.targets_.mean)

    def _moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        joint, targets = self._baseline.joint(self._scaled(X)), self.targets_
        return targets.mean + targets.scale * joint.mean(), targets.squared * joint.cov()

    def _joint_draws(self, X: Array, size: int, generator: np.random.Generator) -> FloatArray:
        drawn = self._baseline.draw(self._scaled(X), size, generator)
        return np.asarray(self.targets_.mean + self.targets_.scale * drawn)

    def _scaled(self, X: Array) -> FloatArray:
        """Return rows as the fitted state receives them."""
        return self.inputs_.transform(X).astype(np.float64)


def hidden_layers(hidden_layer_sizes: int | Sequence[int], activation: str) -> tuple[int, ...]:
    """Return the units of each hidden layer, after checking them and the activation."""
    check_choice("activation", activation, ACTIVATIONS)
    hidden = layer_sizes(hidden_layer_sizes, "an integer or a list of them")
    for width in hidden:
        check_number("each of hidden_layer_sizes", width, low=1, whole=True)
    return hidden


def network_step_work(n_rows: int, widths: Sequence[int], batch_size: int | None = None) -> float:
    """Return the approximate number of multiplications of one step of a network with these layer widths."""
    weights = sum(n_in * n_out for n_in, n_out in pairwise(widths))
    return 3.0 * min(n_rows, batch_size or n_rows) * weights
