"""What the methods that PyTorch trains share: scaling, seeds, devices, and the choice of when to stop."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from bdkn.errors import DivergedError, InvalidParameterError, check_choice, check_number, missing_extra
from bdkn.members import Standardizer, TargetScaler, TrainingRows
from bdkn.networks import FeatureMap
from bdkn.networks.activation import ACTIVATIONS
from bdkn.predictive import MultivariateT, Predictive
from bdkn.regressors.base import ProbabilisticRegressor, Table, unchanged_on_failure
from bdkn.regressors.paper import baseline_parameters
from bdkn.regressors.progress import descent_progress
from bdkn.regressors.seeds import Seed, seed_sequence
from bdkn.typing import Array, FloatArray

if TYPE_CHECKING:
    from bdkn.regressors.learners.descent import Curves, Learner, Plan, Then

Watched = Callable[[dict[str, Any]], "Then"]
"""Given the fitted attributes that are known before training, returns what is told of its epochs."""


@dataclass(kw_only=True, eq=False, repr=False)
class TorchRegressor(ProbabilisticRegressor):
    """A regressor trained by Adam on scaled rows; a method writes what is learned and its joint predictions."""

    learning_rate: float = 0.01
    epochs: int = 1000
    standardize_y: bool = True
    device: str = "cpu"
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: int = 0

    inputs_: Standardizer = field(init=False)
    targets_: TargetScaler = field(init=False)
    loss_curve_: FloatArray = field(init=False)

    packages: ClassVar[tuple[str, ...]] = ("torch",)
    """What to import for a fit; all of it comes with the extra ``baselines``."""

    paper_name: ClassVar[str]
    """What the paper's tables of learning rates call the method."""

    @abstractmethod
    def _learned(self, rows: TrainingRows, root: np.random.SeedSequence, watched: Watched | None) -> dict[str, Any]:
        """Return the fitted attributes, ``loss_curve_`` among them, given scaled rows.

        After every epoch on all rows ``watched``, made for the attributes that are known by then, is told.
        """

    @abstractmethod
    def _frozen(self, learner: Any) -> dict[str, Any]:
        """Return the fitted attributes that a learner has come to."""

    @abstractmethod
    def _work(self, n_rows: int, n_inputs: int) -> float:
        """Return about how many multiplications a step takes."""

    @abstractmethod
    def _scaled_predictive(self, X: FloatArray) -> Predictive:
        """Return the predictive distribution of scaled rows, in scaled units of the target."""

    @abstractmethod
    def _scaled_joint(self, X: FloatArray) -> MultivariateT:
        """Return the joint predictive distribution of scaled rows, in scaled units of the target."""

    @classmethod
    def from_paper(cls, setting: int = 1, dataset: str | None = None, **overrides: Any) -> Self:
        """Return the regressor as the paper's experiments set it up.

        Parameters
        ----------
        setting : {1, 2}
            1: learning rate 0.1, at most 40 epochs; 2: the rates and epochs the paper lists, which differ between data
            sets.
        dataset : str, optional
            Name of the data set, such as "yacht". Setting 2 needs it, or ``learning_rate`` and ``epochs``.
        **overrides
            Parameters to set otherwise, for example ``random_state=0``.
        """
        shared = baseline_parameters(cls.paper_name, setting, dataset, overrides)
        return cls(**{**shared, **cls._paper_extras(setting), **overrides})

    @classmethod
    @abstractmethod
    def _paper_extras(cls, setting: int) -> dict[str, Any]:
        """Return the paper's values of the parameters only this method has."""

    def fit(self, X: Table, y: ArrayLike) -> Self:  # type: ignore[override]
        """Fit to the rows of ``X`` and their targets; every row counts the same.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A NumPy array, or a pandas or polars data frame, of finite numbers.
        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        self
        """
        return self._fit_checked(X, y)

    def fit_watched(self, X: Table, y: ArrayLike, watch: Callable[[Self], None]) -> Self:
        """Fit as ``fit`` does, and call ``watch`` after every epoch with the model as it would be then.

        It is one and the same model that learns on: what is wanted of it is to be asked at once. Where rows are held
        out to find out when to stop, the training that follows on all rows is the one that is watched.
        """
        return self._fit_checked(X, y, watch)

    def _fit_checked(self, X: Table, y: ArrayLike, watch: Callable[[Self], None] | None = None) -> Self:
        with unchanged_on_failure(self):
            self._fit(*self._training_rows(X, y, None), watch)
        return self

    @property
    def n_iter_(self) -> int:
        """Epochs run on all rows."""
        return len(self.loss_curve_)

    def __sklearn_is_fitted__(self) -> bool:
        return "loss_curve_" in vars(self)

    @classmethod
    def load_packages(cls) -> None:
        """Import what a fit needs, or say how to install it."""
        for package in cls.packages:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of libraries about one another, while they are imported
                    import_module(_MODULES.get(package, package))
            except ImportError as error:
                raise missing_extra(package, "baselines") from error

    @classmethod
    def check_device(cls, device: str) -> None:
        """Raise unless PyTorch is there and can compute on this device."""
        cls.load_packages()
        from bdkn.regressors.learners.session import check_device

        check_device(device)

    def _fit(
        self, X: Array, y: FloatArray, counts: FloatArray | None, watch: Callable[[Self], None] | None = None
    ) -> None:
        self._check_parameters()
        self.load_packages()
        if len(y) < 2:
            raise InvalidParameterError(f"how far targets spread takes at least 2 rows to see; got n_samples={len(y)}")
        inputs = Standardizer.fit(X)
        targets = TargetScaler.fit(y) if self.standardize_y else TargetScaler()
        scalers = {"inputs_": inputs, "targets_": targets}
        with self._session(root := seed_sequence(self.random_state), self._work(*X.shape)):
            watched = None if watch is None else partial(self._watched, watch, scalers)
            learned = self._learned(TrainingRows(inputs.transform(X), targets.transform(y)), root, watched)
        # All at once: a fit that fails changes nothing.
        self.__dict__.update(scalers, **learned)

    def _watched(self, watch: Callable[[Self], None], scalers: dict[str, Any], known: dict[str, Any]) -> Then:
        """Return what shows a learner as a fitted model; the draws this takes are none of the training's."""
        from bdkn.regressors.learners.session import own_draws

        model = copy.copy(self)
        model.__dict__.update(scalers, **known)

        def then(learner: Any, losses: list[float]) -> None:
            with own_draws(self.device):
                model.__dict__.update(self._frozen(learner), loss_curve_=np.array(losses))
                watch(model)

        return then

    def _session(self, root: np.random.SeedSequence, work: float) -> AbstractContextManager[None]:
        from bdkn.regressors.learners.session import session, threads_for

        self.check_device(self.device)
        return session(root.spawn(1)[0], threads_for(self.n_jobs, work), self.device)

    def _descend(self, learner: Learner, plan: Plan, *, judge: bool = False, then: Then | None = None) -> Curves:
        from bdkn.regressors.learners.descent import descend

        with self._progress(plan.epochs) as hook:
            return descend(learner, plan, judge=judge, hook=hook, then=then)

    def _progress(self, epochs: int) -> Any:
        return descent_progress(type(self).__name__, epochs) if self.verbose else nullcontext()

    def _predictive(self, X: Array) -> Predictive:
        return self._scaled_predictive(self._scaled(X)).affine(self.targets_.scale, self.targets_.mean)

    def _moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        joint, targets = self._scaled_joint(self._scaled(X)), self.targets_
        return targets.mean + targets.scale * joint.mean(), targets.squared * joint.cov()

    def _joint_draws(self, X: Array, size: int, generator: np.random.Generator) -> FloatArray:
        drawn = self._scaled_joint(self._scaled(X)).rvs(size, generator)
        return self.targets_.mean + self.targets_.scale * drawn

    def _scaled(self, X: Array) -> FloatArray:
        return self.inputs_.transform(X).astype(np.float64)

    def _check_parameters(self) -> None:
        check_number("learning_rate", self.learning_rate, low=0, strict=True)
        check_number("epochs", self.epochs, low=1, whole=True)
        check_flag("standardize_y", self.standardize_y)
        if not isinstance(self.verbose, bool):
            check_number("verbose", self.verbose, low=0, whole=True)
        if self.n_jobs is not None and not (isinstance(self.n_jobs, int | np.integer) and self.n_jobs != 0):
            raise InvalidParameterError(f"n_jobs must be None or an integer other than 0; got {self.n_jobs!r}")


