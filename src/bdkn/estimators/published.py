"""The published method: networks trained on all rows, and a Bayesian linear model fitted to the same rows."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from bdkn.data.rows import Rows
from bdkn.data.scaling import Encoders
from bdkn.ensemble.held_out import MemberScores, constant_variance
from bdkn.ensemble.networks import Design, NetworkEnsemble
from bdkn.ensemble.selection import CombinationSettings, sound_members
from bdkn.errors import InvalidParameterError, check_choice
from bdkn.estimators.fitted import Combined, FittedBDKN, FittedNetworks
from bdkn.inference import published_combination
from bdkn.networks import Predictor
from bdkn.networks.settings import NetworkSettings
from bdkn.stages import stage
from bdkn.typing import IndexArray

SETTINGS = MappingProxyType({1: {"learning_rate": 0.1, "epochs": 40}, 2: {"learning_rate": 1e-3, "epochs": 500}})
"""The parameters in which the two settings differ."""

SHARED = MappingProxyType(
    {
        "n_members": 5,
        "hidden_layer_sizes": (50, 50),
        "activation": "relu",
        "objective": "nll",
        "warmup_epochs": 0,
        "schedule": "constant",
        "batch_size": 32,
        "weight_decay": 0.0,
        "n_bins": 0,
        "early_stopping": False,
        "standardize_y": False,
    }
)
"""The parameters that both settings share; the optimiser is Adam, as everywhere in this library."""


def paper_parameters(setting: int, dataset: str | None = None) -> dict[str, Any]:
    """Return the parameters of BDKN and the deep ensemble in a setting; they are the same for every data set."""
    if dataset is not None:
        check_choice("dataset", dataset.removesuffix("-clean"), SETS)
    if not isinstance(setting, int) or setting not in SETTINGS:
        raise InvalidParameterError(
            f"setting must be 1 (rate 0.1, 40 epochs) or 2 (rate 0.001, 500 epochs); got {setting!r}"
        )
    return {**SHARED, **SETTINGS[setting]}


SETS = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "sarcos", "song", "wine", "yacht")


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
