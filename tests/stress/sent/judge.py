"""The judge of one call: a right result, or exactly one clear error; anything else is a fault."""

from __future__ import annotations

import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scipy.linalg import LinAlgWarning

from bdkn.errors import BDKNError

_CUSTOMARY = re.compile(
    r"\b(X|y|sample_weight|groups|features?|Input|array|Complex|[Ss]parse|string to float|real number|n_samples|samples"
    r"|fit|os\.PathLike|cv|n_splits|folds|arguments?|rows|columns|dtype|estimator|member)\b"
)
"""Words of which the messages of scikit-learn's own checks have one."""

_OF_FILES = ("there is no file", "name too long", "is a folder")

_BARE = (
    IndexError,
    KeyError,
    AttributeError,
    ZeroDivisionError,
    OverflowError,
    UnboundLocalError,
    NameError,
    AssertionError,
    RecursionError,
    MemoryError,
    StopIteration,
)
"""Errors that say nothing to a user, whatever their message."""


@dataclass
class Judge:
    """Counts calls and keeps one example of each fault."""

    tried: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    faults: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def call(
        self,
        part: str,
        entry: str,
        function: Callable[[], Any],
        *,
        given: str,
        check: Callable[[Any], None] = lambda result: None,
        must: str = "either",
    ) -> Any:
        """Call a function and judge what it does; ``must`` is "answer", "refuse" or "either"."""
        self.tried[part] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            try:
                result = function()
            except Exception as error:
                self.refused[part] += 1
                why = _unclear(error)
                if why or must == "answer":
                    self._fault(part, entry, f"{why or 'refused'}: {type(error).__name__}: {error}", given, error)
                return None
            try:
                if must == "refuse":
                    raise AssertionError("was not refused")
                check(result)
            except Exception as error:
                self._fault(part, entry, f"wrong result: {type(error).__name__} {error}", given, error)
            return result

    def _fault(self, part: str, entry: str, what: str, given: str, error: BaseException) -> None:
        self.wrong[part] += 1
        place = _place(error)
        key = (entry, f"{what[:60]} {place}")
        found = self.faults.setdefault(key, [])
        if len(found) < 3:
            found.append(f"{what[:400]}\n      at {place}\n      given {given[:300]}")

    def show(self) -> str:
        """Return all faults as text."""
        lines = []
        for (entry, _), examples in sorted(self.faults.items()):
            lines.append(f"{entry}: {examples[0]}")
        return "\n".join(lines)


def _unclear(error: Exception) -> str:
    """Return why an error is not clear; nothing if it is."""
    text = str(error)
    if isinstance(error, BDKNError):
        return "" if len(text) > 20 else "says too little"
    if isinstance(error, LinAlgWarning):  # a member of scikit-learn tells that its columns are nearly dependent
        return ""
    if isinstance(error, RuntimeWarning):
        return "warning of arithmetic"
    if isinstance(error, OSError) and any(words in text for words in _OF_FILES):
        return ""
    if isinstance(error, _BARE):
        return "bare error"
    if isinstance(error, (ValueError, TypeError)) and _CUSTOMARY.search(text) and "ambiguous" not in text:
        return ""
    return "unclear error"


def _place(error: BaseException) -> str:
    """Return the last line of this library through which an error came."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/bdkn" in frame.filename]
    last = traceback.extract_tb(error.__traceback__)[-1]
    frame = ours[-1] if ours else last
    return f"{frame.filename.partition('/src/')[2] or frame.filename}:{frame.lineno}"
