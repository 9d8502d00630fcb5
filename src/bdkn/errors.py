"""Exceptions and warnings of the library, and checks of parameters that raise them."""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
import reprlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

MAX_WHOLE = 2**63 - 1
"""Maximum integer that a parameter can be: the largest signed integer of 64 bits."""

_MAX_CHOICES = 50
"""Maximum number of allowed names that an error message lists."""

_MAX_SHOWN = 200
"""Maximum number of characters with which a message shows a value."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = _MAX_SHOWN
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 12


class BDKNError(Exception):
    """Base class of the errors that this library raises.

    Examples
    --------
    >>> from bdkn import BDKNError, BDKNRegressor
    >>> try:
    ...     BDKNRegressor(epochs=0).fit([[0.0], [1.0]], [0.0, 1.0])
    ... except BDKNError as error:
    ...     print(type(error).__name__)
    InvalidParameterError
    """


class InvalidParameterError(BDKNError, ValueError):
    """A parameter has a value that is not allowed.

    The message names the parameter, the values that are allowed and the value that was given.

    Examples
    --------
    >>> from bdkn import BDKNRegressor
    >>> BDKNRegressor(design="crossfit").fit([[0.0], [1.0]], [0.0, 1.0])
    Traceback (most recent call last):
    ...
    bdkn.errors.InvalidParameterError: design must be one of 'cross-fit', ...; did you mean 'cross-fit'?
    """


class ImproperPosteriorError(BDKNError, ValueError):
    """Prior and data together do not determine all weights, so there is no posterior distribution."""


class DivergedError(BDKNError, RuntimeError):
    """Every member of an ensemble diverged, or a member's prediction is not finite, so that nothing can be predicted.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> broken = lambda X: np.full(len(X), np.nan)
    >>> BayesianStackingRegressor([("broken", broken)]).fit(np.eye(9), np.arange(9.0))
    Traceback (most recent call last):
    ...
    bdkn.errors.DivergedError: all 1 members diverged: ...
    """


class MissingExtraError(BDKNError, ImportError):
    """An optional package is not installed; the message names the extra that installs it."""


class ModelFileError(BDKNError, ValueError):
    """A model file is damaged, is of another kind, or has a format that this version cannot read.

    Examples
    --------
    >>> import tempfile
    >>> import bdkn
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     bdkn.load(file.name)
    Traceback (most recent call last):
    ...
    bdkn.errors.ModelFileError: ... cannot be read as a bdkn model ...
    """


class ClusterError(BDKNError, RuntimeError):
    """A cluster could not finish a fit because workers were lost repeatedly, or the connection was lost."""


class DivergedMemberWarning(UserWarning):
    """Some members diverged and are not used.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> members = [("broken", lambda X: np.full(len(X), np.nan)), ("column", lambda X: X[:, 0])]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = BayesianStackingRegressor(members, random_state=0).fit(np.eye(9), np.arange(9.0))
    >>> caught[0].category.__name__, model.member_names_
    ('DivergedMemberWarning', ('column',))
    """


class RepeatedRowsWarning(UserWarning):
    """Rows of the training table repeat other rows, and are counted once.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from bdkn import BDKNRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = BDKNRegressor(n_members=2, epochs=5, random_state=0).fit(np.tile(X, (3, 1)), np.tile(y, 3))
    >>> print(str(caught[0].message).partition(",")[0])
    100 of 150 rows repeat another row
    """


class ColumnsWarning(UserWarning):
    """Columns of a table are not used because they were not in the fit, or should not be used.

    Examples
    --------
    >>> import warnings
    >>> import pandas as pd
    >>> from bdkn.data.encoder import TableEncoder
    >>> encoder = TableEncoder.fit(pd.DataFrame({"area": [50.0, 60.0]}))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     inputs = encoder.transform(pd.DataFrame({"area": [55.0], "colour": ["red"]}))
    >>> print(caught[0].message)
    1 column that the fit did not have is ignored: 'colour'
    """


class ExtremeTargetWarning(UserWarning):
    """A few training targets are extreme outliers, which determine the scale of all predictions.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from bdkn import BDKNRegressor
    >>> X, y = np.linspace(0, 1, 50)[:, None], np.linspace(0, 1, 50)
    >>> y[7] = 1e30
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = BDKNRegressor(n_members=2, epochs=5, random_state=0).fit(X, y)
    >>> print(str(caught[0].message).partition(";")[0])
    1 of 50 targets is extreme: y[7] = 1e+30
    """


class OutsideDataWarning(UserWarning):
    """Many rows to predict are far from all training rows.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> X = np.linspace(-1.0, 1.0, 60)[:, None]
    >>> model = BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     mean = model.predict(X + 10.0)
    >>> caught[0].category.__name__
    'OutsideDataWarning'
    """


class FewRowsWarning(UserWarning):
    """There are too few held-out rows to estimate the noise and to select members reliably.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = BayesianStackingRegressor([("column", lambda X: X[:, 0])]).fit(np.eye(5), np.arange(5.0))
    >>> print(caught[0].category.__name__)
    FewRowsWarning
    """


def warn_user(text: str, category: type[Warning]) -> None:
    """Issue a warning that shows the line of the user's code that called this library."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "bdkn":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level + 1)


