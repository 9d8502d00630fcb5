"""A fitted model as plain data: enough to compute its predictions in another program, such as a web page."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from bdkn.data.encoder import CategoryColumn, DateColumn, NumberColumn, TableEncoder, UnusedColumn
from bdkn.data.scaling import BEND, LIMIT, Standardizer
from bdkn.ensemble.networks import NetworkMembers
from bdkn.errors import BDKNError
from bdkn.inference.rowwise import triangular_order
from bdkn.model.density import NeighbourDensity
from bdkn.networks import MEAN_VARIANCE, EncodedNetworks, MixedNetworks, Networks, Predictor
from bdkn.predictive.links import ContinuedLink, IdentityLink, Link, LogitLink, LogLink, MirroredLink, YeoJohnsonLink

Described = dict[str, Any]
"""Type of a description of a model: a dictionary of numbers, texts, arrays, None, lists and dictionaries."""


class NotDescribedError(BDKNError):
    """A model has a part that plain data cannot describe; the message names the part."""


def describe_model(model: Any) -> Described:
    """Return the parts of a fitted model, ``model_`` of a regressor, as numbers, texts and arrays.

    The keys are ``networks``, ``targets``, ``combination`` (None: equal weights), ``extrapolation`` and ``density``
    (None: the model has no such part). Inputs of the networks are the columns of an array, or of a data frame as
    ``describe_columns`` encodes them. An error is raised if members are not networks of this library, or a part is an
    object of a user's own class.
    """
    if not isinstance(getattr(model, "members", None), NetworkMembers):
        raise NotDescribedError("its members are not networks of this package")
    ensemble, names = model.members.ensemble, ("combination", "extrapolation", "density")
    networks, targets = ensemble.networks, ensemble.targets
    combination, extrapolation, density = (getattr(model, name, None) for name in names)
    is_mixed = isinstance(networks, MixedNetworks)
    found: Described = {
        "networks": {
            "inputs": _describe_standardizer(ensemble.inputs),
            "stacks": [_describe_stack(stack) for stack in (networks.stacks if is_mixed else [networks])],
            "order": (networks.order if is_mixed else np.arange(len(networks))).tolist(),
            "folds": ensemble.n_folds,
            "members": len(ensemble),
            "variances": None if ensemble.variances is None else ensemble.variances.tolist(),
        },
        "targets": {
            "mean": targets.mean,
            "scale": targets.scale,
            "link": None if targets.is_linear else _describe_link(targets.link),
        },
        "combination": None,
        "extrapolation": None,
        "density": None if density is None else _describe_density(density),
    }
    if combination is not None:  # with a triangular root of the precision of the weights
        posterior = combination.posterior
        order = triangular_order(posterior.root)
        found["combination"] = {
            "mean": posterior.mean,
            "root": posterior.root[:, order],
            "order": order.tolist(),
            "unit": posterior.b / posterior.a,
            "tempering": combination.tempering,
            "df": combination.tails.df,
            "factor": combination.averaging * combination.tails.scale,
            "intercept": combination.intercept,
        }
    if extrapolation is not None:
        support = extrapolation.support
        if support.columns.known:
            raise NotDescribedError("some of its columns hold no numbers")
        found["extrapolation"] = {
            "columns": {name: getattr(support.columns, name) for name in ("center", "scale", "low", "high")},
            "prototypes": support.prototypes,
            "typical_distance": support.typical,
            "slopes": extrapolation.slopes,
            "typical": extrapolation.typical,
            "usual": extrapolation.usual,
        }
    return found


def describe_columns(encoder: TableEncoder) -> list[Described]:
    """Return how each data frame column is converted to numbers (codes), and these to inputs of the networks.

    Each column has its ``name``, ``kind`` ("number", "boolean", "duration", "date", "category", "text" or "unused") and
    ``n_codes``. Missing numbers, booleans, durations or dates have the code ``fill``. With ``missing``, a second code
    is 1 for a missing value and else 0. A date also has the sine and cosine of the day in each of the ``cycles``, in
    days. The code of a category is the index of its value among the k ``values``, k for a missing value and k + 1 for
    any other; its inputs are the row of ``inputs`` with this number.
    """
    found = []
    for column in encoder.columns:
        described: Described = {"name": column.name, "kind": "text", "n_codes": column.n_codes}
        if isinstance(column, NumberColumn):
            described |= {"kind": column.kind, "fill": column.fill, "missing": column.some_missing}
        elif isinstance(column, DateColumn):
            described |= {"kind": "date", "fill": column.fill, "missing": column.some_missing}
            described["cycles"] = list(column.cycles)
        elif isinstance(column, CategoryColumn):
            described |= {"kind": "category", "values": list(column.values), "missing": column.some_missing}
            described["inputs"] = column.inputs
        elif isinstance(column, UnusedColumn):
            described["kind"] = "unused"
        found.append(described)
    return found


def _describe_standardizer(inputs: Any) -> Described:
    if not isinstance(inputs, Standardizer):
        raise NotDescribedError("its columns are encoded by an object of your own")
    return {"mean": inputs.mean, "scale": inputs.scale, "outliers": inputs.outliers, "bend": BEND, "limit": LIMIT}


def _describe_stack(stack: Predictor) -> Described:
    """Return layer widths, activation, weights (networks, parameters) and input bins of networks of equal shape."""
    encoding = stack.encoding if isinstance(stack, EncodedNetworks) else None
    plain = stack.networks if isinstance(stack, EncodedNetworks) else stack
    if not isinstance(plain, Networks) or plain.spec.head != MEAN_VARIANCE:
        raise NotDescribedError(
            "its networks are of a class of your own, or have another output than mean and variance"
        )
    parameters = [part.reshape(len(plain), -1) for layer in plain.layers for part in layer]
    bins = ("columns", "lower", "width", "mean", "scale")
    return {
        "count": len(plain),
        "widths": list(plain.spec.widths),
        "activation": plain.spec.activation,
        "weights": np.concatenate(parameters, axis=1),
        "bins": None if encoding is None else {name: getattr(encoding, name) for name in bins},
    }


_LINKS: dict[type, str] = {
    IdentityLink: "identity",
    LogLink: "log",
    LogitLink: "logit",
    YeoJohnsonLink: "power",
    MirroredLink: "mirrored",
    ContinuedLink: "continued",
}


def _describe_link(link: Link) -> Described:
    """Return the name and the parameters of a target transformation; infinite bounds are None."""
    if type(link) not in _LINKS:
        raise NotDescribedError("its target is transformed by a link of your own")
    found: Described = {"kind": _LINKS[type(link)]}
    for field in fields(link):  # type: ignore[arg-type]
        value = getattr(link, field.name)
        found[field.name] = _describe_link(value) if field.name == "link" else _finite(value)
    return {**found, "support": _finite(link.support), "near": _finite(link.near), "breaks": list(link.breaks)}


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_finite(part) for part in value]
    return float(value) if np.isfinite(value) else None


def _describe_density(density: NeighbourDensity) -> Described:
    """Return the arrays of a neighbour density: forest, targets and errors of training rows, mixture weights.

    Nodes are in depth-first order. Thresholds are given for nodes that split, and numbers of rows for leaves; the right
    child and the rows of each node can be computed from these.
    """
    near, forest = density.neighbours, density.neighbours.forest
    is_leaf = forest.feature < 0
    kinds = [
        {
            "of_errors": bool(of_errors),
            "broad": bool(is_broad),
            "first": int(first),
            "last": int(last),
            "width": float(bandwidth if of_errors else bandwidth * near.unit),
            "power": float(power),
        }
        for (of_errors, is_broad, _, bandwidth, power), first, last in zip(
            near.kinds, *near.kind_arrays[2:4], strict=True
        )
    ]
    return {
        "inputs": _describe_standardizer(near.inputs),
        "forest": {
            "feature": forest.feature,
            "threshold": forest.threshold[~is_leaf],
            "size": (forest.stop - forest.start)[is_leaf],
            "rows": forest.rows,
            "copies": forest.copies,
        },
        "targets": near.targets,
        "errors": near.errors,
        "floor": near.floor,
        "kinds": kinds,
        "knots": density.knots.tolist(),
        "shares": density.shares.tolist(),
        "tilt": density.tilt,
        "even": density.calibration[1],
        "narrowing": density.narrowing,
    }
