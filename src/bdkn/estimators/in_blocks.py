"""Fits to rows in blocks, of which a sample and one chunk at a time are in memory; see ``bdkn.blocks``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Protocol

import numpy as np

from bdkn.data.encoder import TableEncoder
from bdkn.data.folds import FoldPlan, Splitting
from bdkn.data.rows import Rows, RowSource
from bdkn.data.sample import CHUNK_ROWS, Sample
from bdkn.data.scaling import Encoders, encode
from bdkn.data.training_rows import LARGEST_TARGET
from bdkn.ensemble.chunks import (
    BlockPlan,
    KeptChunks,
    KnownInputs,
    RowEncoding,
    RowPlace,
    Summary,
    ThisMachine,
    check_trains_on_chunks,
)
from bdkn.ensemble.cluster import cluster_of
from bdkn.ensemble.cross_fitting import Candidates, FoldNetworks, fold_networks, predict_held_out, train_folds
from bdkn.ensemble.linear import fit_linear
from bdkn.ensemble.provenance import FitProvenance
from bdkn.ensemble.selection import CombinationSettings
from bdkn.errors import InvalidParameterError
from bdkn.estimators.candidate_networks import combine_candidates, within_limit
from bdkn.estimators.fitted import Combined, FittedBDKN
from bdkn.inference import Absorbed, Statistics
from bdkn.model.target_choice import TargetSettings
from bdkn.networks import NetworkSettings
from bdkn.networks.job import progress_bar
from bdkn.networks.settings import Clock
from bdkn.predictive.links import Link
from bdkn.stages import stage
from bdkn.typing import IndexArray


class BlockModel(Protocol):
    """What a fit in blocks needs of a regressor; ``BDKNRegressor`` has it."""

    design: str
    target: str
    time_limit: float | None
    table_: TableEncoder | None
    n_features_in_: int

    def _settings(self) -> NetworkSettings: ...

    def _all_rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Rows: ...

    def _as_inputs(self, rows: Rows, sets: IndexArray | None = None, *, reset: bool) -> Rows: ...

    def _check_memory(self, settings: NetworkSettings, rows: Rows, n_members: int) -> None: ...

    def _link(self, rows: Rows) -> Link: ...

    def _has_linear_member(self, n_rows: int, n_columns: int) -> bool: ...

    def _completed(self, combined: Combined, X: Any, numbers: IndexArray | None, splitting: Splitting) -> Combined: ...


def fit_in_blocks(model: BlockModel, source: RowSource) -> FittedBDKN:
    """Return the state of a regressor that is fitted to the rows of a source.

    If the sample consists of all rows, it is the state of a fit in memory with the folds of ``RowNumberFolds``.
    """
    clock = Clock.start(model.time_limit or inf)
    settings = model._settings()
    _check_design(model)
    place = _place(source)
    with stage("sample"):
        sample = place.sample()
    fit = _Fit.prepare(model, settings, sample, clock)
    if sample.is_complete:
        return fit.state(train_folds(fit.settings, fit.encoded, fit.in_memory))
    check_trains_on_chunks(settings)
    with fit.chunks(place) as chunks:
        networks = fit.train(chunks)
        fitted = fit.state(networks)
        with stage("predict held-out rows"):
            return fit.with_all_rows(fitted, networks, chunks)


@dataclass(frozen=True, eq=False)
class _Fit:
    """A fit of which the sample has been read: its encoded rows, encoders and plan.

    ``inputs`` are the rows of the sample as encoders see them, with columns of numbers only.
    """

    model: BlockModel
    settings: NetworkSettings
    sample: Sample
    inputs: Rows
    splitting: Splitting
    encoded: Rows
    encoders: Encoders
    provenance: FitProvenance
    plan: BlockPlan
    in_memory: FoldPlan

    @classmethod
    def prepare(cls, model: BlockModel, settings: NetworkSettings, sample: Sample, clock: Clock) -> _Fit:
        given = model._all_rows(sample.rows.X, sample.rows.y, sample.rows.counts, reset=True)
        sets = None if sample.units is sample.numbers else np.unique(sample.units, return_inverse=True)[1]
        inputs = model._as_inputs(given, sets, reset=True)
        size = settings.size(sample.n)
        model._check_memory(settings, inputs, size.n_members)
        with stage("choose link"):
            link = _link(model, inputs, sample)
        with stage("encode"):
            encoded, encoders = encode(inputs, standardize_y=settings.standardize_y, link=link)
        provenance = FitProvenance.of(model, encoded, "rows in blocks")
        settings = replace(settings, epochs=size.epochs)
        plan = BlockPlan.of(model, provenance.entropy, size.n_members)
        limited = within_limit(settings, encoded, clock, sample.n * plan.rows_per_row)
        if limited is not settings:
            settings, provenance = limited, provenance.with_parameters(epochs=limited.epochs)
            plan = BlockPlan.of(model, provenance.entropy, settings.size(sample.n).n_members)
        splitting = Splitting(given, np.arange(len(given)), sets)
        in_memory = plan.in_memory(sample.units)
        return cls(model, settings, sample, inputs, splitting, encoded, encoders, provenance, plan, in_memory)

    def chunks(self, place: RowPlace) -> KeptChunks:
        """Return all rows, encoded, in chunks."""
        model, known = self.model, KnownInputs(self.sample.numbers, self.inputs.X)
        encoding = RowEncoding(model.table_, model.n_features_in_, self.encoders, self.encoded.X.shape[1])
        with stage("write chunks"):
            return place.chunks(self.sample, encoding, known)

    def train(self, chunks: KeptChunks) -> FoldNetworks:
        """Return the networks, trained on all chunks."""
        mean_count = self.sample.total / self.sample.n
        plan = self.plan.on_chunks(mean_count)
        passes = len(plan.members) * len(chunks) * self.settings.size(self.sample.n).epochs
        with stage("train"), _progress(self.settings, passes) as on_pass:
            trained = chunks.train(self.settings, self.encoded, plan, on_pass)
        return fold_networks(trained, self.in_memory, own_variance=self._own_variance)

    @property
    def _own_variance(self) -> bool:
        return self.settings.trains_variance(self.sample.n)

    def state(self, networks: FoldNetworks) -> FittedBDKN:
        """Return the state of the fit by what networks predict for rows of the sample."""
        plan, model = self.in_memory, self.model
        held_out = predict_held_out(networks, self.encoded, plan)
        candidates = Candidates(plan.names, networks.used, networks.is_finite, held_out, networks.own_variance)
        if model._has_linear_member(*self.inputs.X.shape):
            candidates = self._linear().join(candidates)
        fitted = combine_candidates(candidates, self.encoders, self.provenance, CombinationSettings.of(model))
        combined = model._completed(fitted.combined, self.inputs.X, plan.held_out, self.splitting)
        return replace(fitted, combined=combined, n_trained=len(plan.names))

    def _linear(self) -> Candidates:
        if self.sample.is_complete:
            return fit_linear(self.encoded, self.in_memory, own_variance=self._own_variance)
        raise InvalidParameterError(
            f"a linear member is fitted to at most {CHUNK_ROWS} rows, those that are kept in memory; got "
            f"linear_member=True and {self.sample.n} rows: use linear_member='auto'"
        )

    def with_all_rows(self, fitted: FittedBDKN, networks: FoldNetworks, chunks: KeptChunks) -> FittedBDKN:
        """Return the state with the posterior of all rows that were left out once, in place of those of the sample."""
        summary = self.summary(fitted, networks)
        left_out = chunks.left_out(summary)
        combined, stats = fitted.combined, left_out.statistics
        absorbed = Absorbed(combined.combination, stats, Statistics.empty(stats.n_weights))
        absorbed = absorbed.with_prior(CombinationSettings.of(self.model).prior_variance)
        combination = replace(absorbed.combination(), noise_level=left_out.noise / stats.n)
        widening = combined.widening
        if widening is not None and combined.held_out is not None:
            widening = widening.for_members(combined.held_out, combination)
        combined = replace(combined, combination=combination, widening=widening, left_out=left_out)
        return replace(fitted, combined=combined)

    def summary(self, fitted: FittedBDKN, networks: FoldNetworks) -> Summary:
        """Return how chunks are summarized for the members in use."""
        ensemble, plan, combined = fitted.networks.ensemble, self.plan, fitted.combined
        members = [plan.names.index(name) for name in ensemble.names]
        crossed, used = networks.crossed[members], networks.used[members]
        return Summary(
            names=ensemble.names,
            networks=FoldNetworks(crossed, used, networks.is_finite[members], networks.own_variance),
            folds=replace(plan.folds, seeds=tuple(plan.folds.seeds[h] for h in members)),
            refit=plan.refit,
            tempering=combined.combination.tempering,
            constant=ensemble.variances,
            slopes=combined.targets.log_derivative,
        )


def _place(source: RowSource) -> RowPlace:
    """Return where the rows are: on a cluster if they are a Dask frame's and a client is active, else here."""
    return cluster_of(source, CHUNK_ROWS) or ThisMachine(source, CHUNK_ROWS)


