"""Regressors of any kind as members of an ensemble: their fitted models and predictions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from bdkn.data.folds import Folds, OwnFolds
from bdkn.data.scaling import TargetScaler
from bdkn.ensemble.copied_models import CopiedModel, MeanStd
from bdkn.ensemble.scikit_learn import copy_estimator
from bdkn.ensemble.selection import HeldOut
from bdkn.errors import DivergedError, InvalidParameterError, no_extrapolation_warnings
from bdkn.inference import Forecast
from bdkn.networks.spec import MIN_VARIANCE
from bdkn.predictive import Gaussian, IdentityLink, Transformed
from bdkn.predictive.links import IDENTITY, Link
from bdkn.storage.fields import (
    STORED,
    Either,
    Fixed,
    Instance,
    Items,
    Maybe,
    Number,
    Text,
    WrongContentError,
    must,
    sizes,
    stored,
)
from bdkn.threads import bounded_threads
from bdkn.typing import FloatArray, IndexArray

Pair = tuple[str, Any]
"""Name of a member, and its estimator."""

PAIRS = Items(Fixed(Text(), Either(str, Text(), Instance("SavedModel"))), list)
"""Schema in model files of (name, estimator) pairs; a text replaces an estimator that is not of this library."""

_MODEL = Instance("SavedModel", *(name for name, kind in STORED.items() if issubclass(kind, CopiedModel)))
"""Schema in model files of a member's fitted model: a regressor of this library, or a copy of another one as arrays."""

_MAX_PREDICTION = 1e140
"""Maximum absolute prediction of a member, in standard deviations of the targets; it keeps squares finite."""


class Member(Protocol):
    """Member of an ensemble: predicts means and, optionally, variances in the units of the target."""

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray | None]:
        """Return the mean and the variance of each row; the variances are None if the member predicts none."""


@stored
@dataclass(frozen=True, eq=False)
class EstimatorMember:
    """Member that predicts by one fitted model, or by the average of one fitted model per fold.

    The models receive rows of the user's table and predict the target transformed by the ``link``. Their standard
    deviations are multiplied by ``std_factor``, or not used if it is nan. If possible, scikit-learn models are replaced
    by copies that hold only arrays, to be stored in files; ``originals`` are then the scikit-learn models, not stored.
    """

    name: str
    models: Annotated[tuple[Annotated[Any, _MODEL], ...], sizes(F=len)]
    std_factor: Annotated[float, Number(low=0.0, nan=True)] = 1.0
    link: Link = IDENTITY
    originals: Annotated[Any, Maybe(Fixed())] = None

    @classmethod
    def of(cls, name: str, models: Sequence[Any], std_factor: float, link: Link) -> EstimatorMember:
        """Return a member with these fitted models; models that can be stored as arrays are replaced by such copies."""
        copies = [copy_estimator(model) for model in models]
        if all(copied is None for copied in copies):
            return cls(name, tuple(models), std_factor, link)
        used = (model if copied is None else copied for model, copied in zip(models, copies, strict=True))
        return cls(name, tuple(used), std_factor, link, originals=tuple(models))

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray | None]:
        """Return the mean and the variance of the target for each row; the variances are None if there are none.

        The variance of an average over folds is the models' mean variance plus the variance of their means.
        """
        means, stds = self.by_fold(X)
        with np.errstate(over="ignore", under="ignore"):
            mean, var = means.mean(axis=0), None if stds is None else (stds**2).mean(axis=0) + means.var(axis=0)
        if isinstance(self.link, IdentityLink):
            return mean, var
        if var is None:
            return self.link.inverse(mean), None
        dist = Transformed(Gaussian(mean, np.sqrt(var)), self.link)
        return dist.mean(), dist.var()

    def by_fold(self, X: Any) -> MeanStd:
        """Return every model's means and standard deviations (or None) of the transformed target, each (folds, n)."""
        predicted = [predict_mean_std(model, X, self.name) for model in self.models]
        means, stds = zip(*predicted, strict=True)
        if np.isnan(self.std_factor) or any(part is None for part in stds):
            return np.stack(means), None
        return np.stack(means), self.std_factor * np.stack(stds)


