"""A model as JSON, with which the page computes predictions."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln

from bdkn.data.columns import CategoryColumn, DateColumn, NumberColumn, UnusedColumn
from bdkn.data.encoder import TableEncoder
from bdkn.data.reading import DAY
from bdkn.data.scaling import BEND, LIMIT, Columns, Standardizer, TargetScaler
from bdkn.ensemble.networks import NetworkEnsemble
from bdkn.estimators import DeepEnsembleRegressor
from bdkn.inference import Combination
from bdkn.inference.rowwise import triangular_order
from bdkn.model.density import Forest, NeighbourDensity
from bdkn.model.extrapolation import Widening
from bdkn.networks import MEAN_VARIANCE, EncodedNetworks, MixedNetworks, Networks, PiecewiseLinear, Predictor
from bdkn.predictive.links import ContinuedLink, IdentityLink, Link, LogitLink, LogLink, MirroredLink, YeoJohnsonLink
from bdkn.report.evaluation import Evaluation, cell
from bdkn.typing import FloatArray

_NAMES = {"f4": "f32", "f8": "f64", "i1": "i8", "u1": "u8", "i2": "i16", "u2": "u16", "i4": "i32", "u4": "u32"}


def packed(values: ArrayLike, kind: str) -> dict[str, str]:
    """Return an array of the type ``kind``, such as "f4", as JSON."""
    data = np.ascontiguousarray(values, dtype=f"<{kind}")
    return {_NAMES[kind]: base64.b64encode(data.tobytes()).decode("ascii")}


def smallest(values: ArrayLike) -> dict[str, str]:
    """Return whole numbers, none negative, in the smallest type that holds them."""
    numbers = np.asarray(values)
    most = int(numbers.max(initial=0))
    return packed(numbers, "u1" if most < 1 << 8 else "u2" if most < 1 << 16 else "u4")


def size_of(data: Any) -> int:
    """Return about how many bytes a payload has as JSON."""
    if isinstance(data, dict):
        return sum(size_of(key) + size_of(value) for key, value in data.items())
    if isinstance(data, list | tuple):
        return sum(size_of(part) + 1 for part in data)
    return len(data) + 2 if isinstance(data, str) else 20


_KINDS: dict[type, str] = {
    IdentityLink: "identity",
    LogLink: "log",
    LogitLink: "logit",
    YeoJohnsonLink: "power",
    MirroredLink: "mirrored",
    ContinuedLink: "continued",
}


def describe_combination(combination: Combination) -> dict[str, Any]:
    """Return the posterior of the weights with a triangular root of its precision, and the tails."""
    post = combination.posterior
    order = triangular_order(post.root)
    return {
        "mean": packed(post.mean, "f8"),
        "root": packed(post.root[:, order], "f8"),
        "order": [int(place) for place in order],
        "unit": post.b / post.a,
        "tempering": combination.tempering,
        "df": combination.tails.df,
        "factor": combination.averaging * combination.tails.scale,
        "intercept": combination.intercept,
    }


def describe_targets(targets: TargetScaler) -> dict[str, Any]:
    """Return the scale of the target and its link; no link where the target is predicted as it is."""
    link = None if targets.is_linear else describe_link(targets.link)
    return {"mean": targets.mean, "scale": targets.scale, "link": link}


def describe_link(link: Link) -> dict[str, Any]:
    """Return a link by its kind and its numbers; infinite bounds are None."""
    if type(link) not in _KINDS:
        raise NotShownError("its target is transformed by a link of your own")
    found: dict[str, Any] = {"kind": _KINDS[type(link)]}
    for field in fields(link):  # type: ignore[arg-type]
        value = getattr(link, field.name)
        found[field.name] = describe_link(value) if field.name == "link" else _finite(value)
    return {**found, "support": _finite(link.support), "near": _finite(link.near), "breaks": list(link.breaks)}


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_finite(part) for part in value]
    return float(value) if np.isfinite(value) else None


def describe_widening(widening: Widening) -> dict[str, Any]:
    """Return prototypes, columns and slopes, by which predictions widen outside of the training rows."""
    support = widening.support
    if support.columns.known:
        raise NotShownError("some of its columns hold no numbers")
    return {
        "columns": _describe_columns(support.columns),
        "prototypes": packed(support.prototypes, "f8" if support.prototypes.size < 40_000 else "f4"),
        "typical_distance": support.typical,
        "slopes": packed(widening.slopes, "f8"),
        "typical": widening.typical,
        "usual": widening.usual,
    }


def _describe_columns(columns: Columns) -> dict[str, Any]:
    return {name: packed(getattr(columns, name), "f8") for name in ("center", "scale", "low", "high")}


_STEPS = 200
"""Steps of a slider."""


def describe_inputs(evaluation: Evaluation, order: Sequence[Any]) -> dict[str, Any]:
    """Return one input per column, the encoder of the columns, the names of inputs, and rows to start from.

    ``order`` are the columns in the order in which the page shows them.
    """
    names, table, codes = evaluation.view.names, _table(evaluation), codes_of(evaluation)
    if table is None:
        columns, encoders = [_number(values[:, 0]) for values in codes], None
        features = [str(name) for name in names]
    else:
        columns = [_input(column, values) for column, values in zip(table.columns, codes, strict=True)]
        encoders = [describe_column(column) for column in table.columns]
        features = [str(table.names[j]) for j in table.column_of_feature]
    for name, column in zip(names, columns, strict=True):
        column.update(name=str(name), place=order.index(name))
    rows = [{**row, "values": values_of(evaluation, codes, row["row"])} for row in _starting_rows(evaluation)]
    return {"columns": columns, "table": encoders, "features": features, "rows": rows}


def _table(evaluation: Evaluation) -> TableEncoder | None:
    encoder: TableEncoder | None = evaluation.model.model_.reader.encoder
    return encoder


def codes_of(evaluation: Evaluation) -> list[FloatArray]:
    """Return the codes of each column, (n, codes); without an encoder the numbers of the column."""
    table, view = _table(evaluation), evaluation.view
    if table is None:
        return [view.column(name).values[:, None] for name in view.names]
    ends = np.cumsum([column.n_codes for column in table.columns])
    return np.split(table.code(view.table), ends[:-1], axis=1)


def values_of(evaluation: Evaluation, codes: Sequence[FloatArray], i: int) -> list[Any]:
    """Return the values of a row as the page keeps them: numbers, dates, or codes with a text."""
    return [_value(evaluation, j, values[i], i) for j, values in enumerate(codes)]


def describe_column(column: Any) -> dict[str, Any]:
    """Return the encoder of a column as JSON."""
    if isinstance(column, NumberColumn):
        return {"kind": "number", "fill": column.fill, "missing": column.some_missing}
    if isinstance(column, DateColumn):
        return {"kind": "date", "fill": column.fill, "missing": column.some_missing, "cycles": list(column.cycles)}
    if isinstance(column, CategoryColumn):
        return {"kind": "category", "width": column.inputs.shape[1], "inputs": packed(column.inputs, "f8")}
    return {"kind": "unused" if isinstance(column, UnusedColumn) else "given"}


def _input(column: Any, codes: FloatArray) -> dict[str, Any]:
    """Return what the page shows for a column: a slider, a menu, a date, or only its value."""
    if isinstance(column, NumberColumn) and column.kind == "boolean":
        return {"kind": "menu", "values": [*_choice(("no", "yes")), *_missing(column, None)]}
    if isinstance(column, NumberColumn):
        known = codes[codes[:, 1] == 0.0, 0] if column.some_missing else codes[:, 0]
        return {**_number(known), "missing": column.some_missing}
    if isinstance(column, DateColumn):
        return {"kind": "date", "hours": 1.0 in column.cycles}
    if isinstance(column, CategoryColumn):
        k = len(column.values)
        unseen = {"label": "a value not seen before", "value": k + 1}
        return {"kind": "menu", "values": [*_choice(column.values), *_missing(column, k), unseen]}
    return {"kind": "unused" if isinstance(column, UnusedColumn) else "fixed"}


def _choice(labels: Sequence[str]) -> list[dict[str, Any]]:
    return [{"label": label, "value": value} for value, label in enumerate(labels)]


def _missing(column: Any, value: Any) -> list[dict[str, Any]]:
    return [{"label": "missing", "value": value}] if column.some_missing else []


def _number(known: FloatArray) -> dict[str, Any]:
    """Return the slider of a column of numbers: its ends, which are those of the rows, and its step."""
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    whole = bool((known == np.round(known)).all())
    if low == high:
        low, high = low - 1.0, high + 1.0
    step = 1.0 if whole and high - low >= 1.0 else _round_step((high - low) / _STEPS)
    return {"kind": "number", "low": low, "high": high, "step": step, "missing": False}


def _round_step(step: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is not larger."""
    unit = 10.0 ** np.floor(np.log10(step))
    return float(f"{unit * max(factor for factor in (1, 2, 5) if factor * unit <= step * 1.0000001):.3g}")


