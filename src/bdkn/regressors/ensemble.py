"""What a deep ensemble and BDKN share: networks trained side by side, and those that diverged left out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bdkn.errors import InvalidParameterError, check_number, missing_extra
from bdkn.members import (
    Design,
    InSample,
    NetworkEnsemble,
    NetworkMember,
    Standardizer,
    TargetScaler,
    TrainingRows,
    constant_variance,
)
from bdkn.networks import NetworkSpec
from bdkn.networks.activation import Array
from bdkn.predictive.base import FloatArray
from bdkn.regressors.base import ProbabilisticRegressor
from bdkn.regressors.paper import paper_parameters
from bdkn.regressors.progress import training_progress
from bdkn.regressors.screening import screen
from bdkn.regressors.seeds import Seed, seed_sequence
from bdkn.training import Engine, Rows, Trained, TrainingConfig, get_engine


@dataclass(kw_only=True, eq=False, repr=False)
class EnsembleRegressor(ProbabilisticRegressor):
    """Independently trained networks; a method writes how it combines them."""

    n_members: int = 5
    hidden_layer_sizes: int | Sequence[int] = (50, 50)
    activation: str = "relu"
    objective: str = "nll"
    beta: float = 0.5
    warmup_epochs: int = 0
    epochs: int = 500
    learning_rate: float = 1e-3
    schedule: str = "constant"
    batch_size: int = 32
    weight_decay: float = 0.0
    early_stopping: bool = True
    validation_fraction: float = 0.1
    patience: int = 20
    tol: float = 1e-4
    standardize_y: bool = True
    engine: str | Engine = "fused"
    n_jobs: int | None = -1
    random_state: Seed = None
    verbose: int = 0

    ensemble_: NetworkEnsemble = field(init=False)
    in_sample_: InSample = field(init=False)
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
    def _combine(self, design: Design, targets: TargetScaler) -> dict[str, Any]:
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
        scale = self.ensemble_.targets.scale
        return {
            "member": list(self.member_names_),
            "rmse": scale * self.in_sample_.rmse,
            "nll": self.in_sample_.nll + np.log(scale),
            "epochs": np.array([len(curve) for curve in self.loss_curves_]),
            "best_epoch": self.best_epochs_ + 1,
        }

    def member_report(self) -> Any:
        """Return ``member_table`` as a pandas data frame."""
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise missing_extra("pandas", "frames") from error
        return DataFrame(self.member_table())

    def __sklearn_is_fitted__(self) -> bool:
        return "ensemble_" in vars(self)

    def _fit(self, X: Array, y: FloatArray, counts: FloatArray | None) -> None:
        self._check_parameters()
        spec, config, engine = self._spec(X.shape[1]), self._config(), get_engine(self.engine)
        inputs = Standardizer.fit(X, counts)
        targets = TargetScaler.fit(y, counts) if self.standardize_y else TargetScaler()
        rows = TrainingRows(inputs.transform(X), targets.transform(y), counts)
        trained = self._train(engine, spec, config, rows)
        # Without a likelihood in training, the networks' variance output means nothing.
        own_variance = config.objective_at(config.epochs - 1) != "mse"
        sound, in_sample, design = screen(trained.networks, rows, own_variance=own_variance)
        names = tuple(f"network {h + 1}" for h in sound)
        variances = None if own_variance else constant_variance(in_sample.mse)
        fitted = {
            "ensemble_": NetworkEnsemble(names, design.networks, inputs, targets, variances),
            "in_sample_": in_sample,
            "loss_curves_": tuple(trained.loss_curves[h] for h in sound),
            "validation_curves_": tuple(trained.validation_curves[h] for h in sound),
            "best_epochs_": np.array([trained.best_epochs[h] for h in sound]),
            "n_iter_": max(len(trained.loss_curves[h]) for h in sound),
            **self._combine(design, targets),
        }
        self.__dict__.update(fitted)  # all at once: a fit that fails leaves what was there before

    def _train(self, engine: Engine, spec: NetworkSpec, config: TrainingConfig, rows: TrainingRows) -> Trained:
        seeds = seed_sequence(self.random_state).spawn(self.n_members)
        with np.errstate(over="ignore"):  # a target beyond single precision shows as networks that diverge
            y = rows.y.astype(np.float32)
        weight = None if rows.counts is None else (rows.counts / rows.counts.mean()).astype(np.float32)
        data = Rows(rows.X, y, weight)
        if not self.verbose:
            return engine.train(spec, data, config, seeds, n_jobs=self.n_jobs)
        with training_progress(self.n_members, config.epochs) as on_epoch:
            return engine.train(spec, data, config, seeds, n_jobs=self.n_jobs, on_epoch=on_epoch)

    def _check_parameters(self) -> None:
        """Check what neither the network's shape nor the training's configuration checks."""
        check_number("n_members", self.n_members, low=1, whole=True)
        check_number("validation_fraction", self.validation_fraction, low=0, high=0.9, strict=True)
        if not isinstance(self.verbose, bool):
            check_number("verbose", self.verbose, low=0, whole=True)
        for name in ("early_stopping", "standardize_y"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InvalidParameterError(f"{name} must be True or False; got {getattr(self, name)!r}")
        if self.n_jobs is not None and not (isinstance(self.n_jobs, int | np.integer) and self.n_jobs != 0):
            raise InvalidParameterError(f"n_jobs must be None or an integer other than 0; got {self.n_jobs!r}")
        if not isinstance(self.engine, str) and not hasattr(self.engine, "train"):
            raise InvalidParameterError(f"engine must be a name or an object with a method train; got {self.engine!r}")

    def _spec(self, n_inputs: int) -> NetworkSpec:
        sizes = self.hidden_layer_sizes
        known = isinstance(sizes, int | np.integer | Sequence | np.ndarray) and not isinstance(sizes, str)
        if not known or np.ndim(sizes) > 1:
            raise InvalidParameterError(f"hidden_layer_sizes must be an integer or a list of them; got {sizes!r}")
        hidden = np.atleast_1d(np.asarray(sizes)).tolist() if np.size(sizes) else ()
        return NetworkSpec(n_inputs=n_inputs, hidden=tuple(hidden), activation=self.activation)

    def _config(self) -> TrainingConfig:
        return TrainingConfig(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            weight_decay=self.weight_decay,
            objective=self.objective,
            beta=self.beta,
            warmup_epochs=self.warmup_epochs,
            validation_fraction=self.validation_fraction if self.early_stopping else 0.0,
            patience=self.patience,
            tol=self.tol,
        )
