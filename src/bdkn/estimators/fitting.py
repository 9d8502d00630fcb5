"""A fit, step by step: networks, or estimators of any kind, are cross-fitted, then selected and combined.

Rows in memory, in blocks and on a cluster take the same steps: of rows in blocks a sample is in memory, by which encodings,
link, selection and density are learned, while all rows train the networks and enter the posterior of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from bdkn.data.folds import FoldPlan
from bdkn.data.rows import Rows, RowSource
from bdkn.data.sample import CHUNK_ROWS
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.data.table_reader import TableReader
from bdkn.data.training_data import TrainingData, fit_targets
from bdkn.data.training_rows import LARGEST_TARGET
from bdkn.ensemble.chunks import (
    HeldOutStatistics,
    KnownInputs,
    RowEncoding,
    RowPlace,
    Summary,
    ThisMachine,
)
from bdkn.ensemble.cluster import cluster_of
from bdkn.ensemble.cross_fitting import Candidates, FoldNetworks, fold_networks, predict_held_out, train_folds
from bdkn.ensemble.estimator_fitting import FoldFitter, calibrate, make_folds, take_parameters
from bdkn.ensemble.estimators import EstimatorMembers
from bdkn.ensemble.held_out import HeldOut, constant_variance
from bdkn.ensemble.linear import fit_linear, needs_linear
from bdkn.ensemble.networks import NetworkEnsemble, NetworkMembers
from bdkn.ensemble.provenance import FitProvenance, plain_parameter
from bdkn.ensemble.selection import CombinationOptions, finite_members
from bdkn.errors import InvalidParameterError
from bdkn.estimators.defaults import default_estimators, slowest_last
from bdkn.estimators.named_estimators import check_refitted, fixed_member, in_use, route_parameters
from bdkn.model.fitted import FittedModel
from bdkn.model.target_choice import TargetSettings
from bdkn.networks import NetworkSettings
from bdkn.networks.job import progress_bar
from bdkn.networks.settings import Clock, within_limit
from bdkn.predictive.links import Link
from bdkn.stages import stage
from bdkn.typing import IndexArray

_NOT_FINITE = "predictions for held-out rows are not finite; look at what it predicts, or drop it"


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Cross-fitted members and their held-out predictions, before they are selected and combined.

    ``finite`` are the numbers of the members that did not diverge. ``X`` is the table of the rows in memory as members
    see it; ``numbers`` are those of its rows that are held out (None: all), ``sets`` those of the sets of held-out rows
    that belong together (None: each row is one). ``all_rows`` returns the statistics of all held-out rows for a model,
    where not all rows are in memory.
    """

    reader: TableReader
    members: NetworkMembers | EstimatorMembers
    finite: IndexArray
    held_out: HeldOut
    targets: TargetScaler
    provenance: FitProvenance
    n_trained: int
    X: Any
    numbers: IndexArray | None
    sets: IndexArray | None
    all_rows: Callable[[FittedModel], HeldOutStatistics] | None = None


def combine(found: CrossFit, params: Any) -> FittedModel:
    """Return the model of cross-fitted members: selected, combined, and what is learned from their combination."""
    options = CombinationOptions.of(params)
    model = FittedModel.combine(
        found.reader,
        found.members,
        found.finite,
        found.held_out,
        found.targets,
        options,
        found.provenance,
        n_trained=found.n_trained,
        n_jobs=params.n_jobs,
    )
    model = model.with_extrapolation(found.X, found.numbers)
    if params.density == "auto" and params.design == "cross-fit":
        model = model.with_density(found.X, found.numbers, found.sets, params.n_jobs)
    if found.all_rows is not None:
        with stage("predict held-out rows"):
            model = model.with_all_rows(found.all_rows(model), options.prior_variance)
    return model


# Networks


def read_rows(
    params: Any, source: RowSource | None, X: Any, y: Any, sample_weight: Any, groups: Any
) -> tuple[TrainingData, RowPlace | None]:
    """Return the rows of a fit of networks, and where the others are if those are a sample."""
    if source is None:
        data = TrainingData.read(params, X, y, sample_weight, groups)
        return data.by_cv(params.cv) if params.design == "cross-fit" else data, None
    if params.design == "in-sample":
        raise InvalidParameterError(
            "rows in blocks are fitted by what networks predict for rows left out; got design='in-sample', which "
            "leaves out none: use design='cross-fit' or 'hold-out'"
        )
    place: RowPlace = cluster_of(source, CHUNK_ROWS) or ThisMachine(source, CHUNK_ROWS)
    with stage("sample"):
        return TrainingData.of_sample(params, place.sample()), place


