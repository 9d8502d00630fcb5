"""Model files of earlier versions: renamed parameters, classes and fields, and attributes in place of a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bdkn.regressors.baselines.fitted import (
    FittedBLL,
    FittedDKL,
    FittedGP,
    FittedMFVI,
    FittedVBLL,
    TrainingCourse,
)
from bdkn.regressors.fitted import Combined, FittedBDKN, FittedNetworks, FittedStack

FORMER_TYPES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Origin": ("FitProvenance", {}),
    "HeldOut": ("HeldOut", {"spread": "fold_variance"}),
    "Process": ("ConditionedGP", {}),
}
"""By former name of a class: its name in this version, and the new names of fields that were renamed."""


_ADDED_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "BDKNRegressor": {"n_bins": 0, "target": "identity", "density": "student-t", "linear_member": False},
    "BayesianStackingRegressor": {"target": "identity", "density": "student-t"},
    "DeepEnsembleRegressor": {"n_bins": 0},
}
"""By regressor: parameters that earlier versions did not have, with the values by which it behaves as before."""


def today_parameters(model: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a regressor of that name with the names and values of this version."""
    found = {**_ADDED_PARAMETERS.get(model, {}), **parameters}
    if "evidence" in found:
        given = found.pop("evidence")
        if given != "deprecated":
            found["prior_variance"] = "evidence" if given == "exact" else given
    return found


def state_of_attributes(model: str, parameters: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a fitted regressor in the form of this version, with its state in ``fitted_``."""
    make, names = _STATES.get(model, (None, ()))
    if make is None or not any(name in attributes for name in names):  # written by this version, or not fitted
        return dict(attributes)
    kept = {name: value for name, value in attributes.items() if name not in names}
    return {**kept, "fitted_": make({**parameters, **{name: attributes.get(name) for name in names}})}


def _networks(found: Mapping[str, Any]) -> FittedNetworks:
    return FittedNetworks(
        ensemble=found["ensemble_"],
        scores=found["member_scores_"],
        loss_curves=found["loss_curves_"],
        validation_curves=found["validation_curves_"],
        best_epochs=np.asarray(found["best_epochs_"]),
    )


def _bdkn(found: Mapping[str, Any]) -> FittedBDKN:
    networks, held_out = _networks(found), found["held_out_"]
    combined = Combined(found["combination_"], networks.ensemble.targets, held_out, found["origin_"])
    return FittedBDKN(networks, combined, found["n_trained_"] or len(networks.ensemble))


def _stack(found: Mapping[str, Any]) -> FittedStack:
    combined = Combined(found["combination_"], found["target_scaler_"], found["held_out_"], found["origin_"])
    return FittedStack(found["members_"], combined, found["candidates_"], found["folds_"])


def _course(found: Mapping[str, Any]) -> TrainingCourse:
    scores = found.get("validation_curve_")
    return TrainingCourse(
        inputs=found["inputs_"],
        targets=found["targets_"],
        loss_curve=found["loss_curve_"],
        validation_curve=np.empty((2, 0)) if scores is None else scores,
    )


def _gp(found: Mapping[str, Any]) -> FittedGP:
    return FittedGP(_course(found), found["process_"])


def _dkl(found: Mapping[str, Any]) -> FittedDKL:
    return FittedDKL(_course(found), found["features_"], found["process_"], found["bounded"])


def _bll(found: Mapping[str, Any]) -> FittedBLL:
    return FittedBLL(_course(found), found["features_"], found["posterior_"])


def _mfvi(found: Mapping[str, Any]) -> FittedMFVI:
    return FittedMFVI(_course(found), found["networks_"], found["variance_"])


def _vbll(found: Mapping[str, Any]) -> FittedVBLL:
    return FittedVBLL(_course(found), found["features_"], found["last_layer_"])


_NETWORKS = ("ensemble_", "member_scores_", "loss_curves_", "validation_curves_", "best_epochs_", "n_iter_")
_COURSE = ("inputs_", "targets_", "loss_curve_", "validation_curve_")
_COMBINED = ("combination_", "held_out_", "origin_")

_STATES: Mapping[str, tuple[Callable[[Mapping[str, Any]], object] | None, tuple[str, ...]]] = {
    "BDKNRegressor": (_bdkn, (*_NETWORKS, *_COMBINED, "n_trained_")),
    "DeepEnsembleRegressor": (_networks, _NETWORKS),
    "GPRegressor": (_gp, (*_COURSE, "process_")),
    "DKLRegressor": (_dkl, (*_COURSE, "features_", "process_")),
    "BLLRegressor": (_bll, (*_COURSE, "features_", "posterior_")),
    "LDBLLRegressor": (_bll, (*_COURSE, "features_", "posterior_")),
    "MFVIRegressor": (_mfvi, (*_COURSE, "networks_", "variance_")),
    "VBLLRegressor": (_vbll, (*_COURSE, "features_", "last_layer_")),
    "BayesianStackingRegressor": (_stack, (*_COMBINED, "members_", "candidates_", "folds_", "target_scaler_")),
}
"""For each regressor: the function that creates its state, and the attributes that become part of the state."""
