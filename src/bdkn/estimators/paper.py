"""The method as published: Algorithm 1 of the paper.

Step 1 trains networks on all rows, each by itself. Step 2 fits a Bayesian linear model to their means on the same rows,
the features Φ, in closed form: ``bdkn.inference.published_combination``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bdkn.data.folds import seed_sequence
from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer, fit_targets
from bdkn.data.training_data import TableReader, TrainingData, as_row_source
from bdkn.ensemble.networks import Design, NetworkEnsemble, NetworkMembers, on_device_of
from bdkn.ensemble.selection import CombinationOptions, MemberScores, constant_variance, finite_members
from bdkn.errors import InvalidParameterError
from bdkn.inference import published_combination
from bdkn.model.fitted import FittedModel
from bdkn.networks import NetworkSettings
from bdkn.networks.job import get_objective
from bdkn.networks.settings import Clock, within_limit
from bdkn.predictive.links import IDENTITY
from bdkn.stages import stage


def fit_published(params: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> FittedModel:
    """Fit the published method: networks and linear model are fitted to the same rows."""
    if params.target not in ("auto", "identity") or params.lower is not None or params.upper is not None:
        raise InvalidParameterError(
            "design='in-sample' is the published method, which predicts the target itself; got "
            f"target={params.target!r}, lower={params.lower}, upper={params.upper}: use another design, or none of them"
        )
    # Step 1: H networks are trained on all rows
    reader, members, design, H = train_on_all_rows(params, X, y, sample_weight, groups, combined=True)

    # Step 2, by equations of the paper: σ_β² by (10), posterior μₙ, Λₙ, aₙ, bₙ by (6) to (9); predictions by (5)
    options = params.combination or CombinationOptions()
    with stage("combine"):
        combination = published_combination(design.chunks(), options.prior_variance)
    return FittedModel(reader, members, members.ensemble.targets, combination, n_trained=H)


def train_on_all_rows(
    params: Any, X: Any, y: Any, sample_weight: Any, groups: Any = None, *, combined: bool
) -> tuple[TableReader, NetworkMembers, Design, int]:
    """Train all networks on all rows; return table reader, networks that did not diverge, outputs, number trained.

    A network diverged if a weight, an output for a training row, or the square of such an output is not finite.
    """
    clock = None if not combined or params.time_limit is None else Clock.start(params.time_limit)
    with stage("encode"):
        if combined and as_row_source(X, y, sample_weight, groups) is not None:
            raise InvalidParameterError(
                "rows in blocks are fitted by the predictions for held-out rows; got design='in-sample', which has "
                "none: use design='cross-fit' or 'hold-out'"
            )
        data = TrainingData.read(params, X, y, sample_weight, groups)
        reader, rows = data.reader, data.encoded
        inputs = Standardizer.fit(rows)
        targets = fit_targets(rows, IDENTITY, standardize_y=params.training is None or params.training.standardize_y)
        encoded = Rows(inputs.transform(rows.X), targets.transform(rows.y), rows.counts)

    seed, settings, n = seed_sequence(params.random_state), NetworkSettings.of(params), len(rows)
    n_members = settings.size(n).n_members
    settings.check_memory(n, rows.X.shape[1], n_members=n_members, fits=1, combined=combined)
    if clock is not None:
        settings = within_limit(settings, encoded, clock, n)
    H = settings.size(n).n_members
    names = [f"network {h + 1}" for h in range(H)]
    trained = settings.train(encoded, seed.spawn(H), range(H))
    is_finite = trained.networks.is_finite()

    # Networks that did not diverge
    candidates = np.flatnonzero(is_finite)
    design = Design(trained.networks[candidates], encoded)
    own_variance = get_objective(params.objective, settings.training.beta).trains_variance
    own_variance = own_variance and settings.training.warmup_epochs < settings.size(n).epochs
    with stage("predict members"), on_device_of(params.engine):
        scores = MemberScores.of(design.parts(), own_variance=own_variance)
    is_finite[candidates] = scores.is_finite
    finite = finite_members(is_finite, names)
    if len(finite) < H:
        places = np.searchsorted(candidates, finite)
        scores, design, trained = scores[places], design[places], trained[finite]
    variances = None if own_variance else constant_variance(scores.mse)
    ensemble = NetworkEnsemble(tuple(names[h] for h in finite), design.networks, inputs, targets, variances)
    epochs = np.array(trained.best_epochs)
    members = NetworkMembers(ensemble, scores, trained.loss_curves, trained.validation_curves, epochs)
    return reader, members, design, H