@stored
@dataclass(frozen=True, eq=False)
class EstimatorMembers:
    """Members of a fitted regressor that are estimators, with all candidates (name and estimator) and the folds."""

    members: Annotated[tuple[EstimatorMember, ...], sizes(H=len)]
    candidates: Annotated[list[Pair], PAIRS]
    folds: Folds | OwnFolds

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, chosen: IndexArray) -> EstimatorMembers:
        return replace(self, members=tuple(self.members[h] for h in chosen))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(member.name for member in self.members)

    @property
    def input_sizes(self) -> set[int]:
        """Numbers of inputs that the members' models expect; models without ``n_features_in_`` are left out."""
        sizes = (getattr(model, "n_features_in_", None) for member in self.members for model in member.models)
        return {size for size in sizes if size is not None}

    def check_held_out(self, held_out: HeldOut | None) -> None:
        """Raise unless the folds have as many held-out rows, and ``fold_of`` contains only numbers of existing fits."""
        if held_out is None:
            raise WrongContentError("a stack has held-out rows")
        folds = self.folds
        n = folds.n if isinstance(folds, OwnFolds) else sum(map(len, folds.held_out))
        must(n == len(held_out.y), f"folds must hold out {len(held_out.y)} rows; got {n}")
        for h, member in enumerate(self.members):
            last = -1 if held_out.fold_of is None else held_out.fold_of[:, h].max()
            must(last < len(member.models), f"fold_of must be one of the fits of member {h}")

    def forecast(self, X: Any, targets: TargetScaler, held_out: HeldOut | None) -> Forecast:
        """Return the members' means, noise variance and disagreement for the scaled target in checked rows ``X``."""
        assert held_out is not None, "members that are not networks are combined by held-out rows"
        return held_out.pool(*self.by_fold(X, targets))

    def by_fold(self, X: Any, targets: TargetScaler) -> tuple[FloatArray, FloatArray]:
        """Return means and variances (folds, n, H) of the scaled target by all fits; missing variances are nan."""
        with bounded_threads(X.shape[0]):
            predicted = [member.by_fold(X) for member in self.members]
        K = max(len(means) for means, _ in predicted)
        means, stds = np.full((2, K, X.shape[0], len(predicted)), np.nan)
        for h, (mean, std) in enumerate(predicted):
            means[..., h] = mean
            stds[..., h] = np.nan if std is None else std
            if not (np.isfinite(mean).all() and (std is None or np.isfinite(std).all())):
                raise DivergedError(
                    f"member {self.names[h]!r} must predict finite numbers; it does not on one of these rows: "
                    "check them, or use drop_members"
                )
        with np.errstate(over="ignore", under="ignore"):
            means, variances = targets.standardize(means), np.maximum((stds / targets.scale) ** 2, MIN_VARIANCE)
        for h, name in enumerate(self.names):
            if np.abs(means[..., h]).max(initial=0.0) > _MAX_PREDICTION:
                raise DivergedError(
                    f"member {name!r} must predict numbers of the size of the targets; on one of these rows it "
                    f"predicts one {_MAX_PREDICTION:g} times as large: check this row, or use drop_members"
                )
        return means, variances

    def table(self, targets: TargetScaler, held_out: HeldOut | None) -> dict[str, Any]:
        """Return the members' RMSE and NLL on held-out rows, in the units of the target, as a dict of columns."""
        assert held_out is not None, "members that are not networks are combined by held-out rows"
        scores = held_out.filled().scores()
        return {"rmse": targets.scale * scores.rmse, "nll": scores.nll + np.log(targets.scale)}


def predict_mean_std(model: Any, X: Any, name: str = "a member") -> MeanStd:
    """Return the means and standard deviations (or None) that a fitted model predicts; errors contain ``name``."""
    try:
        with no_extrapolation_warnings(), np.errstate(over="ignore", invalid="ignore"):  # checked later
            answer = model.predict_mean_std(X) if isinstance(model, CopiedModel) else _predict(model, X)
    except Exception as error:
        error.add_note(f"raised by member {name!r}, predicting {X.shape[0]} rows")
        raise
    mean, std = answer if isinstance(answer, tuple) else (answer, None)
    n = X.shape[0]
    return _one_per_row(mean, n, name), None if std is None else _one_per_row(std, n, name)


def _predict(model: Any, X: Any) -> Any:
    """Call a model, a PyTorch module or a function; return its means, or a tuple of means and standard deviations."""
    classes = [(cls.__module__, cls.__name__) for cls in type(model).__mro__]
    if ("torch.nn.modules.module", "Module") in classes and not (hasattr(model, "fit") and hasattr(model, "predict")):
        return _forward(model, X)
    if not hasattr(model, "predict"):
        return model(X)
    found = getattr(model, "best_estimator_", model)  # the signature of a search or pipeline does not show return_std
    last = found[-1] if hasattr(found, "steps") else found
    try:
        has_std = "return_std" in inspect.signature(last.predict).parameters
    except ValueError:  # compiled code may have no signature
        has_std = False
    if not has_std:
        return model.predict(X)
    rows = X if last is found or len(found) == 1 else found[:-1].transform(X)
    try:
        return last.predict(rows, return_std=True)
    except Exception:  # some models fail on a polars frame
        if not type(rows).__module__.startswith("polars"):
            raise
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")  # names were checked
        return last.predict(rows.to_numpy(), return_std=True)


def _forward(module: Any, X: Any) -> Any:
    """Return the outputs of a PyTorch module in evaluation mode, on its own device and in its own precision."""
    import torch

    like = next(module.parameters(), torch.zeros(0))
    in_training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with torch.no_grad():
            answer = module(torch.as_tensor(np.asarray(X), dtype=like.dtype, device=like.device))
    finally:
        for part in in_training:
            part.training = True
    return tuple(part.cpu().numpy() for part in answer) if isinstance(answer, tuple) else answer.cpu().numpy()


def _one_per_row(numbers: ArrayLike, n: int, name: str) -> FloatArray:
    column = np.asarray(numbers, dtype=np.float64)
    if column.shape not in ((n,), (n, 1)):
        raise InvalidParameterError(
            f"member {name!r} must predict one number per row, shape ({n},) or ({n}, 1); got shape {column.shape}: "
            "wrap it in a function that returns means, or (means, standard deviations)"
        )
    return column.reshape(n)
