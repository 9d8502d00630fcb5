"""What a deep ensemble and BDKN share: networks trained side by side, and those that diverged left out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bdkn.errors import InvalidParameterError, check_number
from bdkn.members import (
    Design,
    MemberScores,
    NetworkEnsemble,
    NetworkMember,
    Standardizer,
    TargetScaler,
    TrainingRows,
    constant_variance,
)
from bdkn.networks import NetworkSpec
from bdkn.regressors.base import ProbabilisticRegressor
from bdkn.regressors.frames import as_frame
from bdkn.regressors.paper import paper_parameters
from bdkn.regressors.progress import training_progress
from bdkn.regressors.recipe import Size, in_turn, is_auto, recipes, usual_size
from bdkn.regressors.screening import screen
from bdkn.regressors.seeds import Seed, seed_sequence
from bdkn.stages import stage
from bdkn.training import Engine, Hook, Rows, Trained, TrainingConfig, get_engine, renumbered
from bdkn.typing import Array, FloatArray


@dataclass(kw_only=True, eq=False, repr=False)
class EnsembleRegressor(ProbabilisticRegressor):
    """Independently trained networks; a method writes how it combines them."""

    n_members: int | str = "auto"
    hidden_layer_sizes: int | Sequence[int] | str = "auto"
    activation: str | Sequence[str] = ("silu", "relu")
    objective: str = "nll"
    beta: float = 0.5
    warmup_epochs: int = 0
    epochs: int | str = "auto"
    learning_rate: float = 3e-3
    schedule: str = "cosine"
    batch_size: int = 32
    weight_decay: float | Sequence[float] = (0.0, 0.3, 0.0, 1.0, 0.0, 0.3)
    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int = 20
    tol: float = 1e-4
    standardize_y: bool = True
    engine: str | Engine = "fused"
    n_jobs: int | None = -1
    random_state: Seed = None
    verbose: int = 0

    ensemble_: NetworkEnsemble = field(init=False)
    member_scores_: MemberScores = field(init=False)
    loss_curves_: tuple[Array, ...] = field(init=False)
    validation_curves_: tuple[Array, ...] = field(init=False)
    best_epochs_: NDArray[np.intp] = field(init=False)
    n_iter_: int = field(init=False)

    @classmethod
    def from_paper(cls, setting: int = 1, **overrides: Any) -> Self:
        """Return the regressor as the paper's experiments set it up.

        Parameters
        ----------
        setting : {1, 2}
            1: learning rate 0.1 for 40 epochs; 2: learning rate 0.001 for 500 epochs.
        **overrides
            Parameters to set otherwise, for example ``random_state=0``.
        """
        return cls(**{**paper_parameters(setting), **cls._paper_extras(), **overrides})

    @classmethod
    @abstractmethod
    def _paper_extras(cls) -> dict[str, Any]:
        """Return the paper's values of the parameters only this method has."""

    @abstractmethod
    def _combine(self, design: Design) -> dict[str, Any]:
        """Learn from what the networks say about the training rows how to combine them; return what is fitted."""

    @property
    def members_(self) -> list[NetworkMember]:
        """The networks in use, each with ``predict(X) -> (mean, variance)`` in the units of the target."""
        return self.ensemble_.members

    @property
    def member_names_(self) -> tuple[str, ...]:
        """Names of the networks in use; where some diverged, the others keep their numbers."""
        return self.ensemble_.names

    @property
    def loss_curve_(self) -> FloatArray:
        """Training loss an epoch, averaged over the networks that ran it."""
        curves = np.full((len(self.loss_curves_), self.n_iter_), np.nan)
        for row, curve in zip(curves, self.loss_curves_, strict=True):
            row[: len(curve)] = curve
        return np.asarray(np.nanmean(curves, axis=0))

    def member_table(self) -> dict[str, Any]:
        """Return one column a key: each network's name, its RMSE and NLL on the training rows, its epochs.

        RMSE and NLL are in the units of the target, the NLL that of the network's own Gaussian. ``epochs`` were run,
        the weights are those after ``best_epoch`` of them.
        """
        check_is_fitted(self)
        scale, by_fold = self.ensemble_.targets.scale, (-1, len(self.member_names_))
        epochs = np.array([len(curve) for curve in self.loss_curves_]).reshape(by_fold)
        return {
            "member": list(self.member_names_),
            "rmse": scale * self.member_scores_.rmse,
            "nll": self.member_scores_.nll + np.log(scale),
            "epochs": epochs.max(axis=0),
            "best_epoch": self.best_epochs_.reshape(by_fold).max(axis=0) + 1,
        }

    def member_report(self) -> Any:
        """Return ``member_table`` as a pandas data frame."""
        return as_frame(self.member_table())

    def __sklearn_is_fitted__(self) -> bool:
        return "ensemble_" in vars(self)

    def _fit(self, X: Array, y: FloatArray, counts: FloatArray | None) -> None:
        self._check_parameters()
        inputs = Standardizer.fit(X, counts)
        targets = TargetScaler.fit(y, counts) if self.standardize_y else TargetScaler()
        learned = self._learned(TrainingRows(inputs.transform(X), targets.transform(y), counts), inputs, targets)
        self.__dict__.update(learned)  # all at once: a fit that fails changes nothing

    def _learned(self, rows: TrainingRows, inputs: Standardizer, targets: TargetScaler) -> dict[str, Any]:
        """Return the fitted attributes: networks trained on all rows, and how to combine them."""
        numbers = range(self._size(len(rows.y)).n_members)
        seeds = seed_sequence(self.random_state).spawn(len(numbers))
        with self._progress(len(seeds), len(rows.y)) as on_epoch, stage("train"):
            trained = self._train(rows, seeds, on_epoch, numbers)
        own_variance = self._own_variance(trained)
        sound, scores, design = screen(trained.networks, rows, own_variance=own_variance)
        names = tuple(f"network {h + 1}" for h in sound)
        variances = None if own_variance else constant_variance(scores.mse)
        ensemble = NetworkEnsemble(names, design.networks, inputs, targets, variances)
        with stage("combine"):
            return {**self._described(ensemble, scores, trained, sound), **self._combine(design)}

    def _described(
        self, ensemble: NetworkEnsemble, scores: MemberScores, trained: Trained, kept: NDArray[np.intp]
    ) -> dict[str, Any]:
        """Return the fitted attributes that tell about the networks; ``kept`` are their numbers in training."""
        those = trained[kept]
        return {
            "ensemble_": ensemble,
            "member_scores_": scores,
            "loss_curves_": those.loss_curves,
            "validation_curves_": those.validation_curves,
            "best_epochs_": np.array(those.best_epochs),
            "n_iter_": max(map(len, those.loss_curves)),
        }

    def _own_variance(self, trained: Trained) -> bool:
        """Return whether the networks' variances mean something: without a likelihood in training they do not."""
        last = max(map(len, trained.loss_curves)) - 1
        return self._config(self._size(1)).objective_at(last) != "mse"

    def _train(
        self,
        rows: TrainingRows,
        seeds: Sequence[np.random.SeedSequence],
        on_epoch: Hook | None,
        numbers: Sequence[int],
        only: Callable[[int], NDArray[np.intp]] | None = None,
    ) -> Trained:
        """Train one network a seed, as members of these ``numbers`` are, each on all rows or on ``only`` its own."""
        with np.errstate(over="ignore"):  # a target beyond single precision shows as networks that diverge
            y = rows.y.astype(np.float32)
        weight = None if rows.counts is None else (rows.counts / rows.counts.mean()).astype(np.float32)
        engine = get_engine(self.engine)
        parts, places = [], []
        size = self._size(len(rows.y))
        for recipe, members in recipes(self.activation, self.weight_decay, numbers).items():
            data = Rows(rows.X, y, weight, None if only is None else [only(h) for h in members])
            spec, config = self._spec(size, rows.X.shape[1], recipe.activation), self._config(size, recipe.decay)
            train = partial(engine.train, spec, data, config, [seeds[h] for h in members], n_jobs=self.n_jobs)
            parts.append(train() if on_epoch is None else train(on_epoch=renumbered(on_epoch, members)))
            places += members
        return Trained.join(parts)[np.argsort(places)]

    def _progress(self, n_networks: int, n_rows: int) -> AbstractContextManager[Hook | None]:
        """Show how the training of so many networks goes, if that is wanted."""
        return training_progress(n_networks, self._size(n_rows).epochs) if self.verbose else nullcontext()

    def _check_parameters(self) -> None:
        """Check what neither the network's shape nor the training's configuration checks."""
        if not is_auto("n_members", self.n_members):
            check_number("n_members", self.n_members, low=1, whole=True)
        size = self._size(1)
        check_number("validation_fraction", self.validation_fraction, low=0, high=0.9, strict=True)
        if not isinstance(self.verbose, bool):
            check_number("verbose", self.verbose, low=0, whole=True)
        for activation in in_turn("activation", self.activation):
            self._spec(size, 1, activation)
        for decay in in_turn("weight_decay", self.weight_decay):
            self._config(size, decay)
        for name in ("early_stopping", "standardize_y"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InvalidParameterError(f"{name} must be True or False; got {getattr(self, name)!r}")
        if self.n_jobs is not None and not (isinstance(self.n_jobs, int | np.integer) and self.n_jobs != 0):
            raise InvalidParameterError(f"n_jobs must be None or an integer other than 0; got {self.n_jobs!r}")
        if not isinstance(self.engine, str) and not hasattr(self.engine, "train"):
            raise InvalidParameterError(f"engine must be a name or an object with a method train; got {self.engine!r}")

    def _size(self, n_rows: int) -> Size:
        """Return how many networks of which size are trained for how long: what is left open, by the rows."""
        usual = usual_size(n_rows)
        return Size(
            usual.n_members if is_auto("n_members", self.n_members) else int(self.n_members),
            usual.hidden if is_auto("hidden_layer_sizes", self.hidden_layer_sizes) else self._hidden(),
            usual.epochs if is_auto("epochs", self.epochs) else cast(int, self.epochs),
        )

    def _hidden(self) -> tuple[int, ...]:
        sizes = self.hidden_layer_sizes
        if not isinstance(sizes, int | np.integer | Sequence | np.ndarray) or np.ndim(sizes) > 1:
            raise InvalidParameterError(
                f'hidden_layer_sizes must be an integer, a list of them, or "auto"; got {sizes!r}'
            )
        return tuple(np.atleast_1d(np.asarray(sizes)).tolist()) if np.size(sizes) else ()

    def _spec(self, size: Size, n_inputs: int, activation: str) -> NetworkSpec:
        return NetworkSpec(n_inputs=n_inputs, hidden=size.hidden, activation=activation)

    def _config(self, size: Size, weight_decay: float = 0.0) -> TrainingConfig:
        return TrainingConfig(
            epochs=size.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            weight_decay=weight_decay,
            objective=self.objective,
            beta=self.beta,
            warmup_epochs=self.warmup_epochs,
            validation_fraction=self.validation_fraction if self.early_stopping else 0.0,
            patience=self.patience,
            tol=self.tol,
        )
