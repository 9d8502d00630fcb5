"""Exceptions and warnings of the library, and checks of parameters that raise them."""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
import warnings
from collections.abc import Iterable
from importlib.util import find_spec


class BDKNError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidParameterError(BDKNError, ValueError):
    """A parameter is outside what it may be; the message names it, what is allowed and what was given."""


class ImproperPosteriorError(BDKNError, ValueError):
    """Prior and data together leave some weight undetermined, so no posterior exists."""


class DivergedError(BDKNError, RuntimeError):
    """Every member of an ensemble diverged, so there is nothing to predict with."""


class MissingExtraError(BDKNError, ImportError):
    """An optional package is needed; the message says which extra to install."""


class ModelFileError(BDKNError, ValueError):
    """A model file is damaged, foreign, or of a format this version cannot read."""


class DivergedMemberWarning(UserWarning):
    """Some members diverged and were left out."""


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn with the line of the code that called this library."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "bdkn":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level + 1)


def missing_extra(package: str, extra: str, distribution: str = "bdkn") -> MissingExtraError:
    """Return the error for a package that only ``pip install "bdkn[extra]"`` installs."""
    return MissingExtraError(
        f'this needs {package}, which is not installed; run: pip install "{distribution}[{extra}]"'
    )


def require(*packages: str, extra: str) -> None:
    """Raise ``MissingExtraError`` for the first of ``packages`` that is not installed; nothing is imported."""
    for package in packages:
        if find_spec(package) is None:
            raise missing_extra(package, extra)


def check_choice(name: str, given: object, allowed: Iterable[str]) -> None:
    """Raise unless ``given`` is one of ``allowed``; the message suggests the nearest name."""
    names = list(allowed)
    if isinstance(given, str) and given in names:
        return
    near = difflib.get_close_matches(str(given), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidParameterError(f"{name} must be one of {', '.join(map(repr, names))}; got {given!r}{hint}")


def check_number(
    name: str,
    given: object,
    *,
    low: float,
    high: float = math.inf,
    strict: bool = False,
    whole: bool = False,
    infinite: bool = False,
) -> None:
    """Raise unless ``given`` is a number in [low, high]; ``strict``: above low, ``whole``: an integer.

    Infinity is a number only where ``infinite`` says so.
    """
    if isinstance(given, numbers.Integral if whole else numbers.Real) and not isinstance(given, bool):
        value = float(given)
        if (low < value if strict else low <= value) and value <= high and (infinite or math.isfinite(value)):
            return
    what = "an integer" if whole else "a number"
    bound = f"{'>' if strict else '>='} {low:g}" + ("" if high == math.inf else f" and <= {high:g}")
    finite = " and finite" if given == math.inf else ""
    raise InvalidParameterError(f"{name} must be {what} {bound}{finite}; got {given!r}")


def check_flag(name: str, given: object) -> None:
    """Raise unless ``given`` is True or False, be it NumPy's."""
    if type(given).__name__ not in ("bool", "bool_"):
        raise InvalidParameterError(f"{name} must be True or False; got {given!r}")


def check_verbosity(verbose: object) -> None:
    """Raise unless ``verbose`` is True, False or an integer >= 0."""
    if not isinstance(verbose, bool):
        check_number("verbose", verbose, low=0, whole=True)


def check_n_jobs(n_jobs: object) -> None:
    """Raise unless ``n_jobs`` is None or an integer other than 0."""
    if n_jobs is not None and not (isinstance(n_jobs, numbers.Integral) and n_jobs != 0):
        raise InvalidParameterError(f"n_jobs must be None or an integer other than 0; got {n_jobs!r}")
