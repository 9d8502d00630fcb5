"""The method as published: Algorithm 1 of the paper, and the parameters of its experiments.

Networks are trained on all rows; their means on the same rows are the features Φ of a Bayesian linear model, which
``bdkn.inference.published_combination`` fits in closed form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bdkn.data.folds import seed_sequence
from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer, TargetScaler, fit_targets
from bdkn.data.training_data import TrainingData, as_row_source
from bdkn.ensemble.networks import Design, NetworkEnsemble, NetworkMembers, members_of, on_device_of
from bdkn.ensemble.selection import CombinationOptions, MemberScores, constant_variance, finite_members
from bdkn.errors import InvalidParameterError
from bdkn.inference import published_combination
from bdkn.model.fitted import FittedModel
from bdkn.model.target_choice import TargetSettings
from bdkn.networks import NetworkSettings
from bdkn.networks.settings import Clock, within_limit
from bdkn.predictive.links import IDENTITY
from bdkn.stages import stage


def fit_published(params: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> FittedModel:
    """Fit the published method: networks and linear model are fitted to the same rows."""
    if as_row_source(X, y, sample_weight, groups) is not None:
        raise InvalidParameterError(
            "rows in blocks are fitted by what networks predict for rows left out; got design='in-sample', which "
            "leaves out none: use design='cross-fit' or 'hold-out'"
        )
    target = TargetSettings.of(params)
    if not target.is_plain:
        raise InvalidParameterError(
            "design='in-sample' is the published method, which predicts the target itself; got "
            f"target={params.target!r}, lower={params.lower}, upper={params.upper}: use another design, or none of them"
        )
    data = TrainingData.read(params, X, y, sample_weight, groups)
    members, design, targets, n_trained = train_on_all_rows(params, data.encoded, combined=True)
    with stage("combine"):
        combination = published_combination(design.chunks(), CombinationOptions.of(params).prior_variance)
    return FittedModel(data.reader, members, targets, combination, n_trained=n_trained)


def train_on_all_rows(params: Any, rows: Rows, *, combined: bool) -> tuple[NetworkMembers, Design, TargetScaler, int]:
    """Train every network on all rows; return those that did not diverge, their outputs, and the scale of targets.

    The last one is the number of networks that were trained.

    A network diverged if a weight, or an output on any training row, is not finite, or its square is not.
    """
    settings, clock = NetworkSettings.of(params), Clock.start(getattr(params, "time_limit", None) or np.inf)
    size = settings.size(len(rows))
    settings.check_memory(len(rows), rows.X.shape[1], n_members=size.n_members, fits=1, combined=combined)
    with stage("encode"):
        targets = fit_targets(rows, IDENTITY, standardize_y=settings.training.standardize_y)
        inputs = Standardizer.fit(rows)
        encoded = Rows(inputs.transform(rows.X), targets.transform(rows.y), rows.counts)
    if getattr(params, "time_limit", None) is not None:
        settings = within_limit(settings, encoded, clock, len(rows))

    H, own_variance = settings.size(len(rows)).n_members, settings.trains_variance(len(rows))
    trained = settings.train(encoded, seed_sequence(params.random_state).spawn(H), range(H))

    is_finite = trained.networks.is_finite()
    candidates = np.flatnonzero(is_finite)
    design = Design(trained.networks[candidates], encoded)
    with stage("predict members"), on_device_of(params.engine):
        scores = MemberScores.of(design.scored(), own_variance=own_variance)
    is_finite[candidates] = scores.is_finite
    finite = finite_members(is_finite, [f"network {h + 1}" for h in range(H)])
    places = np.searchsorted(candidates, finite)
    scores, design = scores[places], design[places]

    variances = None if own_variance else constant_variance(scores.mse)
    names = tuple(f"network {h + 1}" for h in finite)
    ensemble = NetworkEnsemble(names, design.networks, inputs, targets, variances)
    return members_of(ensemble, scores, trained[finite]), design, targets, H
