"""Cross-fitting of models of any kind: fits to part of the rows, and predictions for the held-out rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.parallel import Parallel, delayed

from bdkn.data.folds import (
    HOLDOUT_FRACTION,
    N_FOLDS,
    Folds,
    OwnFolds,
    Splitting,
    fold_generator,
    is_fold_count,
    name_key,
)
from bdkn.data.reading import column_names, is_frame, read_column
from bdkn.data.rows import Rows, take_rows
from bdkn.data.scaling import TargetScaler
from bdkn.ensemble.estimators import (
    EstimatorMember,
    EstimatorMembers,
    MeanStd,
    Pair,
    is_refitted,
    predict_mean_std,
    scale_predictions,
)
from bdkn.ensemble.held_out import HeldOut
from bdkn.errors import InvalidParameterError, warn_user
from bdkn.networks import MIN_VARIANCE
from bdkn.networks.settings import Clock
from bdkn.threads import bounded_threads
from bdkn.typing import FloatArray, IndexArray

_Done = tuple[Any, MeanStd]
"""A fitted model, and its predictions for all rows."""

Parameters = Mapping[str, Mapping[str, Any]]
"""Arguments of the ``fit`` of each member besides rows and targets, by name of the member."""


@dataclass(frozen=True, eq=False)
class FoldFits:
    """Fitted members, and the means and standard deviations (n, H) that they predict for held-out rows.

    Standard deviations are nan for a member that has none. ``fold_std`` is the standard deviation, over folds, of the
    means that a member's fits predict for a row. ``fold_of`` is the number of the fit that was made without a row, None
    if some member predicts with other fits.
    """

    members: list[EstimatorMember]
    means: FloatArray
    stds: FloatArray
    fold_std: FloatArray
    fold_of: NDArray[np.int16] | None = None


def take_parameters(given: Parameters, numbers: IndexArray, n: int) -> Parameters:
    """Return the parameters of ``fit`` for some of n rows, where they hold one value per row."""

    def part(value: Any) -> Any:
        per_row = hasattr(value, "__len__") and not isinstance(value, str | dict) and len(value) == n
        return take_rows(value, numbers) if per_row else value

    return {name: {key: part(value) for key, value in values.items()} for name, values in given.items()}


@dataclass(frozen=True, eq=False)
class FoldFitter:
    """The rows, the parameters of ``fit`` and the folds to fit members with."""

    rows: Rows
    parameters: Parameters
    folds: Folds | OwnFolds
    seed: np.random.SeedSequence
    prefit: bool = False
    refit: bool = False

    def fit(
        self, pairs: Sequence[tuple[str, Any]], clock: Clock, *, n_jobs: int | None = None, verbose: int = 0
    ) -> FoldFits:
        """Fit every member on every fold; a model that cannot be refitted is used as it is for all folds.

        With a time limit, one member is fitted after the other, without those whose first fit shows that there is no
        time for the others; a warning names them. The first member is fitted whatever its time, and no fit is begun
        after the limit.
        """
        if clock.seconds == math.inf:
            jobs = [job for name, model in pairs for job in self._jobs(name, model)]
            return self._gather(jobs, self._run_all(jobs, n_jobs, verbose))
        jobs = []
        done: list[_Done] = []
        for name, model in pairs:
            if jobs and clock.left <= 0:
                break
            first, *others = self._jobs(name, model)
            began = clock.left
            result = self._run_all([first], None, verbose)
            waves = -(-len(others) // effective_n_jobs(n_jobs))
            if not jobs or waves * (began - clock.left) <= clock.left:
                jobs += [first, *others]
                done += result + self._run_all(others, n_jobs, verbose)
        _warn_of_limit(clock, {name for name, _ in pairs} - {job.name for job in jobs})
        return self._gather(jobs, done)

    def _run_all(self, jobs: Sequence[_Job], n_jobs: int | None, verbose: int) -> list[_Done]:
        at_once = effective_n_jobs(n_jobs)
        done: list[_Done] = Parallel(n_jobs=n_jobs, verbose=verbose)(delayed(self._run)(job, at_once) for job in jobs)
        return done

    def _gather(self, jobs: Sequence[_Job], done: Sequence[_Done]) -> FoldFits:
        names = list(dict.fromkeys(job.name for job in jobs))
        members, found = [], np.full((3, len(self.rows), len(names)), np.nan)
        fold_of = np.full((len(self.rows), len(names)), -1, dtype=np.int16)
        for h, name in enumerate(names):
            ours = [(job, *result) for job, result in zip(jobs, done, strict=True) if job.name == name]
            members.append(EstimatorMember.of(name, [model for job, model, _ in ours if job.is_used]))
            for k, (job, _, (mean, std)) in enumerate(ours):
                fold_of[job.left_out, h] = k
                found[0, job.left_out, h] = mean[job.left_out]
                found[1, job.left_out, h] = np.nan if std is None else std[job.left_out]
            found[2, :, h] = _std(np.array([mean for job, _, (mean, _) in ours if job.is_used]))
        held_out = self.folds.held_out
        is_known = all(job.is_used for job in jobs)
        means, stds, fold_std = found[:, held_out]
        return FoldFits(members, means, stds, fold_std, fold_of[held_out] if is_known else None)

    def _jobs(self, name: str, model: Any) -> list[_Job]:
        if self.prefit or not is_refitted(model):
            return [_Job(name, model, None, self.folds.held_out)]
        # Seed and folds follow from a member's name, so that they do not depend on the other members.
        seed, folds = np.random.SeedSequence(self.seed.entropy, spawn_key=name_key(name)), self.folds.of_member(name)
        jobs = [
            _Job(name, _seeded(model, child), kept, left_out, is_used=not self.refit)
            for child, (kept, left_out) in zip(seed.spawn(len(folds)), folds, strict=True)
        ]
        nothing = np.arange(0)
        return [*jobs, _Job(name, _seeded(model, seed), np.arange(len(self.rows)), nothing)] if self.refit else jobs

    def _run(self, job: _Job, at_once: int) -> _Done:
        """Return the fitted model and its predictions for all rows; ``at_once`` models are fitted at a time."""
        if job.kept is not None:
            with bounded_threads(len(job.kept), at_once), nullcontext() if at_once == 1 else _on_one_core(job.model):
                self._fit_model(job.model, job.name, job.kept)
        try:
            with bounded_threads(len(self.rows), at_once):
                return job.model, predict_mean_std(job.model, self.rows.X, job.name)
        except NotFittedError as error:
            raise NotFittedError(f"cv='prefit' takes fitted members; fit {job.name!r} first, or let cv be 5") from error

    def _fit_model(self, model: Any, name: str, numbers: IndexArray) -> None:
        """Fit a model to some of the rows."""
        given = {name: self.parameters.get(name, {})}
        rows, parameters = self.rows[numbers], take_parameters(given, numbers, len(self.rows))
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # finite_members warns about members that overflow
                model.fit(rows.X, rows.y, **parameters[name])
        except Exception as error:
            odd = _odd_column(rows.X) if isinstance(error, TypeError | ValueError) else None
            if odd is not None:
                raise InvalidParameterError(
                    f"member {name!r} cannot be fitted to column {odd[0]!r}, which holds {odd[1]} ({error}): give it a "
                    "pipeline that encodes such columns, or members='auto', which take any column"
                ) from error
            error.add_note(f"raised by member {name!r}, fitted to {len(rows)} rows")
            raise


def _odd_column(X: Any) -> tuple[Any, str] | None:
    """Return the name of the first column of a frame that many models cannot use, and what it holds; None if none."""
    if not (hasattr(X, "columns") and is_frame(X)):
        return None
    for name in column_names(X):
        column = read_column(X, name)
        if column.kind not in ("number", "boolean"):
            return name, f"{column.kind}s" if column.kind != "text" else "text"
        if column.missing.any():
            return name, "missing values"
    return None


def _warn_of_limit(clock: Clock, left_out: Collection[str]) -> None:
    if left_out:
        warn_user(
            f"time_limit={clock.seconds:g}: no time for the members {', '.join(map(repr, sorted(left_out)))}, "
            "which are left out; which these are depends on the machine's speed",
            UserWarning,
        )


def _std(means: FloatArray) -> FloatArray:
    """Return the standard deviation over fits, whose square may overflow."""
    with np.errstate(over="ignore", invalid="ignore"):  # see finite_members
        apart = means - means.mean(axis=0)
        unit = float(np.abs(apart).max(initial=0.0)) or 1.0
        return np.asarray(unit * np.std(apart / unit, axis=0))


@dataclass(frozen=True, eq=False)
class _Job:
    """A model, the rows to fit it to (None: it is fitted already), and the held-out rows that it predicts."""

    name: str
    model: Any
    kept: IndexArray | None
    left_out: IndexArray
    is_used: bool = True


@contextmanager
def _on_one_core(model: Any) -> Iterator[None]:
    """Set ``n_jobs`` of a model that would use several cores to 1, as other models are fitted at the same time."""
    named = {name: value for name, value in model.get_params().items() if name.split("__")[-1] == "n_jobs"}
    greedy = {name: value for name, value in named.items() if value is not None and value < 0}
    model.set_params(**dict.fromkeys(greedy, 1))
    try:
        yield
    finally:
        model.set_params(**greedy)


def _seeded(model: Any, seed: np.random.SeedSequence) -> Any:
    """Return an unfitted copy in which each random state that was None is an integer."""
    copy = clone(model)
    params = copy.get_params(deep=True)
    states = [name for name in sorted(params) if name.split("__")[-1] == "random_state" and params[name] is None]
    seeds = seed.generate_state(len(states)) % 2**31
    return copy.set_params(**dict(zip(states, seeds.tolist(), strict=True)))


def make_folds(params: Any, splitting: Splitting, routed: Parameters, root: np.random.SeedSequence) -> Folds | OwnFolds:
    """Return the folds of the rows that are used."""
    n, cv = len(splitting.used), params.cv
    if isinstance(cv, str):
        return Folds.everything(n)
    if n < 2:
        raise InvalidParameterError(
            "members are compared on rows left out of their training, which takes at least 2 rows; got "
            f"n_samples={n}: add rows, or give fitted members and cv='prefit'"
        )
    if params.design == "hold-out":
        fraction = HOLDOUT_FRACTION if cv is None else cv
        return Folds.single(n, fraction, fold_generator(root), splitting.sets)
    if cv is None or is_fold_count(cv):
        return OwnFolds(n, N_FOLDS if cv is None else cv, root.entropy, splitting.sets)
    return splitting.split(cv, routed.get("cv"))


def calibrate(
    fits: FoldFits, rows: Rows, folds: Folds | OwnFolds, targets: TargetScaler, candidates: list[Pair]
) -> tuple[EstimatorMembers, HeldOut]:
    """Return the members and their held-out predictions, with variances calibrated by these predictions.

    The targets of the rows are those that the members were fitted to, transformed by the link.
    """
    numbers, predicted = folds.held_out, scale_predictions(fits.means, fits.stds, targets, least=0.0)
    counts = None if rows.counts is None else rows.counts[numbers]
    with np.errstate(over="ignore", under="ignore"):
        fold_variance = (fits.fold_std / targets.scale) ** 2
    held_out = HeldOut(*predicted, fold_variance, targets.standardize(rows.y)[numbers], counts, fits.fold_of)
    factors = held_out.variance_factors()
    members = tuple(
        replace(member, std_factor=float(np.sqrt(f)), link=targets.link)
        for member, f in zip(fits.members, factors, strict=True)
    )
    return EstimatorMembers(members, candidates, folds), replace(
        held_out, variances=np.maximum(factors * held_out.variances, MIN_VARIANCE)
    )