def missing_extra(package: str, extra: str, distribution: str = "bdkn") -> MissingExtraError:
    """Return the error for a missing package that ``pip install "bdkn[extra]"`` installs."""
    return MissingExtraError(
        f'this needs {package}, which is not installed; run: pip install "{distribution}[{extra}]"'
    )


def require(*packages: str, extra: str) -> None:
    """Raise ``MissingExtraError`` for the first of ``packages`` that is not installed; do not import them."""
    for package in packages:
        if find_spec(package) is None:
            raise missing_extra(package, extra)


def check_choice(name: str, given: object, allowed: Iterable[str]) -> None:
    """Raise unless ``given`` is one of ``allowed``; the message suggests the most similar name."""
    names = list(allowed)
    if isinstance(given, str) and given in names:
        return
    hint = did_you_mean(given, names)
    raise InvalidParameterError(f"{name} must be one of {listed(names, _MAX_CHOICES)}; got {shown(given)}{hint}")


def did_you_mean(given: object, names: Iterable[object]) -> str:
    """Return the end of a message that suggests the name most similar to ``given``; empty if no name is similar."""
    texts = [name for name in names if isinstance(name, str)]
    near = difflib.get_close_matches(given, texts, n=1) if isinstance(given, str) else []
    return f"; did you mean {near[0]!r}?" if near else ""


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
    """Raise unless ``given`` is a finite number from ``low`` to ``high``.

    With ``strict`` it must be greater than ``low``, with ``whole`` an integer; with ``infinite`` it may be infinite. An
    integer must fit into 64 bits, as compiled code requires.
    """
    if whole:
        high = min(high, MAX_WHOLE)
    if isinstance(given, numbers.Integral if whole else numbers.Real) and not isinstance(given, bool):
        is_integer = isinstance(given, numbers.Integral)
        value: Any = given if is_integer else _as_float(given)
        finite = math.isfinite(_as_float(value)) or (infinite and not is_integer)
        if (low < value if strict else low <= value) and value <= high and finite:
            return
    what = "an integer" if whole else "a number"
    too_large = isinstance(given, int) and given > high
    bounded = too_large or (high < math.inf and high != MAX_WHOLE)
    bound = f"{'>' if strict else '>='} {low:g}" + (f" and <= {high:g}" if bounded else "")
    end = " and finite" if isinstance(given, float) and given == math.inf else ""
    raise InvalidParameterError(f"{name} must be {what} {bound}{end}; got {shown(given)}")


def _as_float(given: Any) -> float:
    """Return a number as a float, infinite if it is too large for one."""
    try:
        return float(given)
    except OverflowError:
        return math.inf if given > 0 else -math.inf


def shown(given: object) -> str:
    """Return a value as shown in a message, shortened if it is long."""
    try:
        if type(given).__name__ in ("str_", "bytes_"):  # NumPy types, shown as plain Python values
            given = given.item()  # type: ignore[attr-defined]
        return _SHORT.repr(given) if isinstance(given, int | str | bytes | list | tuple | dict | set) else _cut(given)
    except Exception:  # its repr fails
        return f"an object of the type {type(given).__name__}"


def listed(names: Iterable[object], most: int = 30) -> str:
    """Return names as a comma-separated text for a message, each written as in code, at most ``most`` of them."""
    given = list(names)
    more = f" and {len(given) - most:,} more" if len(given) > most else ""
    return ", ".join(map(shown, given[:most])) + more


def _cut(given: object) -> str:
    text = repr(given)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def check_flag(name: str, given: object) -> None:
    """Raise unless ``given`` is True or False, as a bool of Python or of NumPy."""
    if type(given).__name__ not in ("bool", "bool_"):
        raise InvalidParameterError(f"{name} must be True or False; got {shown(given)}")


