"""The base classes of the baselines: scikit-learn's interface, scaling, training by PyTorch, and predictions."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

import bdkn
from bdkn.data.folds import Seed, seed_sequence
from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.errors import InvalidParameterError, check_choice, check_flag, check_n_jobs, check_number, check_verbosity
from bdkn.networks import ACTIVATIONS
from bdkn.predictive import Predictive
from bdkn.typing import FloatArray
from bdkn_paper.baselines.fitted import FittedBaseline, TrainingCourse
from bdkn_paper.baselines.paper_settings import baseline_parameters
from bdkn_paper.baselines.plan import Plan

if TYPE_CHECKING:
    from bdkn_paper.baselines.learners.descent import Curves, Hook, Learner

_MODULES = {"pyro-ppl": "pyro"}
"""Modules whose names differ from those of their packages."""

_DTYPES = (np.float64, np.float32)
"""Tables of these types are used as they are; all others are converted to double precision."""


@dataclass(kw_only=True, eq=False, repr=False)
class TorchRegressor(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of regressors that are trained by PyTorch's Adam on scaled rows.

    A subclass has parameters, a plan of training, a learner, and a fitted state that the learner is turned into. The
    state, ``fitted_``, makes all predictions in scaled units, from arrays. The regressors take tables of finite
    numbers, have no sample weights, and are stored by pickle.

    Parameters
    ----------
    learning_rate : float, default=0.01
        Learning rate of Adam.
    epochs : int, default=1000
        Maximum number of passes over the rows.
    standardize_y : bool, default=True
        Train on targets of mean 0 and standard deviation 1. Inputs are always standardised.
    device : str, default="cpu"
        PyTorch device to train on, for example "cuda".
    n_jobs : int or None, default=None
        Number of threads of PyTorch, -1 for all cores. None is one thread and, if a step has enough work for several,
        PyTorch's own number. Results may differ in the last digits between numbers of threads.
    random_state : int, Generator, RandomState or None, default=None
        Seed of everything that is random in a fit: initial weights, held-out rows, batches, draws, inducing points.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    inputs_ : Standardizer
        The scaling of the columns of ``X``.
    targets_ : TargetScaler
        The mean and the scale of the targets.
    noise_variance_ : float
        The noise variance in squared units of the target.
    loss_curve_ : ndarray of shape (n_iter_,)
        Loss of each epoch on all rows, in scaled units.
    validation_curve_ : ndarray of shape (2, n)
        Epochs, and the NLL of held-out rows after each of them in scaled units; n is 0 if no rows were held out.
    n_iter_ : int
        Number of epochs on all rows.
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of str
        Their names, if ``X`` had names.
    """

    learning_rate: float = 0.01
    epochs: int = 1000
    standardize_y: bool = True
    device: str = "cpu"
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: int = 0

    fitted_: Any = field(init=False)  # a FittedBaseline; each subclass knows its own class

    packages: ClassVar[tuple[str, ...]] = ("torch",)
    """Packages that a fit imports."""

    paper_name: ClassVar[str]
    """Name of the method in the paper's tables of learning rates."""

    @abstractmethod
    def _plan(self) -> Plan:
        """Check all parameters of the method and return the plan of its training."""

    @abstractmethod
    def _learner(self, rows: Rows, held_out: Rows | None, root: np.random.SeedSequence) -> Learner:
        """Return a learner of scaled rows, which is scored on held-out rows; its seeds are spawned from ``root``."""

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
        >>> from bdkn_paper import BLLRegressor
        >>> BLLRegressor.from_paper(setting=2, dataset="yacht").epochs
        8000
        """
        shared = baseline_parameters(cls.paper_name, setting, dataset, overrides)
        return cls(**{**shared, **cls._paper_extras(setting), **overrides})

    @classmethod
    def load_packages(cls) -> None:
        """Import the packages that a fit needs, without their warnings about their own dependencies."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for package in cls.packages:
                import_module(_MODULES.get(package, package))

    @classmethod
    def check_device(cls, device: str) -> None:
        """Raise unless PyTorch can compute on this device."""
        cls.load_packages()
        from bdkn_paper.baselines.learners.session import check_device

        check_device(device)

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit the regressor to the rows of ``X`` and their targets; every row counts once."""
        return self.fit_watched(X, y, None)

    def fit_watched(self, X: Any, y: ArrayLike, watch: Callable[[Self], None] | None) -> Self:
        """Fit as ``fit`` does, and call ``watch`` with a fitted copy of the regressor after every epoch.

        With early stopping, only the training on all rows is watched, not the search for the best number of epochs.
        """
        fitted = copy.copy(self)
        fitted.fitted_ = fitted._trained(fitted._training_rows(X, y), watch)
        self.__dict__ = fitted.__dict__  # all attributes at once: a fit that fails changes none
        return self

    def predict_dist(self, X: Any) -> Predictive:
        """Predict the distribution of each row."""
        state, rows = self._state_and_rows(X)
        targets = state.course.targets
        return state.predictive(rows).affine(targets.scale, targets.mean)

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict the mean of each row and, if requested, its standard deviation or the covariance of all rows."""
        if return_std and return_cov:
            raise InvalidParameterError("at most one of return_std and return_cov can be True; got both")
        if return_cov:
            state, rows = self._state_and_rows(X)
            joint, targets = state.joint(rows), state.course.targets
            return targets.mean + targets.scale * joint.mean(), targets.squared * joint.cov()
        dist = self.predict_dist(X)
        return (dist.mean(), dist.std()) if return_std else dist.mean()

    def predict_interval(self, X: Any, coverage: float = 0.9) -> FloatArray:
        """Predict the ends (n, 2) of the central interval of each row that has this probability."""
        return np.stack(self.predict_dist(X).interval(coverage), axis=1)

    def predict_quantiles(self, X: Any, quantiles: float | Sequence[float] = (0.05, 0.5, 0.95)) -> FloatArray:
        """Predict the quantiles (n, n_levels) of each row at these levels."""
        return bdkn.predict_quantiles(self, X, quantiles)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Seed = 0) -> FloatArray:
        """Draw joint samples (n, n_samples) of the targets of all rows."""
        check_number("n_samples", n_samples, low=1, whole=True)
        state, rows = self._state_and_rows(X)
        drawn = state.draw(rows, int(n_samples), np.random.default_rng(seed_sequence(random_state)))
        return np.asarray(state.course.targets.mean + state.course.targets.scale * drawn)

    def log_score(self, X: Any, y: ArrayLike) -> float:
        """Return the mean log density of the targets, the negative of the NLL; greater is better."""
        return -bdkn.nll(y, self.predict_dist(X))

    def crps(self, X: Any, y: ArrayLike) -> float:
        """Return the mean continuous ranked probability score in the units of the target; smaller is better."""
        return bdkn.crps(y, self.predict_dist(X))

    @property
    def _state(self) -> Any:
        """The fitted state; raise NotFittedError, which is an AttributeError, before a fit."""
        check_is_fitted(self)
        return self.fitted_

    @property
    def inputs_(self) -> Standardizer:
        """The scaling of the columns of ``X``."""
        inputs: Standardizer = self._state.course.inputs
        return inputs

    @property
    def targets_(self) -> TargetScaler:
        """The mean and the scale of the targets."""
        targets: TargetScaler = self._state.course.targets
        return targets

    @property
    def noise_variance_(self) -> float:
        """The noise variance, in squared units of the target."""
        state: FittedBaseline = self._state
        return state.noise * state.course.targets.squared

    @property
    def loss_curve_(self) -> FloatArray:
        """Loss of each epoch on all rows."""
        losses: FloatArray = self._state.course.loss_curve
        return losses

    @property
    def validation_curve_(self) -> FloatArray:
        """Epochs, and the NLL of held-out rows after each of them in scaled units, (2, n); empty without any."""
        curve: FloatArray = self._state.course.validation_curve
        return curve

    @property
    def n_iter_(self) -> int:
        """Number of epochs on all rows."""
        return len(self.loss_curve_)

    def _state_and_rows(self, X: Any) -> tuple[FittedBaseline, FloatArray]:
        """Return the fitted state and checked rows, scaled."""
        state: FittedBaseline = self._state
        with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums all numbers, to see if one is NaN
            rows = validate_data(self, X, reset=False, dtype=_DTYPES)
        return state, state.course.inputs.transform(rows).astype(np.float64)

    def _scaled(self, X: Any) -> FloatArray:
        """Return rows as the fitted state receives them."""
        return self._state_and_rows(X)[1]

    def _training_rows(self, X: Any, y: ArrayLike) -> Rows:
        """Return checked rows and targets, and set the attributes of the columns."""
        shape = np.asarray(y).shape
        if len(shape) > 1 and shape[1] != 1:
            raise InvalidParameterError(
                f"y must hold one target per row, shape (n_samples,); got shape {shape}: fit one regressor per target"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            table, targets = validate_data(self, X, y, dtype=_DTYPES, y_numeric=True)
        if len(targets) < 2:
            raise InvalidParameterError(f"a fit needs at least 2 rows; got n_samples={len(targets)}: add rows")
        return Rows(table, np.asarray(targets, dtype=np.float64))

    def _trained(self, rows: Rows, watch: Callable[[Self], None] | None) -> FittedBaseline:
        """Check the parameters, scale the rows, train, and return the fitted state."""
        check_flag("standardize_y", self.standardize_y)
        check_verbosity("verbose", self.verbose)
        check_n_jobs("n_jobs", self.n_jobs)
        plan = self._plan()
        self.check_device(self.device)
        from bdkn_paper.baselines.learners.descent import train
        from bdkn_paper.baselines.learners.session import own_draws, session, threads_for

        root = seed_sequence(self.random_state)
        inputs = Standardizer.fit(rows)
        targets = TargetScaler.fit(rows.y) if self.standardize_y else TargetScaler()
        scaled = Rows(inputs.transform(rows.X), targets.transform(rows.y))

        def state(learner: Learner, curves: Curves) -> FittedBaseline:
            course = TrainingCourse(inputs, targets, np.array(curves.losses), curves.validation_curve)
            return self._freeze(learner, course)

        def show(learner: Learner, curves: Curves) -> None:
            with own_draws(self.device):  # random numbers drawn here do not change those of the training
                model = copy.copy(self)
                model.fitted_ = state(learner, curves)
                assert watch is not None, "only a fit that is watched shows its epochs"
                watch(model)

        threads = threads_for(self.n_jobs, self._step_work(*rows.X.shape))
        with session(root.spawn(1)[0], threads, self.device):
            make, after_epoch = partial(self._learner, root=root), None if watch is None else show
            return state(*train(make, scaled, plan, root, progress=self._progress, after_epoch=after_epoch))

    @contextmanager
    def _progress(self, epochs: int) -> Iterator[Hook | None]:
        """Show a bar for one descent of at most ``epochs``, if it is wanted, and yield the hook that moves it."""
        if not self.verbose:
            yield None
            return
        from bdkn.networks.job import progress_bar

        name = type(self).__name__
        with progress_bar() as progress:
            task = progress.add_task(f"training {name}", total=epochs)

            def on_epoch(epoch: int, loss: float) -> None:
                description = f"{name}, epoch {epoch + 1}/{epochs}, loss {loss:.4g}"
                progress.update(task, completed=epoch + 1, description=description)

            yield on_epoch
            progress.update(task, description=f"trained {name}")


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkRegressor(TorchRegressor):
    """Base class of baselines with a network.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50, 50)
        Units of each hidden layer.
    activation : {"relu", "leaky_relu", "tanh", "silu"}, default="relu"
        Activation of the hidden layers.
    weight_decay : float, default=0.0
        Decoupled weight decay of the network, as in AdamW.
    early_stopping : bool, default=True
        Hold rows out, find the number of epochs after which they are predicted best, and train again on all rows for
        that number of epochs.
    validation_fraction : float, default=0.2
        Fraction of the rows held out for early stopping.
    patience : int or None, default=100
        Epochs without improvement after which the search for the best number of epochs ends; None runs all epochs.
    """

    hidden_layer_sizes: int | Sequence[int] = (50, 50)
    activation: str = "relu"
    weight_decay: float = 0.0
    early_stopping: bool = True
    validation_fraction: float = 0.2
    patience: int | None = 100

    def _plan(self) -> Plan:
        self._hidden()
        names = ("learning_rate", "epochs", "weight_decay", "early_stopping", "validation_fraction", "patience")
        return Plan(**{name: getattr(self, name) for name in names})

    def _hidden(self) -> tuple[int, ...]:
        """Return the units of each hidden layer, after checking them and the activation."""
        check_choice("activation", self.activation, ACTIVATIONS)
        given = self.hidden_layer_sizes
        if isinstance(given, str) or np.ndim(given) > 1:
            raise InvalidParameterError(f"hidden_layer_sizes must be an integer or a list of them; got {given!r}")
        hidden = tuple(np.atleast_1d(np.asarray(given)).tolist()) if np.size(given) else ()
        for width in hidden:
            check_number("each of hidden_layer_sizes", width, low=1, whole=True)
        return hidden


def network_step_work(n_rows: int, widths: Sequence[int], batch_size: int | None = None) -> float:
    """Return the approximate number of multiplications of one step of a network with these layer widths."""
    weights = sum(n_in * n_out for n_in, n_out in pairwise(widths))
    return 3.0 * min(n_rows, batch_size or n_rows) * weights