def _value(evaluation: Evaluation, j: int, codes: FloatArray, i: int) -> Any:
    table = _table(evaluation)
    if table is None:
        return float(codes[0])
    column = table.columns[j]
    if isinstance(column, UnusedColumn) or (getattr(column, "some_missing", False) and len(codes) > 1 and codes[1]):
        return None
    if isinstance(column, DateColumn):
        return _moment(float(codes[0]))
    if isinstance(column, CategoryColumn):
        return int(codes[0])
    if isinstance(column, NumberColumn):
        return float(codes[0])
    return {"label": cell(evaluation.view.column(evaluation.view.names[j]), i), "codes": codes.tolist()}


def _moment(days: float) -> str:
    """Return a moment as the date field of a page has it, to the second."""
    return str(np.datetime64(round(days * DAY), "s"))


def _starting_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return rows to start from: a typical one, the surest, the least sure, and the lowest and highest prediction."""
    mean, std = evaluation.mean, evaluation.std
    chosen = {
        "a typical row": int(np.argmin(_ranks_from_middle(mean) + _ranks_from_middle(std))),
        "the surest row": int(np.argmin(std)),
        "the least sure row": int(np.argmax(std)),
        "the lowest prediction": int(np.argmin(mean)),
        "the highest prediction": int(np.argmax(mean)),
        "the largest error": int(np.argmax(np.abs(evaluation.y - mean))),
    }
    return [{"label": label, "row": i, "observed": float(evaluation.y[i])} for label, i in chosen.items()]


def _ranks_from_middle(values: FloatArray) -> FloatArray:
    """Return how far each value is from the median, in ranks."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return np.asarray(np.abs(ranks - (len(values) - 1) / 2.0))


