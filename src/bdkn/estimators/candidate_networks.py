"""Networks as candidates of an ensemble: trained on folds, selected and combined."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from bdkn.data.folds import FoldPlan
from bdkn.data.rows import Rows
from bdkn.data.scaling import Encoders
from bdkn.ensemble.cross_fitting import Candidates, predict_held_out, train_folds
from bdkn.ensemble.held_out import HeldOut, constant_variance
from bdkn.ensemble.networks import NetworkEnsemble
from bdkn.ensemble.provenance import FitProvenance
from bdkn.ensemble.selection import CombinationSettings, sound_members
from bdkn.errors import warn_user
from bdkn.estimators.completion import combine_members
from bdkn.estimators.fitted import FittedBDKN, FittedNetworks
from bdkn.networks import NetworkSettings
from bdkn.networks.settings import Clock


def within_limit(settings: NetworkSettings, rows: Rows, clock: Clock, rows_per_member: float) -> NetworkSettings:
    """Return the settings, with fewer members or epochs if there is no time for all; warn if so."""
    if clock.seconds == inf:
        return settings
    limited = settings.within(clock, rows, rows_per_member)
    if limited is not settings:
        wanted, size = settings.size(len(rows)), limited.size(len(rows))
        warn_user(
            f"time_limit={clock.seconds:g}: {size.n_members} of {wanted.n_members} members are trained, for "
            f"{size.epochs} of {wanted.epochs} epochs; results depend on the machine's speed",
            UserWarning,
        )
    return limited


def train_candidates(settings: NetworkSettings, rows: Rows, plan: FoldPlan) -> Candidates:
    """Train the networks of a plan, and return them with their held-out predictions."""
    networks = train_folds(settings, rows, plan)
    held_out = predict_held_out(networks, rows, plan)
    return Candidates(plan.names, networks.used, networks.is_finite, held_out, networks.own_variance)


def candidates_in_use(networks: FittedNetworks, held_out: HeldOut) -> Candidates:
    """Return the networks in use as candidates of another selection."""
    ensemble = networks.ensemble
    is_finite = np.ones(len(ensemble), dtype=bool)
    return Candidates(ensemble.names, networks.networks, is_finite, held_out, ensemble.variances is None)


def combine_candidates(
    candidates: Candidates, encoders: Encoders, provenance: FitProvenance, settings: CombinationSettings
) -> FittedBDKN:
    """Return the state with those candidates that did not diverge and are best together, combined."""
    names, held_out, own_variance = candidates.names, candidates.held_out, candidates.own_variance
    scores = held_out.scores(own_variance=own_variance)
    constant = constant_variance(scores.mse)
    if not own_variance:
        held_out = replace(held_out, variances=np.broadcast_to(constant, held_out.means.shape))
    sound = sound_members(candidates.is_finite & scores.is_finite, names)
    members, combined = combine_members(held_out, sound, settings, encoders.targets, provenance)
    trained = candidates.networks[members].trained
    ensemble = NetworkEnsemble(
        names=tuple(names[h] for h in members),
        networks=trained.networks,
        inputs=encoders.inputs,
        targets=encoders.targets,
        variances=None if own_variance else constant[members],
    )
    return FittedBDKN(FittedNetworks.of(ensemble, scores[members], trained), combined, n_trained=len(names))