def _check_design(model: BlockModel) -> None:
    if model.design == "in-sample":
        raise InvalidParameterError(
            "rows in blocks are fitted by what networks predict for rows left out; got design='in-sample', which "
            "leaves out none: use design='cross-fit' or 'hold-out'"
        )


def _link(model: BlockModel, inputs: Rows, sample: Sample) -> Link:
    """Return the link of the targets, which must hold for all of them and not just for those of the sample."""
    link, ends, settings = model._link(inputs), np.array(sample.targets_between), TargetSettings.of(model)
    if np.abs(ends).max() > LARGEST_TARGET:
        raise InvalidParameterError(
            f"y must be within ±{LARGEST_TARGET:g}; got targets between {ends[0]:g} and {ends[1]:g}: fit to targets in "
            "other units"
        )
    settings.check(ends)
    with np.errstate(all="ignore"):
        is_defined = bool(np.isfinite(link.forward(ends)).all())
    if is_defined and link.support[0] <= ends[0] and ends[1] <= link.support[1]:
        return link
    if model.target == "auto":
        return replace(settings, target="identity").link(inputs)
    raise InvalidParameterError(
        f"target={model.target!r} must be defined for all targets, which are between {ends[0]:g} and {ends[1]:g}; give "
        "bounds that hold, or use target='auto'"
    )


def _progress(settings: NetworkSettings, passes: int) -> AbstractContextManager[Any]:
    """Return the context in which a bar is shown, if the user asks for it."""
    return _bar(passes) if settings.verbose else nullcontext()


@contextmanager
def _bar(passes: int) -> Iterator[Callable[[float], None]]:
    with progress_bar() as progress:
        task = progress.add_task("training on chunks of rows", total=passes)
        yield lambda made: progress.update(task, advance=made)