class NotShownError(Exception):
    """Why a model cannot be computed in a page, in plain words."""


def describe_ensemble(ensemble: NetworkEnsemble) -> dict[str, Any]:
    """Return the networks of all folds and members, and how their inputs are scaled."""
    own = ensemble.variances
    return {
        "inputs": describe_standardizer(ensemble.inputs),
        "stacks": _describe_stacks(ensemble.networks),
        "order": _order(ensemble.networks),
        "folds": ensemble.grid.n_folds,
        "members": len(ensemble),
        "variances": None if own is None else own.tolist(),
    }


def describe_standardizer(inputs: Any) -> dict[str, Any]:
    """Return the mean and scale of each column, and which columns have wild values."""
    if not isinstance(inputs, Standardizer):
        raise NotShownError("its columns are encoded by an object of your own")
    return {
        "mean": packed(inputs.mean, "f8"),
        "scale": packed(inputs.scale, "f8"),
        "wild": None if inputs.wild is None else packed(inputs.wild, "u1"),
        "bend": BEND,
        "limit": LIMIT,
    }


def _order(networks: Predictor) -> list[int]:
    if isinstance(networks, MixedNetworks):
        return [int(place) for place in networks.order]
    return list(range(len(networks)))


def _describe_stacks(networks: Predictor) -> list[dict[str, Any]]:
    stacks = networks.stacks if isinstance(networks, MixedNetworks) else (networks,)
    return [_describe_stack(stack) for stack in stacks]


def _describe_stack(stack: Predictor) -> dict[str, Any]:
    """Return networks of one shape: their widths, activation, weights, and the bins they see their inputs through."""
    encoding = stack.encoding if isinstance(stack, EncodedNetworks) else None
    plain = stack.networks if isinstance(stack, EncodedNetworks) else stack
    if not isinstance(plain, Networks) or plain.spec.head != MEAN_VARIANCE:
        raise NotShownError("its networks are of a kind that the page cannot compute")
    single = plain.layers[0][0].dtype == np.float32
    flat = [part.reshape(len(plain), -1) for layer in plain.layers for part in layer]
    return {
        "count": len(plain),
        "widths": list(plain.spec.widths),
        "activation": plain.spec.activation,
        "weights": packed(np.concatenate(flat, axis=1), "f4" if single else "f8"),
        "bins": None if encoding is None else _describe_bins(encoding),
    }


def _describe_bins(encoding: PiecewiseLinear) -> dict[str, Any]:
    parts = {name: packed(getattr(encoding, name), "f4") for name in ("lower", "width", "mean", "scale")}
    return {"columns": packed(encoding.columns, "i4"), **parts}


