"""Cross-fitting of networks, step by step; ``members.py`` does the same for other models, ``bdkn.py`` combines them.

The steps are the same for rows in memory, in blocks and on a cluster. If rows are read in blocks, only a sample is kept
in memory: it determines encodings, link, selection and density. All rows train the networks and enter the posterior.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bdkn.data.folds import N_FOLDS, FoldPlan, seed_sequence
from bdkn.data.rows import Rows
from bdkn.data.sample import CHUNK_ROWS, Sample
from bdkn.data.scaling import Standardizer, TargetScaler, fit_targets
from bdkn.data.training_data import MAX_TARGET, TableReader, TrainingData, as_row_source
from bdkn.ensemble.chunks import (
    ChunkStatistics,
    HeldOutStatistics,
    KnownInputs,
    RowEncoding,
)
from bdkn.ensemble.cluster import chunk_store
from bdkn.ensemble.estimators import EstimatorMembers
from bdkn.ensemble.networks import Candidates, NetworkMembers, fit_linear, needs_linear, network_numbers, on_device_of
from bdkn.ensemble.provenance import FitProvenance
from bdkn.ensemble.selection import HeldOut, finite_members
from bdkn.errors import InvalidParameterError
from bdkn.model.fitted import FittedModel
from bdkn.model.target_choice import TargetSettings
from bdkn.networks import NetworkSettings
from bdkn.networks.job import get_objective, progress_bar
from bdkn.networks.settings import Clock, within_limit
from bdkn.predictive.links import Link
from bdkn.stages import stage
from bdkn.typing import IndexArray


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Cross-fitted members and their held-out predictions, before they are selected and combined.

    ``finite`` are the numbers of the members that did not diverge, ``n_trained`` is the number of trained members.
    ``X`` is the table of the rows in memory that members receive; ``held_out_rows`` are the numbers of its held-out
    rows (None: all). Rows with the same number in ``sets`` belong together (None: no rows do). If not all rows are in
    memory, ``statistics_of_all_rows`` is a function that returns statistics of all held-out rows for a fitted model.
    """

    reader: TableReader
    members: NetworkMembers | EstimatorMembers
    finite: IndexArray
    held_out: HeldOut
    targets: TargetScaler
    provenance: FitProvenance
    n_trained: int
    X: Any
    held_out_rows: IndexArray | None
    sets: IndexArray | None
    statistics_of_all_rows: Callable[[FittedModel], HeldOutStatistics] | None = None


