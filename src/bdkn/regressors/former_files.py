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
from bdkn.regressors.file_schemas import SCHEMAS
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
    """Return the attributes of a fitted regressor in the form of this version, with its state in ``fitted_``.

    Raise ``WrongContentError`` if they are no attributes of such a regressor.
    """
    make, names = _STATES.get(model, (None, ()))
    if make is None or not any(name in attributes for name in names):  # written by this version, or not fitted
        return dict(attributes)
    kept = {name: value for name, value in attributes.items() if name not in names}
    return {**kept, "fitted_": make({**parameters, **{name: attributes.get(name) for name in names}})}


def _made(kind: type, **fields: Any) -> Any:
    """Return an object with these fields, checked as those of a file are."""
    return SCHEMAS[kind].make(fields)


def _networks(found: Mapping[str, Any]) -> Any:
    epochs = found["best_epochs_"]
    is_list = isinstance(epochs, list | tuple) and all(type(epoch) is int for epoch in epochs)
    return _made(
        FittedNetworks,
        ensemble=found["ensemble_"],
        scores=found["member_scores_"],
        loss_curves=found["loss_curves_"],
        validation_curves=found["validation_curves_"],
        best_epochs=np.array(epochs, dtype=np.int64) if is_list else epochs,
    )


def _combined(found: Mapping[str, Any], targets: Any) -> Any:
    held_out, provenance = found["held_out_"], found["origin_"]
    combination = found["combination_"]
    return _made(Combined, combination=combination, targets=targets, held_out=held_out, provenance=provenance)


def _bdkn(found: Mapping[str, Any]) -> Any:
    networks = _networks(found)
    n_trained = len(networks.ensemble) if found["n_trained_"] is None else found["n_trained_"]
    combined = _combined(found, networks.ensemble.targets)
    return _made(FittedBDKN, networks=networks, combined=combined, n_trained=n_trained)


def _stack(found: Mapping[str, Any]) -> Any:
    combined = _combined(found, found["target_scaler_"])
    members, candidates, folds = (found[name] for name in ("members_", "candidates_", "folds_"))
    return _made(FittedStack, members=members, combined=combined, candidates=candidates, folds=folds)


def _course(found: Mapping[str, Any]) -> Any:
    scores = found.get("validation_curve_")
    return _made(
        TrainingCourse,
        inputs=found["inputs_"],
        targets=found["targets_"],
        loss_curve=found["loss_curve_"],
        validation_curve=np.empty((2, 0)) if scores is None else scores,
    )


def _gp(found: Mapping[str, Any]) -> Any:
    return _made(FittedGP, course=_course(found), process=found["process_"])


def _dkl(found: Mapping[str, Any]) -> Any:
    features, process, bounded = (found.get(name) for name in ("features_", "process_", "bounded"))
    return _made(FittedDKL, course=_course(found), features=features, process=process, bounded=bounded)


def _bll(found: Mapping[str, Any]) -> Any:
    return _made(FittedBLL, course=_course(found), features=found["features_"], posterior=found["posterior_"])


def _mfvi(found: Mapping[str, Any]) -> Any:
    return _made(FittedMFVI, course=_course(found), networks=found["networks_"], noise=found["variance_"])


def _vbll(found: Mapping[str, Any]) -> Any:
    return _made(FittedVBLL, course=_course(found), features=found["features_"], last_layer=found["last_layer_"])


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