@dataclass(kw_only=True, eq=False, repr=False)
class TorchNetworkRegressor(TorchRegressor):
    """One network, trained for as long as rows held out say, and then again on all rows for so long."""

    hidden_layer_sizes: int | Sequence[int] = (50, 50)
    activation: str = "relu"
    weight_decay: float = 0.0
    early_stopping: bool = True
    validation_fraction: float = 0.2
    patience: int | None = 100

    validation_curve_: FloatArray = field(init=False)
    """Epochs and scores, (2, n)."""

    @abstractmethod
    def _learner(
        self, rows: TrainingRows, held_out: TrainingRows | None, seeds: Sequence[np.random.SeedSequence]
    ) -> Learner:
        """Return what is to be trained on ``rows``, and judged on ``held_out``."""

    def _learned(self, rows: TrainingRows, root: np.random.SeedSequence, watched: Watched | None) -> dict[str, Any]:
        epochs, judged = self._stop(rows, root) if self.early_stopping else (self.epochs, {})
        known = {"validation_curve_": np.array([[epoch + 1 for epoch in judged], list(judged.values())])}
        learner = self._learner(rows, None, root.spawn(3))
        curves = self._descend(learner, self._plan(epochs), then=watched and watched(known))
        return {"loss_curve_": np.array(curves.losses), **known, **self._frozen(learner)}

    def _stop(self, rows: TrainingRows, root: np.random.SeedSequence) -> tuple[int, dict[int, float]]:
        """Return how many epochs were best for rows held out, and how good each was."""
        n = len(rows.y)
        order = np.random.default_rng(root).permutation(n)
        held = round(self.validation_fraction * n)
        if not 0 < held < n:
            raise InvalidParameterError(
                f"early_stopping needs rows to train on and rows to hold out; got n_samples={n}, of which "
                f"validation_fraction={self.validation_fraction:g} is {held}: add rows, or set early_stopping=False"
            )
        learner = self._learner(rows[order[held:]], rows[order[:held]], root.spawn(3))
        curves = self._descend(learner, self._plan(self.epochs, self.patience), judge=True)
        if not np.isfinite(min(curves.judged.values())):
            raise DivergedError(
                "after some epoch the rows held out must be predicted with finite densities; after none they were: "
                f"try a learning_rate below {self.learning_rate:g}"
            )
        return curves.best, curves.judged

    def _plan(self, epochs: int, patience: int | None = None) -> Plan:
        from bdkn.regressors.learners.descent import Plan

        return Plan(learning_rate=self.learning_rate, epochs=epochs, weight_decay=self.weight_decay, patience=patience)

    def _work(self, n_rows: int, n_inputs: int) -> float:
        widths = (n_inputs, *self._hidden, 1)
        weights = sum(a * b for a, b in pairwise(widths))
        return 3.0 * min(n_rows, getattr(self, "batch_size", None) or n_rows) * weights

    def _start(self, n_inputs: int, seed: np.random.SeedSequence) -> FeatureMap:
        """Return the hidden layers before training."""
        widths = (n_inputs, *self._hidden)
        return FeatureMap.draw(widths, self.activation, np.random.default_rng(seed))

    @property
    def _hidden(self) -> tuple[int, ...]:
        sizes = self.hidden_layer_sizes
        known = isinstance(sizes, int | np.integer | Sequence | np.ndarray) and not isinstance(sizes, str)
        if not known or np.ndim(sizes) > 1:
            raise InvalidParameterError(f"hidden_layer_sizes must be an integer or a list of them; got {sizes!r}")
        hidden = np.atleast_1d(np.asarray(sizes)).tolist() if np.size(sizes) else []
        for width in hidden:
            check_number("each of hidden_layer_sizes", width, low=1, whole=True)
        return tuple(hidden)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _ = self._hidden
        check_choice("activation", self.activation, ACTIVATIONS)
        check_number("weight_decay", self.weight_decay, low=0)
        check_flag("early_stopping", self.early_stopping)
        check_number("validation_fraction", self.validation_fraction, low=0, high=0.9, strict=True)
        if self.patience is not None:
            check_number("patience, if not None,", self.patience, low=1, whole=True)


_MODULES = {"pyro-ppl": "pyro"}
"""Modules whose names are not those of their packages."""


def check_flag(name: str, given: object) -> None:
    """Raise unless ``given`` is a truth value."""
    if not isinstance(given, bool | np.bool_):
        raise InvalidParameterError(f"{name} must be True or False; got {given!r}")
