"""Models of any kind fitted to part of the rows, and what they say about the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from bdkn.members import EstimatorMember, Folds, OwnFolds, Said, ask, is_fixed, name_key
from bdkn.typing import FloatArray

Numbers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class FoldFits:
    """Fitted members, and the means and standard deviations (n, H) they give rows left out of their training.

    Standard deviations are nan for a member that has none. ``spread`` is the standard deviation of the means that all
    fits of a member give a row.
    """

    members: list[EstimatorMember]
    means: FloatArray
    stds: FloatArray
    spread: FloatArray


@dataclass(frozen=True, eq=False)
class RawRows:
    """Rows as they were given, targets, how often each counts, and what each member's ``fit`` is given besides."""

    X: Any
    y: FloatArray
    counts: FloatArray | None
    params: Mapping[str, Mapping[str, Any]]

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Numbers) -> RawRows:
        params = {name: {key: self._part(v, rows) for key, v in given.items()} for name, given in self.params.items()}
        counts = None if self.counts is None else self.counts[rows]
        return RawRows(_safe_indexing(self.X, rows), self.y[rows], counts, params)

    @property
    def counting(self) -> NDArray[np.intp]:
        """The numbers of the rows that do not count zero times."""
        return np.arange(len(self)) if self.counts is None else np.flatnonzero(self.counts)

    def that_count(self) -> RawRows:
        """Return these rows alone."""
        there = self.counting
        return self if len(there) == len(self) else self[there]

    def fit(self, model: Any, name: str) -> None:
        """Fit a model to all rows."""
        try:
            model.fit(self.X, self.y, **self.params.get(name, {}))
        except Exception as error:
            error.add_note(f"raised by member {name!r}, fitted to {len(self)} rows")
            raise

    def _part(self, value: Any, rows: Numbers) -> Any:
        """Return the values of some rows, where there is one a row."""
        one_a_row = hasattr(value, "__len__") and not isinstance(value, str | dict) and len(value) == len(self)
        return _safe_indexing(value, rows) if one_a_row else value


@dataclass(frozen=True, eq=False)
class FoldFitter:
    """The rows and folds to fit members on."""

    rows: RawRows
    folds: Folds | OwnFolds
    seed: np.random.SeedSequence
    prefit: bool = False
    refit: bool = False

    def fit(self, pairs: Sequence[tuple[str, Any]], *, n_jobs: int | None = None, verbose: int = 0) -> FoldFits:
        """Fit every member on every fold; a model that cannot be refitted is used as it is for all folds."""
        jobs = [job for name, model in pairs for job in self._jobs(name, model)]
        around = nullcontext if effective_n_jobs(n_jobs) == 1 else _on_one_core
        done = Parallel(n_jobs=n_jobs, verbose=verbose)(delayed(self._run)(job, around) for job in jobs)
        members, said = [], np.full((3, len(self.rows), len(pairs)), np.nan)
        for h, (name, _) in enumerate(pairs):
            ours = [(job, *result) for job, result in zip(jobs, done, strict=True) if job.name == name]
            members.append(EstimatorMember(name, tuple(model for job, model, _ in ours if job.is_used)))
            for job, _, (mean, std) in ours:
                said[0, job.left_out, h] = mean[job.left_out]
                said[1, job.left_out, h] = np.nan if std is None else std[job.left_out]
            said[2, :, h] = _spread(np.array([mean for job, _, (mean, _) in ours if job.is_used]))
        return FoldFits(members, *said[:, self.folds.judged])

    def _jobs(self, name: str, model: Any) -> list[_Job]:
        if self.prefit or not is_refitted(model):
            return [_Job(name, model, None, self.folds.judged)]
        # By its name a member has the same seed and the same folds whoever the others are.
        seed, folds = np.random.SeedSequence(self.seed.entropy, spawn_key=name_key(name)), self.folds.of_member(name)
        jobs = [
            _Job(name, _seeded(model, child), kept, left_out, is_used=not self.refit)
            for child, (kept, left_out) in zip(seed.spawn(len(folds)), folds, strict=True)
        ]
        nothing = np.arange(0)
        return [*jobs, _Job(name, _seeded(model, seed), np.arange(len(self.rows)), nothing)] if self.refit else jobs

    def _run(self, job: _Job, around: Callable[[Any], AbstractContextManager[Any]]) -> tuple[Any, Said]:
        """Return the model, fitted inside of ``around``, and what it says about all rows."""
        if job.kept is not None:
            with around(job.model):
                self.rows[job.kept].fit(job.model, job.name)
        try:
            return job.model, ask(job.model, self.rows.X, job.name)
        except NotFittedError as error:
            raise NotFittedError(f"cv='prefit' takes fitted members; fit {job.name!r} first, or let cv be 5") from error


def _spread(means: FloatArray) -> FloatArray:
    """Return the standard deviation over fits, whose square may be beyond what a number can be."""
    with np.errstate(over="ignore", invalid="ignore"):  # whoever diverged is screened out
        apart = means - means.mean(axis=0)
        unit = float(np.abs(apart).max(initial=0.0)) or 1.0
        return np.asarray(unit * np.std(apart / unit, axis=0))


@dataclass(frozen=True, eq=False)
class _Job:
    """A model to fit on the rows kept (none: it is fitted) and to ask about those left out."""

    name: str
    model: Any
    kept: Numbers | None
    left_out: Numbers
    is_used: bool = True


def is_refitted(model: Any) -> bool:
    """Tell whether a model is fitted to each fold: not if it cannot be, nor if it is frozen, and so its own clone."""
    return not is_fixed(model) and clone(model) is not model


@contextmanager
def _on_one_core(model: Any) -> Iterator[None]:
    """Let a model that would take all cores, beside others that do, take one."""
    named = {name: value for name, value in model.get_params().items() if name.split("__")[-1] == "n_jobs"}
    greedy = {name: value for name, value in named.items() if value is not None and value < 0}
    model.set_params(**dict.fromkeys(greedy, 1))
    try:
        yield
    finally:
        model.set_params(**greedy)


def _seeded(model: Any, seed: np.random.SeedSequence) -> Any:
    """Return an unfitted copy, each random state fixed that was left open."""
    copy = clone(model)
    params = copy.get_params(deep=True)
    states = [name for name in sorted(params) if name.split("__")[-1] == "random_state" and params[name] is None]
    seeds = seed.generate_state(len(states)) % 2**31
    return copy.set_params(**dict(zip(states, seeds.tolist(), strict=True)))