def cross_fit_networks(
    params: Any,
    data: TrainingData,
    place: RowPlace | None,
    files: ExitStack,
    former: FittedModel | None = None,
) -> CrossFit:
    """Train networks on folds of the rows, and predict held-out rows; files of rows in blocks are left to ``files``.

    With a ``former`` model, ``params.n_members`` includes its members, and only the others are trained.
    """
    settings, clock = NetworkSettings.of(params), Clock.start(params.time_limit or inf)
    first, size = 0 if former is None else former.n_trained, settings.size(data.n)
    reader, rows = data.encoded()
    _check_memory(settings, params, rows, size.n_members)

    # Link, scales and provenance, from the rows in memory
    if former is None:
        with stage("choose link"):
            link = _link(params, rows, data)
        with stage("encode"):
            targets = fit_targets(rows, link, standardize_y=settings.training.standardize_y)
            inputs = Standardizer.fit(rows)
    else:
        reader, targets, inputs = former.reader, former.targets, former.members.ensemble.inputs
    encoded = Rows(inputs.transform(rows.X), targets.transform(rows.y), rows.counts)
    folds = data.splitting.digest(None if params.design == "hold-out" else params.cv)
    provenance = _provenance(params, encoded, folds if data.sample is None else "rows in blocks", former)

    # Which network is trained on which rows, within the time limit
    if data.sample is not None:
        settings = settings.with_params(epochs=size.epochs)
    plan = _plan(params, data, provenance, range(first, size.n_members))
    limited = within_limit(settings, encoded, clock, plan.rows_per_member * data.n / len(encoded))
    if limited is not settings:
        settings, provenance = limited, provenance.with_parameters(epochs=limited.params.epochs)
        plan = _plan(params, data, provenance, range(first, settings.size(data.n).n_members))
    n_trained = first + len(plan.names)

    # Training, and predictions for held-out rows
    own_variance, all_rows = settings.trains_variance(data.n), None
    if data.is_complete or place is None or data.sample is None:
        networks = train_folds(settings, encoded, plan)
    else:
        _check_trains_on_chunks(settings)
        encoding = RowEncoding(reader.encoder, reader.n_columns, inputs, targets, encoded.X.shape[1])
        with stage("write chunks"):
            known = KnownInputs(data.sample.numbers, rows.X)
            chunks = files.enter_context(place.chunks(data.sample, encoding, known))
        with stage("train"), _progress(params.verbose, len(plan.names) * len(chunks) * size.epochs) as on_pass:
            trained = chunks.train(settings, encoded, plan, data.sample.total / data.n, on_pass)
        networks = fold_networks(trained, plan, own_variance=own_variance)

        def all_rows(model: FittedModel) -> HeldOutStatistics:
            return chunks.statistics(_summary(model, networks, plan))

    held_out = predict_held_out(networks, encoded, plan)
    candidates = Candidates(plan.names, networks.used, networks.is_finite, held_out, own_variance)
    if former is not None:
        candidates = Candidates.in_use(former.members, former.required_held_out()).join(candidates)
    elif _has_linear_member(params, data, rows):
        candidates = fit_linear(encoded, plan, own_variance=own_variance).join(candidates)

    # Members, with the variance that is used for each
    held_out, scores = candidates.held_out, candidates.held_out.scores(own_variance=own_variance)
    constant = None if own_variance else constant_variance(scores.mse)
    if constant is not None:
        held_out = replace(held_out, variances=np.broadcast_to(constant, held_out.means.shape))
    trained = candidates.networks.trained
    ensemble = NetworkEnsemble(candidates.names, trained.networks, inputs, targets, constant)
    members = NetworkMembers.of(ensemble, scores, trained, str(plain_parameter(params, "engine")))
    finite = finite_members(candidates.is_finite & scores.is_finite, candidates.names)
    return CrossFit(
        reader,
        members,
        finite,
        held_out,
        targets,
        provenance,
        n_trained,
        rows.X,
        plan.held_out,
        data.sets_of(plan.held_out),
        all_rows,
    )


def _check_memory(settings: NetworkSettings, params: Any, rows: Rows, n_members: int) -> None:
    """Raise if the members need more memory than there is."""
    fits = 1
    if params.design == "cross-fit":
        fits = 5 if params.cv is None else params.cv if isinstance(params.cv, int) else 1
    combined = params.design != "in-sample"
    settings.check_memory(len(rows), rows.X.shape[1], n_members=n_members, fits=fits, combined=combined)


def _link(params: Any, rows: Rows, data: TrainingData) -> Link:
    """Return the link of the targets, which must hold for all rows and not just for those in memory."""
    settings = TargetSettings.of(params)
    link = settings.link(rows)
    if data.sample is None:
        return link
    ends = np.array(data.sample.targets_between)
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
    if params.target == "auto":
        return replace(settings, target="identity").link(rows)
    raise InvalidParameterError(
        f"target={params.target!r} must be defined for all targets, which are between {ends[0]:g} and {ends[1]:g}; "
        "give bounds that hold, or use target='auto'"
    )


def _provenance(params: Any, rows: Rows, folds: str, former: FittedModel | None) -> FitProvenance:
    """Return where the members come from; raise if new members could not join those of a former model."""
    if former is None:
        return FitProvenance.of(params, rows, folds)
    former.required_held_out()
    former.check_not_updated("added")
    assert former.provenance is not None, "a model with held-out rows has a provenance"
    former.provenance.check_same(params, rows, folds)
    return former.provenance


