"""Networks trained on all rows; on them the published method, a Bayesian linear model fitted to the training rows."""

from __future__ import annotations

import numpy as np

from bdkn.inference import plain_combination
from bdkn.members import Design, EncodedRows, MemberScores, NetworkEnsemble, constant_variance
from bdkn.regressors.fitted import Combined, FittedBDKN, FittedNetworks
from bdkn.regressors.network_settings import NetworkSettings
from bdkn.regressors.selection import sound_members
from bdkn.stages import stage
from bdkn.typing import IndexArray


def fit_published(
    settings: NetworkSettings, prior_variance: str | float, encoded: EncodedRows, root: np.random.SeedSequence
) -> FittedBDKN:
    """Fit the method of the paper: networks and linear model see the same rows."""
    networks, design = fit_all_rows(settings, encoded, root)
    with stage("combine"):
        combination = plain_combination(design.chunks(), prior_variance)
    return FittedBDKN(networks, Combined(combination, encoded.targets), settings.size(len(encoded.rows)).n_members)


def fit_all_rows(
    settings: NetworkSettings, encoded: EncodedRows, root: np.random.SeedSequence
) -> tuple[FittedNetworks, Design]:
    """Train every network on all rows; return those that did not diverge, and their design matrix.

    A network diverged if a weight, or an output on any training row, is not finite, or so large that its square is not.
    """
    rows = encoded.rows
    H = settings.size(len(rows)).n_members
    trained = settings.train(settings.jobs(rows, root.spawn(H), range(H)), rows)
    own_variance = settings.has_variance(trained)
    is_finite = trained.networks.is_finite()
    finite = np.flatnonzero(is_finite)
    design = Design(trained.networks[finite], rows)
    scores = MemberScores.of(design.scored(), own_variance=own_variance)
    names = tuple(f"network {h + 1}" for h in range(H))
    sound = sound_members(_spread_out(scores, finite, H), is_finite, names)
    places = np.searchsorted(finite, sound)
    design, scores = design[places], scores[places]
    variances = None if own_variance else constant_variance(scores.mse)
    chosen = tuple(names[h] for h in sound)
    ensemble = NetworkEnsemble(chosen, design.networks, encoded.inputs, encoded.targets, variances)
    return FittedNetworks.of(ensemble, scores, trained[sound]), design


def _spread_out(scores: MemberScores, numbers: IndexArray, H: int) -> MemberScores:
    """Return the scores of some of H networks at their numbers, nan at all others."""
    found = np.full((2, H), np.nan)
    if len(numbers):
        found[:, numbers] = scores.mse, scores.nll
    return MemberScores(*found)
