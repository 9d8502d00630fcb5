"""Schemas of links and of the encoders of columns and targets."""

from __future__ import annotations

import math

import numpy as np

from bdkn.members import Standardizer, TargetScaler
from bdkn.members.target_values import TargetValues
from bdkn.persistence.schema import Content, Flag, Maybe, Number, Pair, Part, Schema, flags, floats, must
from bdkn.predictive import ContinuedLink, IdentityLink, LogitLink, LogLink, MirroredLink, YeoJohnsonLink
from bdkn.predictive.links import Link

_BOUND = Number(infinite=True)
_POSITIVE = Number(above=0.0)
_BOUNDS: dict[str, Content] = {"lower": _BOUND, "upper": _BOUND, "near": Pair(_BOUND, _BOUND)}

LINKS = (ContinuedLink, IdentityLink, LogLink, LogitLink, MirroredLink, YeoJohnsonLink)
"""The classes of links."""


def _check_support(link: Link) -> None:
    lower, upper = link.support
    must(lower < upper, "the lower bound must be below the upper one")


def _check_near(link: IdentityLink | YeoJohnsonLink) -> None:
    _check_support(link)
    (lower, upper), (low, high) = link.support, link.near
    must(low <= high and low < math.inf and high > -math.inf, "near must be in order")
    must((math.isinf(low) or math.isfinite(lower)) and (math.isinf(high) or math.isfinite(upper)), "near needs bounds")
    must((low >= lower or math.isinf(low)) and (high <= upper or math.isinf(high)), "near must be within the bounds")


def _check_continued(link: ContinuedLink) -> None:
    """Raise unless the link holds, with a finite slope, at both ends of the range that it is continued from."""
    (lower, upper), ends = link.support, np.array([link.low, link.high])
    must(lower <= link.low < link.high <= upper, "low and high must be in order, and within the bounds")
    with np.errstate(all="ignore"):
        numbers = (*link.link.forward(ends), *np.exp(link.link.log_derivative(ends)))
        must(np.isfinite(numbers).all() and numbers[0] < numbers[1], "the link must be finite at low and high")


def _check_values(found: TargetValues) -> None:
    must(bool((np.diff(found.values) > 0.0).all()), "values must be in increasing order")
    must(bool((found.shares <= 1.0).all()), "shares must not exceed one")


SCHEMAS = (
    Schema(IdentityLink, _BOUNDS, _check_near),
    Schema(LogLink, {"lower": Number()}),
    Schema(LogitLink, {"lower": Number(), "upper": Number()}, _check_support),
    Schema(MirroredLink, {"link": Part(LogLink)}),
    Schema(
        YeoJohnsonLink,
        {"power": Number(low=0.0, high=2.0), "centre": Number(), "unit": _POSITIVE, **_BOUNDS},
        _check_near,
    ),
    Schema(
        ContinuedLink,
        {"link": Part(LogLink, LogitLink, MirroredLink, YeoJohnsonLink), "low": Number(), "high": Number()},
        _check_continued,
    ),
    Schema(
        TargetValues,
        {"values": floats("k"), "shares": floats("k", low=0.0), "is_lattice": Flag()},
        _check_values,
        {"k": 1},
    ),
    Schema(
        TargetScaler,
        {"mean": Number(), "scale": _POSITIVE, "link": Part(*LINKS), "values": Maybe(Part(TargetValues))},
    ),
    Schema(
        Standardizer,
        {"mean": floats("p"), "scale": floats("p", above=0.0), "wild": Maybe(flags("p"))},
        least={"p": 1},
    ),
)