def describe_shape(density: NeighbourDensity) -> dict[str, Any]:
    """Return the forest, the targets and errors of its rows, and the weights of the mixture."""
    near, tilt = density.neighbours, density.tilt
    source, level, first, last, width, power = near._plan
    return {
        "inputs": describe_standardizer(near.inputs),
        "forest": describe_forest(near.forest),
        "targets": packed(near.targets, "f8"),
        "errors": packed(near.errors, "f8"),
        "floor": near.floor,
        "plan": [
            {"of_errors": bool(s), "broad": bool(b), "first": int(f), "last": int(e), "width": float(w), "power": p}
            for s, b, f, e, w, p in zip(source, level, first, last, width, power.tolist(), strict=True)
        ],
        "knots": density.knots.tolist(),
        "shares": density.shares.tolist(),
        "tilt": tilt,
        "even": math.exp(tilt * math.log(4.0) + float(betaln(1.0 + tilt, 1.0 + tilt))),
        "narrowing": density.narrowing,
    }


def describe_forest(forest: Forest) -> dict[str, Any]:
    """Return the nodes in depth-first order: features, thresholds of those that split, numbers of rows of leaves.

    Right children and the places of rows follow from these.
    """
    is_leaf = forest.feature < 0
    whole = bool((forest.copies == np.round(forest.copies)).all())
    return {
        "trees": len(forest.roots),
        "feature": packed(forest.feature, "i2"),
        "threshold": packed(forest.threshold[~is_leaf], "f4"),
        "size": smallest((forest.stop - forest.start)[is_leaf]),
        "rows": smallest(forest.rows),
        "copies": smallest(forest.copies) if whole else packed(forest.copies, "f4"),
    }


MOST_BYTES = 8_000_000
"""Largest size of a model in a page; of a larger one the shape is left out, then the what-if as a whole."""


@dataclass(frozen=True)
class Payload:
    """A model as JSON, or None with the reason in ``note``, which also says what else is left out.

    ``has_shape`` is False where the model has a shape of its own which was left out: the page then computes what
    ``model.without_shape()`` predicts.
    """

    model: dict[str, Any] | None
    note: str = ""
    has_shape: bool = True


def payload_of(model: Any, *, most_bytes: int = MOST_BYTES) -> Payload:
    """Return a fitted model as JSON, if it consists of networks and is small enough."""
    try:
        plain = _describe(model)
    except NotShownError as reason:
        return Payload(None, f"The what-if is left out: {reason}.")
    size = size_of(plain)
    if size > most_bytes:
        return Payload(None, f"The what-if is left out: {_megabytes(size)}, and the limit is {_limit(most_bytes)}.")
    density = None if isinstance(model, DeepEnsembleRegressor) else model.density_
    if density is None:
        return Payload(plain, _about_values(model))
    shape = describe_shape(density)
    if size + size_of(shape) <= most_bytes:
        return Payload({**plain, "shape": shape}, _about_values(model))
    note = (
        "The what-if shows the Student-t distribution alone. The model itself mixes it with densities of neighbours, "
        f"but with these {_megabytes(size + size_of(shape))}, and the limit is {_limit(most_bytes)}."
    )
    return Payload(plain, f"{note} {_about_values(model)}".strip(), has_shape=False)


def _about_values(model: Any) -> str:
    """Return what is left out if many targets share values."""
    if getattr(model, "target_values_", None) is None:
        return ""
    return (
        "Many targets share values. The what-if shows a density, which knows no single values; in Python, "
        "predict_values has their probabilities."
    )


def _describe(model: Any) -> dict[str, Any]:
    if isinstance(model, DeepEnsembleRegressor):
        ensemble = model.ensemble_
        kind = {"ensemble": model.predictive}
        return {**kind, "networks": describe_ensemble(ensemble), "targets": describe_targets(ensemble.targets)}
    if not hasattr(model, "ensemble_"):
        raise NotShownError("its members are not networks of this package, so a page cannot compute them")
    widening = model.model_.extrapolation
    return {
        "networks": describe_ensemble(model.ensemble_),
        "combination": describe_combination(model.combination_),
        "targets": describe_targets(model.target_scaler_),
        "widening": None if widening is None else describe_widening(widening),
    }


def _megabytes(size: int) -> str:
    return f"the model has {size / 1e6:.1f} MB"


def _limit(size: int) -> str:
    return f"{size / 1e6:g} MB"
