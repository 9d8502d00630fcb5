"""The model in the HTML report, as JSON, and the form fields with which a reader changes a row."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.analysis.inspection import column_codes, input_columns, input_names
from bdkn.model.description import NotDescribedError, describe_model
from bdkn.report.evaluation import Evaluation, cell
from bdkn.typing import FloatArray

MAX_BYTES = 8_000_000
"""Maximum size of a model in a report, in bytes; a larger one has no kernel density of similar rows, or is omitted."""

_MAX_DOUBLES = 40_000
"""Number of coordinates of prototypes from which they are stored in single precision."""

_SECONDS_PER_DAY = 86_400.0

_STEPS = 200
"""Approximate number of steps of a slider."""

_ENCODED = ("kind", "fill", "missing", "cycles", "inputs")
"""Keys of a column's description from which the report computes network inputs."""


@dataclass(frozen=True)
class Payload:
    """A model as JSON, or None if it is omitted. ``note`` explains what the report omits and why.

    Without the key "density", the report predicts without densities of neighbours, as ``model.without_shape()``.
    """

    model: dict[str, Any] | None
    note: str = ""


def payload_of(model: Any, *, most_bytes: int = MAX_BYTES) -> Payload:
    """Return a fitted model as JSON; it is omitted if its members are not networks, or if it is too large."""
    try:
        described = describe_model(getattr(model, "model_", None))
    except NotDescribedError as reason:
        return Payload(
            None,
            f"The what-if is omitted: {reason}, so a page cannot compute its predictions. "
            "Predict rows of your choice in Python, or by `bdkn predict`.",
        )
    extrapolation, density = described["extrapolation"], as_json(described.pop("density"))
    if extrapolation is not None and extrapolation["prototypes"].size >= _MAX_DOUBLES:
        extrapolation["prototypes"] = extrapolation["prototypes"].astype(np.float32)
    if described["combination"] is None:
        described["ensemble"] = model.predictive
    plain, limit, notes = as_json(described), f"the limit is {most_bytes / 1e6:g} MB", []
    size, more = (len(json.dumps(part)) for part in (plain, density))
    if size > most_bytes:
        return Payload(None, f"The what-if is omitted: the model has {size / 1e6:.1f} MB, and {limit}.")
    if density is not None and size + more > most_bytes:
        notes.append(
            "The what-if shows the Student-t distribution alone. The model itself mixes it with densities of "
            f"neighbours, but with these the model has {(size + more) / 1e6:.1f} MB, and {limit}."
        )
    elif density is not None:
        plain["density"] = density
    if getattr(model, "target_values_", None) is not None:
        notes.append(
            "Many targets share values. The what-if shows a density, which has no probabilities of single values; in "
            "Python, predict_values returns them."
        )
    return Payload(plain, " ".join(notes))


_NAMES = {"u1": "u8", "i1": "i8", "u2": "u16", "i2": "i16", "u4": "u32", "i4": "i32", "f4": "f32", "f8": "f64"}
"""Names of array types for the JavaScript of the report, by NumPy's type code."""


def as_json(value: Any) -> Any:
    """Replace arrays in a nested structure by base64 texts, each with the name of its type.

    Whole numbers are stored in the smallest type that holds them; the report reads each type by its name.
    """
    if isinstance(value, dict):
        return {name: as_json(part) for name, part in value.items()}
    if isinstance(value, list):
        return [as_json(part) for part in value]
    if not isinstance(value, np.ndarray):
        return value
    low, high = (float(value.min()), float(value.max())) if value.size else (0.0, 0.0)
    if low >= -(2**31) and high < 2**31 and (value.dtype.kind in "biu" or bool((value == np.round(value)).all())):
        kinds = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32)
        value = value.astype(next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max))
    code = value.dtype.str[1:]
    data = np.ascontiguousarray(value, dtype=f"<{code}").tobytes()
    return {_NAMES[code]: base64.b64encode(data).decode("ascii")}


