"""Schemas of the fitted states of ensembles and stacks."""

from __future__ import annotations

from bdkn.blocks import LeftOut
from bdkn.inference import Absorbed, Combination, Statistics
from bdkn.members import (
    EstimatorMember,
    Folds,
    HeldOut,
    MemberScores,
    NetworkEnsemble,
    OwnFolds,
    TargetScaler,
    Widening,
)
from bdkn.members.density import NeighbourDensity
from bdkn.members.provenance import FitProvenance
from bdkn.members.row_memory import RowMemory
from bdkn.members.value_model import ValueModel
from bdkn.persistence.schema import Array, Items, Maybe, Number, Part, Schema, Text, integers, must
from bdkn.regressors.file_schemas.inference import members_of, weights_of
from bdkn.regressors.file_schemas.saved import ESTIMATORS
from bdkn.regressors.fitted import Combined, FittedBDKN, FittedNetworks, FittedStack
from bdkn.regressors.update_state import Updates


def columns_of(combined: Combined) -> set[int]:
    """Return the numbers of columns that parts of a combination expect; empty if they take any."""
    found = set()
    if combined.widening is not None:
        found.add(combined.widening.support.prototypes.shape[1])
    if combined.density is not None and combined.density.columns is None:
        found.add(combined.density.neighbours.inputs.n_columns)
    return found


def _check_combined(combined: Combined) -> None:
    held_out, updates = combined.held_out, combined.updates
    must(updates is None or held_out is not None, "rows are absorbed by a model with rows left out only")
    if combined.values is not None and combined.values.rest is not None:
        must(members_of(combined.values.rest) == members_of(combined.combination), "values must be of these members")


def _check_networks(state: FittedNetworks) -> None:
    n = len(state.ensemble.networks)
    for name, size in (("loss_curves", len(state.loss_curves)), ("validation_curves", len(state.validation_curves))):
        must(size == n, f"{name} must have an entry for each of {n} networks; got {size}")
    must(len(state.best_epochs) == n, f"best_epochs must have an entry for each of {n} networks")


def _check_bdkn(state: FittedBDKN) -> None:
    ensemble, combined = state.networks.ensemble, state.combined
    H = members_of(combined.combination)
    must(len(ensemble) == H, f"must have weights for {len(ensemble)} members; got {H}")
    must(columns_of(combined) <= {ensemble.inputs.n_columns}, "all parts must be of the same columns")
    if combined.held_out is not None and combined.held_out.fold_of is not None:
        must(combined.held_out.fold_of.max() < ensemble.grid.n_folds, "fold_of must be one of the folds")


def _check_stack(state: FittedStack) -> None:
    H, held_out = members_of(state.combined.combination), state.combined.held_out
    must(len(state.members) == H, f"must have weights for {len(state.members)} members; got {H}")
    must(held_out is not None, "a stack has held-out rows")
    assert held_out is not None
    n = state.folds.n if isinstance(state.folds, OwnFolds) else sum(map(len, state.folds.left_out))
    must(n == len(held_out.y), f"folds must leave out {len(held_out.y)} rows; got {n}")
    for h, member in enumerate(state.members):
        last = -1 if held_out.fold_of is None else held_out.fold_of[:, h].max()
        must(last < len(member.models), f"fold_of must be one of the fits of member {h}")


_CURVES = Items(Array(("*",), ("f4", "f8"), finite=False))

SCHEMAS = (
    Schema(
        LeftOut,
        {
            "statistics": Part(Statistics, W=lambda rows: rows.n_weights),
            "noise": Number(low=0.0),
            "log_slopes": Number(),
        },
    ),
    Schema(
        FittedNetworks,
        {
            "ensemble": Part(NetworkEnsemble, H=len),
            "scores": Part(MemberScores, H=lambda scores: len(scores.mse)),
            "loss_curves": _CURVES,
            "validation_curves": _CURVES,
            "best_epochs": integers("*", low=-1),
        },
        _check_networks,
    ),
    Schema(
        Updates,
        {
            "absorbed": Part(Absorbed),
            "log_slopes": Number(),
            "memory": Part(RowMemory),
            "merged": Items(Text()),
        },
    ),
    Schema(
        Combined,
        {
            "combination": Part(Combination, H=members_of, W=weights_of),
            "targets": Part(TargetScaler),
            "held_out": Maybe(Part(HeldOut, H=lambda held_out: held_out.means.shape[1])),
            "provenance": Maybe(Part(FitProvenance)),
            "values": Maybe(Part(ValueModel)),
            "widening": Maybe(Part(Widening)),
            "density": Maybe(Part(NeighbourDensity)),
            "updates": Maybe(Part(Updates, W=lambda updates: weights_of(updates.absorbed.fitted))),
            "left_out": Maybe(Part(LeftOut, W=lambda left_out: left_out.statistics.n_weights)),
        },
        _check_combined,
    ),
    Schema(
        FittedBDKN,
        {
            "networks": Part(FittedNetworks),
            "combined": Part(Combined),
            "n_trained": Number(low=1, whole=True),
        },
        _check_bdkn,
    ),
    Schema(
        FittedStack,
        {
            "members": Items(Part(EstimatorMember), least=1, container=list),
            "combined": Part(Combined),
            "candidates": ESTIMATORS,
            "folds": Part(Folds, OwnFolds),
        },
        _check_stack,
    ),
)