def cross_fit_networks(
    params: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: Any,
    files: ExitStack,
    former: FittedModel | None = None,
) -> CrossFit:
    """Train networks on cross-validation folds, and predict held-out rows; temporary files are closed with ``files``.

    With a ``former`` model, ``params.n_members`` includes its members, and only the others are trained.
    """
    clock = None if params.time_limit is None else Clock.start(params.time_limit)

    # Rows: all of them or, if they come from a row source, a sample
    source = as_row_source(X, y, sample_weight, groups)
    if source is None:
        known = None if former is None else former.reader
        data = TrainingData.read(params, X, y, sample_weight, groups, former=known)
    else:
        chunks = files.enter_context(chunk_store(source, CHUNK_ROWS))
        with stage("sample"):
            some = chunks.sample()
            data = TrainingData.read(params, some.rows.X, some.rows.y, some.rows.counts, sample=some)
    n_rows = len(data.used) if data.sample is None else data.sample.n
    reader, rows = data.reader, data.encoded

    # Number of members, and a check that there is enough memory
    settings = NetworkSettings.of(params)
    first, size = 0 if former is None else former.n_trained, settings.size(n_rows)
    n_fits = 1 if params.design == "hold-out" else N_FOLDS if params.cv is None else params.cv
    n_fits = n_fits if isinstance(n_fits, int) else 1  # the number of folds of a splitter is not known yet
    settings.check_memory(*rows.X.shape, n_members=size.n_members, fits=n_fits, combined=True)

    # Link and scales of the targets, scales of the inputs
    if former is None:
        with stage("choose link"):
            link = TargetSettings.of(params).link(rows)
            if data.sample is not None:
                link = _link_of_all_rows(params, link, rows, data.sample)
        with stage("encode"):
            targets = fit_targets(rows, link, standardize_y=settings.training.standardize_y)
            inputs = Standardizer.fit(rows)
    else:
        reader, targets, inputs = former.reader, former.targets, former.networks.ensemble.inputs
    scaled = Rows(inputs.transform(rows.X), targets.transform(rows.y), rows.counts)

    # Which network is trained on which rows, within the time limit
    digest = "blocks"  # rows in blocks have no hash to compare with later fits
    if source is None:
        digest = data.digest(None if params.design == "hold-out" else params.cv)
    provenance = None if former is None else former.provenance_to_add(params, scaled, digest)
    entropy = seed_sequence(params.random_state).entropy if provenance is None else provenance.entropy
    units = None if data.sample is None else data.sample.units
    plan = FoldPlan.of(params, data, entropy, range(first, size.n_members), units=units)
    if units is not None:
        settings = settings.with_params(epochs=size.epochs)  # "auto" depends on the number of all rows
    reduced = {}
    if clock is not None:
        limited = within_limit(settings, scaled, clock, plan.rows_per_member * n_rows / len(scaled))
        if limited is not settings:
            settings, reduced = limited, {"epochs": limited.params.epochs}
            size = settings.size(n_rows)
            plan = FoldPlan.of(params, data, entropy, range(first, size.n_members), units=units)

    # Training of all networks in one call, in memory or on chunks of all rows
    statistics_of_all_rows = None
    if data.sample is None or data.sample.is_complete:
        trained = settings.train(scaled, plan.seeds, plan.members, plan.rows)
    else:
        _check_trains_on_chunks(settings)
        encoding = RowEncoding(reader.encoder, reader.n_columns, inputs, targets, scaled.X.shape[1])
        with stage("write chunks"):
            chunks.write(data.sample, encoding, KnownInputs(data.sample.numbers, rows.X))
        passes = len(plan.names) * chunks.n_chunks * size.epochs
        with stage("train"), _bar(passes) if params.verbose else nullcontext() as on_pass:
            trained = chunks.train(settings, scaled, plan, data.sample.total / n_rows, on_pass)

        def statistics_of_all_rows(model: FittedModel) -> HeldOutStatistics:
            names, ensemble, H = model.members.names, model.networks.ensemble, len(plan.names)
            members = tuple(plan.names.index(name) for name in names)
            networks = trained.networks[network_numbers(members, H, len(trained.networks) // H - plan.refit)]
            tempering, slopes = model.combination.tempering, model.targets.log_derivative
            task = ChunkStatistics(names, members, networks, plan, tempering, ensemble.variances, slopes)
            return chunks.statistics(task)

    is_finite = trained.networks.is_finite()
    provenance = provenance or FitProvenance.of(params, entropy, scaled, digest)
    if reduced:
        provenance = replace(provenance, parameters={**provenance.parameters, **reduced})

    # Predictions for held-out rows, and the variances of the members
    adds_linear = needs_linear(*rows.X.shape) if isinstance(params.members, str) else "linear" in params.members
    with on_device_of(params.engine):
        candidates = Candidates.of(trained, is_finite, scaled, plan)
    if former is not None:
        earlier, all_finite = former.networks, np.ones(len(former.members), dtype=bool)
        candidates = Candidates(earlier.names, earlier.trained, all_finite, former.required_held_out()).join(candidates)
    elif adds_linear:
        if statistics_of_all_rows is not None:
            raise InvalidParameterError(
                f"a linear member is fitted to at most {CHUNK_ROWS} rows, those that are kept in memory; got "
                f"members={params.members!r} and {n_rows} rows: use members='networks'"
            )
        candidates = fit_linear(scaled, plan).join(candidates)
    own_variance = get_objective(params.objective, settings.training.beta).trains_variance
    own_variance = own_variance and settings.training.warmup_epochs < size.epochs  # warm-up trains means only
    members, held_out, is_finite = candidates.as_members(inputs, targets, own_variance=own_variance)
    return CrossFit(
        reader=reader,
        members=members,
        finite=finite_members(is_finite, candidates.names),
        held_out=held_out,
        targets=targets,
        provenance=provenance,
        n_trained=first + len(plan.names),
        X=rows.X,
        held_out_rows=plan.held_out,
        sets=data.sets,
        statistics_of_all_rows=statistics_of_all_rows,
    )


def _link_of_all_rows(params: Any, link: Link, rows: Rows, sample: Sample) -> Link:
    """Return the link that was chosen on the sample; if it is not defined for all rows, the identity or an error."""
    settings, ends = TargetSettings.of(params), np.array(sample.targets_between)
    if np.abs(ends).max() > MAX_TARGET:
        raise InvalidParameterError(
            f"y must be within ±{MAX_TARGET:g}; got targets between {ends[0]:g} and {ends[1]:g}: fit to targets in "
            "other units"
        )
    settings.check(ends)
    with np.errstate(all="ignore"):
        is_defined = bool(np.isfinite(link.forward(ends)).all())
    if is_defined and link.support[0] <= ends[0] and ends[1] <= link.support[1]:
        return link
    if params.target == "auto":
        return replace(settings, target="identity").link(rows)
    raise InvalidParameterError(
        f"target={params.target!r} must be defined for all targets, which are between {ends[0]:g} and {ends[1]:g}; "
        "give bounds that hold, or use target='auto'"
    )


def _check_trains_on_chunks(settings: NetworkSettings) -> None:
    """Raise if networks with these settings cannot be trained on chunks."""
    if settings.training.early_stopping:
        raise InvalidParameterError("rows in blocks are trained on without early stopping; got early_stopping=True")
    if settings.params.engine not in ("fused", "auto"):
        raise InvalidParameterError(
            f"rows in blocks are trained on by the engine 'fused', on the CPU; got engine={settings.params.engine!r}; "
            "leave it out, or fit to rows in memory"
        )


@contextmanager
def _bar(passes: int) -> Iterator[Callable[[float], None]]:
    with progress_bar() as progress:
        task = progress.add_task("training on chunks of rows", total=passes)
        yield lambda made: progress.update(task, advance=made)
