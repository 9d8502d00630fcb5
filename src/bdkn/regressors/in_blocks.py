"""Fits to rows in blocks, of which a sample and one chunk at a time are in memory; see ``bdkn.blocks``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from bdkn.blocks import (
    BlockPlan,
    ChunkFile,
    Sample,
    Summary,
    counted_blocks,
    draw_sample,
    statistics_of_chunks,
    train_on_chunks,
)
from bdkn.blocks.chunks import Encoded, chunk_sizes, consecutive_numbers, number_of_chunks, write_chunks
from bdkn.blocks.numbering import CHUNK_ROWS, Numbers, group_numbers
from bdkn.blocks.training import check_trains_on_chunks
from bdkn.errors import InvalidParameterError
from bdkn.inference import Absorbed, Statistics
from bdkn.members import (
    Candidates,
    CombinationSettings,
    Encoders,
    FitProvenance,
    FoldNetworks,
    FoldPlan,
    Splitting,
    encode,
    fit_linear,
    fold_networks,
    predict_held_out,
    train_folds,
)
from bdkn.members.target_choice import TargetSettings
from bdkn.predictive.links import Link
from bdkn.regressors.candidate_networks import combine_candidates, within_limit
from bdkn.regressors.fitted import FittedBDKN
from bdkn.regressors.training_rows import check_size
from bdkn.rows import Rows, RowSource
from bdkn.stages import stage
from bdkn.training import NetworkSettings
from bdkn.training.effort import Clock
from bdkn.training.progress_bar import progress_bar
from bdkn.typing import FloatArray

if TYPE_CHECKING:
    from bdkn.regressors.bdkn import BDKNRegressor


def fit_in_blocks(model: BDKNRegressor, source: RowSource) -> FittedBDKN:
    """Return the state of a regressor that is fitted to the rows of a source.

    If the sample consists of all rows, it is the state of a fit in memory with the folds of ``RowNumberFolds``.
    """
    clock = Clock.start(model.time_limit or inf)
    settings = model._settings()
    _check_design(model)
    with stage("sample"):
        sample = draw_sample(source)
    fit = _Fit.prepare(model, settings, sample, clock)
    if sample.is_complete:
        return fit.state(train_folds(fit.settings, fit.encoded, fit.in_memory))
    check_trains_on_chunks(settings)
    with fit.chunks(source) as chunks:
        networks = fit.train(chunks)
        fitted = fit.state(networks)
        with stage("predict held-out rows"):
            return fit.with_all_rows(fitted, networks, chunks)


@dataclass(frozen=True, eq=False)
class _Fit:
    """A fit of which the sample has been read: its encoded rows, encoders and plan.

    ``inputs`` are the rows of the sample as encoders see them, with columns of numbers only.
    """

    model: BDKNRegressor
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
    def prepare(cls, model: BDKNRegressor, settings: NetworkSettings, sample: Sample, clock: Clock) -> _Fit:
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

    def chunks(self, source: RowSource) -> ChunkFile:
        """Return a file with all rows, encoded."""
        n_chunks = number_of_chunks(self.sample.n, CHUNK_ROWS)
        sizes = chunk_sizes(consecutive_numbers(self.sample.n_read), n_chunks)
        weighted, n_inputs = self.encoded.counts is not None, self.encoded.X.shape[1]
        with stage("write chunks"):
            return write_chunks(self._encoded_blocks(source), sizes, n_inputs, weighted=weighted)

    def _encoded_blocks(self, source: RowSource) -> Iterator[Encoded]:
        read = 0
        for numbers, rows in counted_blocks(source):
            units = numbers if rows.groups is None else group_numbers(rows.groups)
            yield numbers, units, self._encode(numbers, rows)
            read += len(rows)
        if read != self.sample.n:
            raise InvalidParameterError(
                f"a row source must have the same rows in every pass; got {self.sample.n} rows that count in the first "
                f"pass and {read} in the second"
            )

    def _encode(self, numbers: Numbers, rows: Rows) -> Rows:
        """Return rows as networks see them; those of the sample with the inputs that were learned for them."""
        X = _inputs(self.model, rows.X)
        place = np.searchsorted(self.sample.numbers, numbers)
        known = self.sample.numbers[np.minimum(place, len(self.sample.numbers) - 1)] == numbers
        X[known] = self.inputs.X[place[known]]
        check_size(rows.y)
        return self.encoders.transform(Rows(X, rows.y, rows.counts))

    def train(self, chunks: ChunkFile) -> FoldNetworks:
        """Return the networks, trained on all chunks."""
        mean_count = self.sample.total / self.sample.n
        plan = self.plan.on_chunks(mean_count)
        passes = len(plan.members) * len(chunks) * self.settings.size(self.sample.n).epochs
        with stage("train"), _progress(self.settings, passes) as on_pass:
            trained = train_on_chunks(self.settings, self.encoded, plan, chunks, on_pass)
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

    def with_all_rows(self, fitted: FittedBDKN, networks: FoldNetworks, chunks: ChunkFile) -> FittedBDKN:
        """Return the state with the posterior of all rows that were left out once, in place of those of the sample."""
        summary = self.summary(fitted, networks)
        left_out = statistics_of_chunks(summary, chunks)
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


def _check_design(model: BDKNRegressor) -> None:
    if model.design == "in-sample":
        raise InvalidParameterError(
            "rows in blocks are fitted by what networks predict for rows left out; got design='in-sample', which "
            "leaves out none: use design='cross-fit' or 'hold-out'"
        )


def _link(model: BDKNRegressor, inputs: Rows, sample: Sample) -> Link:
    """Return the link of the targets, which must hold for all of them and not just for those of the sample."""
    link, ends, settings = model._link(inputs), np.array(sample.targets_between), TargetSettings.of(model)
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


def _inputs(model: BDKNRegressor, X: Any) -> FloatArray:
    """Return the columns of a block as numbers."""
    if model.table_ is not None:
        return model.table_.transform(X)
    table = np.array(X, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != model.n_features_in_:
        raise InvalidParameterError(
            f"every block must have {model.n_features_in_} columns, as the first one; got shape {table.shape}"
        )
    if not np.isfinite(table).all():
        raise InvalidParameterError("rows must be finite; a block holds NaN or infinity: drop or impute such rows")
    return table


def _progress(settings: NetworkSettings, passes: int) -> AbstractContextManager[Any]:
    """Return the context in which a bar is shown, if the user asks for it."""
    return _bar(passes) if settings.verbose else nullcontext()


@contextmanager
def _bar(passes: int) -> Iterator[Callable[[int, object], None]]:
    with progress_bar() as progress:
        task = progress.add_task("training on chunks of rows", total=passes)
        yield lambda member, state: progress.update(task, advance=1)
