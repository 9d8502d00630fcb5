"""Schemas of the fitted states of the baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bdkn.inference import Posterior
from bdkn.members import Standardizer, TargetScaler
from bdkn.networks import FeatureMap
from bdkn.persistence.schema import Flag, Maybe, Number, Part, Schema, Text, floats, must
from bdkn.regressors.baselines.conditioned_gp import DTYPES, ConditionedGP
from bdkn.regressors.baselines.fitted import (
    FittedBLL,
    FittedDKL,
    FittedGP,
    FittedMFVI,
    FittedVBLL,
    TrainingCourse,
    VariationalLastLayer,
)

_POSITIVE = Number(above=0.0)
_SIZE = Number(low=0.0)


def _check_process(process: ConditionedGP) -> None:
    wanted = ((1,), process.X.shape[1:])
    must(process.lengthscale.shape in wanted, f"must have a length scale, or one of each of {process.X.shape[1]}")


def _width(features: FeatureMap, course: TrainingCourse) -> int:
    """Return the number of features; raise unless a single map takes the columns of the table."""
    p = course.inputs.n_columns
    if not features.layers:
        return p
    first, last = features.layers[0][0], features.layers[-1][0]
    must(first.ndim == 2 and first.shape[1] == p, f"features must be of {p} columns; got weights {first.shape}")
    return int(last.shape[0])


def _same_width(state: Any, wanted: Callable[[int], int], found: int) -> None:
    width = wanted(_width(state.features, state.course))
    must(width == found, f"the model on the features must have {width} of them; got {found}")


def _check_gp(state: FittedGP) -> None:
    p, found = state.course.inputs.n_columns, state.process.X.shape[1]
    must(found == p, f"the process must have {p} columns; got {found}")


def _check_mfvi(state: FittedMFVI) -> None:
    p, layers = state.course.inputs.n_columns, state.networks.layers
    must(bool(layers) and layers[0][0].ndim == 3, "networks must be a stack")
    must(layers[0][0].shape[-1] == p, f"networks must have {p} inputs")
    must(layers[-1][0].shape[-2] == 1, "networks must have one output")


_COURSE = Part(TrainingCourse)

SCHEMAS = (
    Schema(
        TrainingCourse,
        {
            "inputs": Part(Standardizer),
            "targets": Part(TargetScaler),
            "loss_curve": floats("*", finite=False),
            "validation_curve": floats(2, "*", finite=False),
        },
    ),
    Schema(
        ConditionedGP,
        {
            "X": floats("n", "d"),
            "y": floats("n"),
            "mean": Number(),
            "outputscale": _POSITIVE,
            "lengthscale": floats("*", above=0.0),
            "noise": _POSITIVE,
            "device": Text(pattern=r"(cpu|cuda|mps|xpu)(:[0-9]{1,3})?"),
            "dtype": Text(DTYPES),
            "inducing": Maybe(floats("m", "d")),
        },
        _check_process,
        {"n": 1, "d": 1, "m": 1},
    ),
    Schema(FittedGP, {"course": _COURSE, "process": Part(ConditionedGP)}, _check_gp),
    Schema(
        FittedDKL,
        {"course": _COURSE, "features": Part(FeatureMap), "process": Part(ConditionedGP), "bounded": Flag()},
        lambda state: _same_width(state, lambda width: width, state.process.X.shape[1]),
    ),
    Schema(
        FittedBLL,
        {"course": _COURSE, "features": Part(FeatureMap), "posterior": Part(Posterior)},
        lambda state: _same_width(state, lambda width: width + 1, len(state.posterior.mean)),
    ),
    Schema(FittedMFVI, {"course": _COURSE, "networks": Part(FeatureMap), "noise": _SIZE}, _check_mfvi),
    Schema(
        VariationalLastLayer,
        {"mean": floats("D"), "covariance": floats("D", "D"), "noise": _SIZE},
        least={"D": 1},
    ),
    Schema(
        FittedVBLL,
        {"course": _COURSE, "features": Part(FeatureMap), "last_layer": Part(VariationalLastLayer)},
        lambda state: _same_width(state, lambda width: width, len(state.last_layer.mean)),
    ),
)
