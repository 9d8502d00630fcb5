"""Transformers of the target, as those of scikit-learn, read as maps through which distributions can be carried back.

Transformers are known by their fitted attributes and by the functions they call, so that nothing is imported for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit

from bdkn.errors import InvalidParameterError
from bdkn.predictive import LogitLink, LogLink, YeoJohnsonLink
from bdkn.predictive.target_maps import AsinhLink, BoxCoxLink, QuantileLink, TargetMap

_LN2, _LN10 = float(np.log(2.0)), float(np.log(10.0))

_FUNCTIONS: dict[Any, TargetMap] = {
    None: TargetMap(),
    np.positive: TargetMap(),
    np.log: TargetMap(LogLink()),
    np.log1p: TargetMap(LogLink(-1.0)),
    np.log2: TargetMap(LogLink(), unit=_LN2),
    np.log10: TargetMap(LogLink(), unit=_LN10),
    np.sqrt: TargetMap(BoxCoxLink(0.5), unit=2.0, shift=-2.0),
    np.square: TargetMap(BoxCoxLink(2.0), unit=0.5, shift=-0.5),
    np.arcsinh: TargetMap(AsinhLink()),
    logit: TargetMap(LogitLink()),
}
"""Functions of the target and their maps."""

_POINTS = np.array([0.125, 0.5, 0.875])
"""Targets at which a function and its inverse are compared."""

KNOWN = (
    "np.log, np.log1p, np.log2, np.log10, np.sqrt, np.square, np.arcsinh or scipy.special.logit with their inverses, "
    "StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PowerTransformer, QuantileTransformer, or a pipeline "
    "of them"
)


def target_maps(transformer: Any) -> tuple[TargetMap, ...]:
    """Return the maps of a fitted transformer of the target, the last step of a pipeline first."""
    if hasattr(transformer, "steps"):
        steps = [step for _, step in transformer.steps if step is not None and step != "passthrough"]
        return tuple(map_ for step in reversed(steps) for map_ in target_maps(step))
    kind = type(transformer).__name__
    if hasattr(transformer, "inverse_func"):
        return (_function_map(transformer),)
    if kind == "PowerTransformer":
        return _power_maps(transformer)
    if kind == "QuantileTransformer":
        return (_quantile_map(transformer),)
    if kind in _SCALERS:
        return (_SCALERS[kind](transformer),)
    raise InvalidParameterError(
        f"the distribution of a transformed target needs a transformer that is known to increase: {KNOWN}; got {kind}. "
        "Or fit the regressor to the target itself: its target='auto' chooses a transformation"
    )


def _function_map(transformer: Any) -> TargetMap:
    func, inverse = transformer.func, transformer.inverse_func
    try:
        found = _FUNCTIONS.get(func)
    except TypeError:  # a function that cannot be hashed
        found = None
    if found is None or not _is_inverse(func, inverse):
        names = tuple(getattr(f, "__name__", str(f)) for f in (func, inverse))
        raise InvalidParameterError(
            "the distribution of a transformed target needs a function that is known to increase, and its inverse: "
            f"{KNOWN}; got func={names[0]}, inverse_func={names[1]}"
        )
    return found


def _is_inverse(func: Any, inverse: Any) -> bool:
    if func is None or inverse is None:
        return func is None and inverse is None
    return bool(np.allclose(inverse(func(_POINTS)), _POINTS, rtol=1e-10)) and (func is not logit or inverse is expit)


def _number(value: Any, default: float) -> float:
    return default if value is None else float(np.ravel(value)[0])


_SCALERS = {
    # It knows the mean even where it does not subtract it.
    "StandardScaler": lambda t: TargetMap(
        unit=_number(t.scale_, 1.0), shift=_number(t.mean_ if t.with_mean else None, 0.0)
    ),
    "RobustScaler": lambda t: TargetMap(unit=_number(t.scale_, 1.0), shift=_number(t.center_, 0.0)),
    "MaxAbsScaler": lambda t: TargetMap(unit=_number(t.scale_, 1.0)),
    "MinMaxScaler": lambda t: TargetMap(
        unit=1.0 / _number(t.scale_, 1.0), shift=-_number(t.min_, 0.0) / _number(t.scale_, 1.0)
    ),
}


def _power_maps(transformer: Any) -> tuple[TargetMap, ...]:
    power = float(transformer.lambdas_[0])
    link = BoxCoxLink(power) if transformer.method == "box-cox" else YeoJohnsonLink(power)
    if not transformer.standardize:
        return (TargetMap(link),)
    scaler = _SCALERS["StandardScaler"](transformer._scaler)
    return (TargetMap(link, scaler.unit, scaler.shift),)


def _quantile_map(transformer: Any) -> TargetMap:
    quantiles = np.asarray(transformer.quantiles_[:, 0], dtype=np.float64)
    repeated = int(np.sum(np.diff(quantiles) <= 0.0))
    if repeated:
        raise InvalidParameterError(
            "a QuantileTransformer of the target has a density only if its quantiles differ; here "
            f"{repeated} of {len(quantiles)} repeat the one before: use fewer n_quantiles, or a PowerTransformer"
        )
    return TargetMap(QuantileLink(quantiles, transformer.references_, transformer.output_distribution == "normal"))
