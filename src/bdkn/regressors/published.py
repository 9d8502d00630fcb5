"""The published method: networks trained on all rows, and a Bayesian linear model fitted to the same rows."""

from __future__ import annotations

import numpy as np

from bdkn.inference import published_combination
from bdkn.members import Design, Encoders, MemberScores, NetworkEnsemble, constant_variance
from bdkn.members.selection import CombinationSettings, sound_members
from bdkn.networks import Predictor
from bdkn.regressors.fitted import Combined, FittedBDKN, FittedNetworks
from bdkn.rows import Rows
from bdkn.stages import stage
from bdkn.training.settings import NetworkSettings
from bdkn.typing import IndexArray


def fit_published(
    settings: NetworkSettings,
    combining: CombinationSettings,
    rows: Rows,
    encoders: Encoders,
    root: np.random.SeedSequence,
) -> FittedBDKN:
    """Fit the published method: networks and linear model are fitted to the same rows."""
    networks, design = fit_all_rows(settings, rows, encoders, root)
    with stage("combine"):
        combination = published_combination(design.chunks(), combining.prior_variance)
    return FittedBDKN(networks, Combined(combination, encoders.targets), settings.size(len(rows)).n_members)


def fit_all_rows(
    settings: NetworkSettings, rows: Rows, encoders: Encoders, root: np.random.SeedSequence
) -> tuple[FittedNetworks, Design]:
    """Train every network on all rows; return those that did not diverge, and their design matrix."""
    H = settings.size(len(rows)).n_members
    own_variance = settings.trains_variance(len(rows))
    trained = settings.train(rows, root.spawn(H), range(H))
    sound, scores, design = sound_networks(trained.networks, rows, own_variance=own_variance)
    variances = None if own_variance else constant_variance(scores.mse)
    names = tuple(f"network {h + 1}" for h in sound)
    ensemble = NetworkEnsemble(names, design.networks, encoders.inputs, encoders.targets, variances)
    return FittedNetworks.of(ensemble, scores, trained[sound]), design


def sound_networks(networks: Predictor, rows: Rows, *, own_variance: bool) -> tuple[IndexArray, MemberScores, Design]:
    """Return the numbers of the networks that did not diverge, their scores on the training rows, and their design.

    A network diverged if a weight, or an output on any training row, is not finite, or so large that its square is not.
    """
    is_finite = networks.is_finite()
    finite = np.flatnonzero(is_finite)
    design = Design(networks[finite], rows)
    with stage("predict members"):
        scores = MemberScores.of(design.scored(), own_variance=own_variance)
    is_finite[finite] = scores.is_finite
    sound = sound_members(is_finite, [f"network {h + 1}" for h in range(len(networks))])
    places = np.searchsorted(finite, sound)
    return sound, scores[places], design[places]
