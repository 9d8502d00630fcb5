"""The regressors that a cell can name: those of ``bdkn``, the paper's other methods, peers and rivals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bdkn.errors import check_choice
from bdkn.estimators import REGRESSORS, BayesianStackingRegressor, BDKNRegressor
from bdkn.estimators.parameters import SETS
from bdkn_paper.baselines import BASELINES, TorchRegressor
from bdkn_paper.peers import PEERS, Peer
from bdkn_paper.rivals import Rival
from bdkn_paper.store import Cell
from bdkn_paper.store.parameter_names import OPTIONS

METHODS: dict[str, type[Any]] = {**REGRESSORS, **BASELINES, **PEERS, "Rival": Rival}

_MEANS = {"device", "n_jobs", "random_state", "verbose"}
"""Parameters that an experiment does not set."""


def parameter_names(regressor: str) -> list[str]:
    """Return the parameters of a regressor that an experiment can set."""
    return sorted(METHODS[regressor]().get_params(deep=False).keys() - _MEANS)


def make_regressor(cell: Cell, **means: Any) -> Any:
    """Return the unfitted regressor of a cell; ``means`` are parameters such as ``n_jobs``."""
    check_choice("regressor", cell.regressor, METHODS)
    cls = METHODS[cell.regressor]
    parameters = {**cell.parameters, "random_state": cell.random_state, **means}
    options = {name: parameters.pop(name) for name in OPTIONS if isinstance(parameters.get(name), Mapping)}
    if cls in (BDKNRegressor, BayesianStackingRegressor) and isinstance(parameters.get("members"), list):
        parameters["members"] = tuple(parameters["members"])  # JSON has lists only, which are of estimators
    if cell.base:
        named = issubclass(cls, TorchRegressor) and cell.dataset.removesuffix("-clean") in SETS
        place = {"dataset": cell.dataset} if named else {}  # setting 2 differs between data sets
        model = cls.from_paper(cell.base["from_paper"], **place, **parameters)
    else:
        model = cls(**parameters)
    for name, given in options.items():  # options that are not given stay as the paper has them
        model.set_params(**{name: replace(getattr(model, name) or OPTIONS[name](), **given)})
    return model


def has_device(cell: Cell) -> bool:
    """Return whether the regressor of a cell has the parameter ``device``."""
    return issubclass(METHODS.get(cell.regressor, object), TorchRegressor)


def warm_up(model: Any) -> None:
    """Import libraries and compile code, so that neither is measured as part of a fit."""
    if isinstance(model, Peer):
        model.library()
    if isinstance(model, TorchRegressor):
        model.load_packages()
    if getattr(model, "engine", None) == "fused":
        from bdkn.inference import published_combination
        from bdkn.networks import fused as engine

        engine.prepare()
        Phi = np.ones((2, 1))
        published_combination([(Phi, np.array([1.0, 2.0]))], "paper").posterior.location_scale(Phi)