def describe_inputs(evaluation: Evaluation, order: Sequence[Any]) -> dict[str, Any]:
    """Return one form field per column, the encoders, the names of network inputs, and rows to start from.

    ``order`` are the columns in the order in which the report shows them.
    """
    model, view = evaluation.model, evaluation.view
    columns = input_columns(model)
    codes = codes_of(evaluation)
    if columns is None:
        fields, features = [_slider(values[:, 0]) for values in codes], [str(name) for name in view.names]
    else:
        fields = [_field(column, values) for column, values in zip(columns, codes, strict=True)]
        features = input_names(model)
    for name, field in zip(view.names, fields, strict=True):
        field.update(name=str(name), place=order.index(name))
    rows = [{**row, "values": values_of(evaluation, codes, row["row"])} for row in _starting_rows(evaluation)]
    # What the report needs to compute the network inputs of each column.
    encoders = None if columns is None else [{k: column[k] for k in _ENCODED if k in column} for column in columns]
    for encoder in encoders or ():
        if "inputs" in encoder:
            encoder["width"] = encoder["inputs"].shape[1]
    return {"columns": fields, "table": as_json(encoders), "features": features, "rows": rows}


def codes_of(evaluation: Evaluation) -> list[FloatArray]:
    """Return the numbers (n, codes) that stand for each column's values; for an array, its own numbers (n, 1)."""
    view = evaluation.view
    if input_columns(evaluation.model) is None:
        return [view.column(name).values[:, None] for name in view.names]
    return column_codes(evaluation.model, view.table)


def _field(column: dict[str, Any], codes: FloatArray) -> dict[str, Any]:
    """Return the form field for a column: a slider, a menu, a date, or a fixed value."""
    kind, has_missing = column["kind"], column.get("missing", False)
    if kind in ("number", "duration"):
        known = codes[codes[:, 1] == 0.0, 0] if has_missing else codes[:, 0]
        return {**_slider(known), "missing": has_missing}
    if kind == "date":
        return {"kind": "date", "hours": 1.0 in column["cycles"]}
    if kind not in ("boolean", "category"):
        return {"kind": "unused" if kind == "unused" else "fixed"}
    labels = ["no", "yes"] if kind == "boolean" else column["values"]
    menu: list[dict[str, Any]] = [{"label": label, "value": value} for value, label in enumerate(labels)]
    if has_missing:
        menu.append({"label": "missing", "value": None if kind == "boolean" else len(labels)})
    if kind == "category":
        menu.append({"label": "a value not seen before", "value": len(labels) + 1})
    return {"kind": "menu", "values": menu}


def _slider(known: FloatArray) -> dict[str, Any]:
    """Return the slider of a numeric column; it goes from the lowest to the highest known value."""
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    are_whole = bool((known == np.round(known)).all())
    if low == high:
        low, high = low - 1.0, high + 1.0
    step = (high - low) / _STEPS
    unit = 10.0 ** np.floor(np.log10(step))
    # Round the step down to 1, 2 or 5 times a power of ten.
    step = float(f"{unit * max(factor for factor in (1, 2, 5) if factor * unit <= step * 1.0000001):.3g}")
    if are_whole and high - low >= 1.0:
        step = 1.0
    return {"kind": "number", "low": low, "high": high, "step": step, "missing": False}


def values_of(evaluation: Evaluation, codes: Sequence[FloatArray], i: int) -> list[Any]:
    """Return the values of row ``i`` for the form fields: numbers, dates, menu positions, or a text with its codes."""
    columns, view = input_columns(evaluation.model), evaluation.view
    if columns is None:
        return [float(values[i, 0]) for values in codes]
    found: list[Any] = []
    for name, column, row in zip(view.names, columns, (values[i] for values in codes), strict=True):
        kind = column["kind"]
        if kind == "unused" or (kind != "category" and column.get("missing", False) and row[1]):
            found.append(None)
        elif kind == "date":
            found.append(str(np.datetime64(round(float(row[0]) * _SECONDS_PER_DAY), "s")))
        elif kind == "text":
            found.append({"label": cell(view.column(name), i), "codes": row.tolist()})
        else:
            found.append(int(row[0]) if kind == "category" else float(row[0]))
    return found


def _starting_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return rows from which a reader can start: a typical one, and ones with extreme predictions or errors."""
    mean, std = evaluation.mean, evaluation.std
    ranks = [np.argsort(np.argsort(values, kind="stable"), kind="stable") for values in (mean, std)]
    chosen = {
        "a typical row": np.argmin(sum(np.abs(rank - (len(mean) - 1) / 2.0) for rank in ranks)),
        "the surest row": np.argmin(std),
        "the least sure row": np.argmax(std),
        "the lowest prediction": np.argmin(mean),
        "the highest prediction": np.argmax(mean),
        "the largest error": np.argmax(np.abs(evaluation.y - mean)),
    }
    return [{"label": label, "row": int(i), "observed": float(evaluation.y[i])} for label, i in chosen.items()]