def check_verbosity(name: str, given: object) -> None:
    """Raise unless ``given`` is True, False or an integer >= 0."""
    if not isinstance(given, bool):
        check_number(name, given, low=0, whole=True)


def check_n_jobs(name: str, given: Any) -> None:
    """Raise unless ``given`` is None or an integer other than 0."""
    whole = isinstance(given, numbers.Integral) and not isinstance(given, bool)
    if given is not None and not (whole and 0 < abs(int(given)) <= MAX_WHOLE):
        raise InvalidParameterError(f"{name} must be None or an integer other than 0; got {shown(given)}")


Constraint = Callable[[str, Any], None]
"""Function that checks a parameter, given its name and value, and raises ``InvalidParameterError`` if it is wrong."""


def check_parameters(given: object, constraints: Mapping[str, Constraint]) -> None:
    """Check the attributes of an object that ``constraints`` names; raise if a value is not allowed."""
    for name, check in constraints.items():
        check(name, getattr(given, name))


def check_options(name: str, given: object, *, cls: type, constraints: Mapping[str, Constraint]) -> None:
    """Raise unless ``given`` is None, or an instance of ``cls`` whose attributes have allowed values."""
    if given is None:
        return
    if not isinstance(given, cls):
        raise InvalidParameterError(f"{name} must be None or bdkn.{cls.__name__}(...); got {shown(given)}")
    check_parameters(given, constraints)


def check_or(name: str, given: object, *, names: tuple[str | None, ...], check: Constraint) -> None:
    """Raise unless ``given`` is one of ``names`` (which may include None), or is not a string and passes ``check``."""
    if given is None and None in names:
        return
    if not isinstance(given, str) or names == (None,):
        check(name, given)
    elif names != ("auto",):
        check_choice(name, given, [one for one in names if one is not None])
    elif given != "auto":
        raise InvalidParameterError(f"{name}, if a string, must be 'auto'; got {given!r}")


def check_each(name: str, given: Any, *, check: Constraint, each: str | None = None) -> None:
    """Raise unless a value, or each value of a list, passes ``check``; ``each`` is the name in messages."""
    import numpy as np

    several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    if several and (np.ndim(given) != 1 or not len(given)):
        raise InvalidParameterError(f"{name} must be one value, or a list of values to take in turn; got {given!r}")
    for value in given if several else [given]:
        check(each or name, value)


def check_layers(name: str, given: Any) -> None:
    """Raise unless ``given`` is the number of units of a layer, or a list of such numbers, which may be empty."""
    import numpy as np

    is_known = isinstance(given, int | np.integer | Sequence | np.ndarray)
    if not is_known or np.ndim(given) > 1:
        raise InvalidParameterError(f'{name} must be an integer, a list of them, or "auto"; got {given!r}')
    for width in np.atleast_1d(np.asarray(given)).tolist():
        check_number(f"each of {name}", width, low=1, whole=True)


def check_trainer(name: str, given: object) -> None:
    """Raise unless ``given`` has the method ``train``, with which engines train networks."""
    if not hasattr(given, "train"):
        raise InvalidParameterError(f"{name} must be a name or an object with a method train; got {given!r}")


def check_bound(name: str, given: object) -> None:
    """Raise unless ``given``, a bound of the target, is None or a finite number."""
    is_finite = isinstance(given, numbers.Real) and math.isfinite(_as_float(given))
    if given is not None and not is_finite:
        raise InvalidParameterError(f"{name} must be a finite number, or None for no bound; got {shown(given)}")


_is_inner_model: ContextVar[bool] = ContextVar("_is_inner_model", default=False)
"""True while no ``OutsideDataWarning`` is to be issued, as when a model predicts with its members."""


@contextmanager
def no_extrapolation_warnings() -> Iterator[None]:
    """Suppress ``OutsideDataWarning`` inside the block, for members of a model that issues the warning itself."""
    token = _is_inner_model.set(True)
    try:
        yield
    finally:
        _is_inner_model.reset(token)


def warns_of_extrapolation() -> bool:
    """Return whether predictions may issue ``OutsideDataWarning`` now."""
    return not _is_inner_model.get()


@contextmanager
def parquet_errors(place: str) -> Iterator[None]:
    """Convert errors of Arrow inside the block to an error that names the Parquet file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidParameterError(
            f"{place} cannot be read as Parquet ({reason}); it is damaged, incomplete or of another kind"
        ) from error