def _plan(params: Any, data: TrainingData, provenance: FitProvenance, members: range) -> FoldPlan:
    if data.sample is None:
        return FoldPlan.of(params, data.splitting, provenance.entropy, members)
    return FoldPlan.of_numbers(params, data.sample.units, provenance.entropy, members)


def _check_trains_on_chunks(settings: NetworkSettings) -> None:
    """Raise if networks with these settings cannot be trained on chunks."""
    if settings.training.early_stopping:
        raise InvalidParameterError("rows in blocks are trained on without early stopping; got early_stopping=True")
    if settings.params.engine not in ("fused", "auto"):
        raise InvalidParameterError(
            f"rows in blocks are trained on by the engine 'fused', on the CPU; got engine={settings.params.engine!r}; "
            "leave it out, or fit to rows in memory"
        )


def _has_linear_member(params: Any, data: TrainingData, rows: Rows) -> bool:
    """Return whether a linear member is among the candidates."""
    if isinstance(params.members, str):
        wide = needs_linear(*rows.X.shape)
    else:
        wide = "linear" in params.members
    if wide and not data.is_complete:
        raise InvalidParameterError(
            f"a linear member is fitted to at most {CHUNK_ROWS} rows, those that are kept in memory; got "
            f"members={params.members!r} and {data.n} rows: use members='networks'"
        )
    return wide


def _summary(model: FittedModel, networks: FoldNetworks, plan: FoldPlan) -> Summary:
    """Return how chunks are summarized for the members in use."""
    ensemble = model.members.ensemble
    members = [plan.names.index(name) for name in ensemble.names]
    chosen = FoldNetworks(
        networks.crossed[members], networks.used[members], networks.is_finite[members], networks.own_variance
    )
    tempering, slopes = model.combination.tempering, model.targets.log_derivative
    return Summary(ensemble.names, tuple(members), chosen, plan, tempering, ensemble.variances, slopes)


def _progress(verbose: int, passes: int) -> AbstractContextManager[Any]:
    """Return the context in which a bar is shown, if the user asks for it."""
    return _bar(passes) if verbose else nullcontext()


@contextmanager
def _bar(passes: int) -> Iterator[Callable[[float], None]]:
    with progress_bar() as progress:
        task = progress.add_task("training on chunks of rows", total=passes)
        yield lambda made: progress.update(task, advance=made)


# Estimators of any kind


def cross_fit_estimators(
    params: Any, data: TrainingData, groups: Any, metadata: Mapping[str, Any], former: FittedModel | None = None
) -> CrossFit:
    """Fit estimators to folds of the rows, and predict held-out rows.

    With a ``former`` model, ``params.members`` includes its members, and only the others are fitted.
    """
    clock, given = Clock.start(params.time_limit or inf), data.splitting.rows
    pairs = in_use(params.members)
    provenance = _provenance(params, given, data.splitting.digest(), former)
    if former is not None:
        pairs = [pair for pair in pairs if pair[0] not in dict(former.members.candidates)]
    routed = route_parameters(params, pairs, given.counts, groups, metadata)
    if former is None:
        folds = make_folds(params, data.splitting, routed, provenance.seed)
    else:
        folds = former.members.folds
    data = data.by_folds(folds, params.cv)
    reader, rows = data.encoded()
    candidates = params.members
    if not isinstance(candidates, list):
        weighted = given.counts is not None
        candidates = default_estimators(len(rows), rows.X.shape[1], weighted=weighted, effort=params.effort)
        pairs = slowest_last(candidates) if clock.seconds < inf else candidates
        routed = route_parameters(params, pairs, given.counts, groups, metadata)
    if len(rows) < len(given):
        routed = take_parameters(routed, data.splitting.used, len(given))

    # Link and scale of the targets
    if former is None:
        with stage("choose link"):
            settings = TargetSettings.of(params)
            if settings.target == "auto" and fixed_member(pairs, params.cv):
                settings = replace(settings, target="identity")
            targets = fit_targets(rows, settings.link(rows), standardize_y=True)
    else:
        reader, targets = former.reader, former.targets
    check_refitted(pairs, params.cv, targets.link)
    rows = replace(rows, y=targets.link.forward(rows.y))

    # Fits, and predictions for held-out rows
    with stage("train"):
        refit, prefit = params.predict_with == "refit" or folds.trains_on_few, isinstance(params.cv, str)
        fitter = FoldFitter(rows, routed, folds, provenance.seed, prefit=prefit, refit=refit)
        fits = fitter.fit(pairs, clock, n_jobs=params.n_jobs, verbose=params.verbose)
    members, held_out = calibrate(fits, rows, folds, targets, candidates)
    if former is not None:
        members = replace(members, members=(*former.members.members, *members.members))
        held_out = former.required_held_out().join(held_out)
    finite = finite_members(held_out.filled().scores().is_finite, members.names, _NOT_FINITE)
    return CrossFit(
        reader,
        members,
        finite,
        held_out,
        targets,
        provenance,
        len(members),
        rows.X,
        folds.held_out,
        data.sets_of(folds.held_out),
    )
