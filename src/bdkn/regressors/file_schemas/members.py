"""Schemas of members, their held-out predictions, folds, and where training rows lie."""

from __future__ import annotations

import numpy as np

from bdkn.inference import Combination
from bdkn.members import (
    Columns,
    Folds,
    HeldOut,
    MemberScores,
    NetworkEnsemble,
    OwnFolds,
    Standardizer,
    Support,
    TargetScaler,
    Widening,
)
from bdkn.members.provenance import FitProvenance
from bdkn.members.row_memory import RowMemory
from bdkn.members.target_values import TargetValues
from bdkn.members.value_model import ValueModel
from bdkn.persistence.schema import (
    Array,
    Flag,
    Items,
    Maybe,
    Number,
    Part,
    Schema,
    Sizes,
    Text,
    floats,
    integers,
    must,
)
from bdkn.regressors.file_schemas.networks import PREDICTORS, inputs_of
from bdkn.regressors.file_schemas.saved import PLAIN_NAMED

_POSITIVE = Number(above=0.0)
_SIZE = Number(low=0.0)
_SIGNED = ("i1", "i2", "i4", "i8")
_MOST_ENTROPY = 2**1024


class _Entropy:
    """The entropy of a seed: None, a number that is not negative, of any size, or several."""

    def check(self, value: object, sizes: Sizes) -> None:
        numbers = value if isinstance(value, list | tuple) else [] if value is None else [value]
        must(
            all(type(number) is int and 0 <= number < _MOST_ENTROPY for number in numbers),
            "must be None or numbers >= 0",
        )


def _check_held_out(held_out: HeldOut) -> None:
    known = ~np.isnan(held_out.variances)
    must(bool((known.all(axis=0) | ~known.any(axis=0)).all()), "a member must have all variances, or none")
    variances = held_out.variances[known]
    must(bool((np.isfinite(variances) & (variances > 0.0)).all()), "variances must be finite and above zero")
    must(held_out.counts is None or held_out.counts.sum() > 0.0, "some row must count")


def _check_columns(columns: Columns) -> None:
    must(bool((columns.low <= columns.high).all()), "low must not exceed high")
    must(len(columns.known) in (0, len(columns.low)), "known must have an entry for each column, or none")


def _check_ensemble(ensemble: NetworkEnsemble) -> None:
    n, H = len(ensemble.networks), len(ensemble)
    must(n % H == 0, f"{n} networks cannot be those of {H} members")


def _check_folds(folds: Folds) -> None:
    left_out = np.concatenate(folds.left_out)
    must(len(np.unique(left_out)) == len(left_out), "no row must be left out twice")
    must(left_out.max(initial=0) < folds.n, f"rows must be from 0 to {folds.n - 1}")
    for kept in folds.kept or ():
        must(kept.max(initial=0) < folds.n, f"rows must be from 0 to {folds.n - 1}")


def _check_own_folds(folds: OwnFolds) -> None:
    must(folds.sets is None or len(folds.sets) == folds.n, "sets must have an entry for each row")
    must(folds.sets is None or int(folds.sets.max()) < folds.n, "sets must be numbered from 0")


def _check_value_model(model: ValueModel) -> None:
    must(model.found.is_lattice == (model.rest is None), "a lattice, and nothing else, has no rest")
    wanted = (len(model.found), 2 if model.found.is_lattice else 6)
    must(model.coefficients.shape == wanted, f"coefficients must have shape {wanted}; got {model.coefficients.shape}")


SCHEMAS = (
    Schema(
        HeldOut,
        {
            "means": floats("n", "H"),
            "variances": floats("n", "H", finite=False),
            "fold_variance": floats("n", "H", low=0.0),
            "y": floats("n"),
            "counts": Maybe(floats("n", low=0.0)),
            "fold_of": Maybe(integers("n", "H", types=_SIGNED, low=-1)),
        },
        _check_held_out,
        {"n": 1, "H": 1},
    ),
    Schema(MemberScores, {"mse": floats("H", finite=False), "nll": floats("H", finite=False)}),
    Schema(
        Columns,
        {
            "center": floats("p"),
            "scale": floats("p", low=0.0),
            "low": floats("p"),
            "high": floats("p"),
            "known": Items(Maybe(Items(Text()))),
        },
        _check_columns,
        {"p": 1},
    ),
    Schema(
        Support,
        {
            "columns": Part(Columns, p=lambda columns: len(columns.low)),
            "prototypes": floats("m", "p"),
            "typical": _POSITIVE,
        },
        least={"m": 1},
    ),
    Schema(
        Widening,
        {
            "support": Part(Support, p=lambda support: support.prototypes.shape[1]),
            "slopes": floats("p", low=0.0),
            "typical": _SIZE,
            "usual": _SIZE,
        },
    ),
    Schema(
        NetworkEnsemble,
        {
            "names": Items(Text(), "H"),
            "networks": Part(*PREDICTORS, p=inputs_of),
            "inputs": Part(Standardizer, p=lambda inputs: inputs.n_columns),
            "targets": Part(TargetScaler),
            "variances": Maybe(floats("H", above=0.0)),
        },
        _check_ensemble,
        {"H": 1},
    ),
    Schema(
        Folds,
        {
            "n": Number(low=1, whole=True),
            "left_out": Items(integers("*"), "K", least=1),
            "kept": Maybe(Items(integers("*"), "K")),
        },
        _check_folds,
    ),
    Schema(
        OwnFolds,
        {
            "n": Number(low=2, whole=True),
            "count": Number(low=1, whole=True),
            "entropy": _Entropy(),
            "sets": Maybe(integers("*")),
        },
        _check_own_folds,
    ),
    Schema(
        FitProvenance,
        {"entropy": _Entropy(), "rows": Text(), "parameters": PLAIN_NAMED, "folds": Text()},
    ),
    Schema(
        RowMemory,
        {"keys": Array(("n",), ("u8",)), "weights": floats("n", low=0.0), "is_complete": Flag()},
    ),
    Schema(
        ValueModel,
        {
            "found": Part(TargetValues),
            "coefficients": floats("k", "*"),
            "rest": Maybe(Part(Combination)),
        },
        _check_value_model,
    ),
)
