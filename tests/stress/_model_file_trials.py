"""One trial of ``model_files``: a changed file, what must hold when it is loaded, and the files to change."""

from __future__ import annotations

import json
import random
import resource
import time
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import bdkn
from _model_file_changes import CHANGES, Content, container
from bdkn.errors import BDKNError, ModelFileError
from bdkn.estimators.registry import restore
from bdkn.storage.archive import from_bytes, read

TINY = {"n_members": 2, "epochs": 2, "hidden_layer_sizes": (3,), "cv": 2, "random_state": 0, "n_jobs": 1}
SLOW = 20.0
MEMORY = 4 << 30
SHARES = [0.25 if kind == "order of arrays" else 1.0 for kind in CHANGES]
"""How often each kind of change is tried; most files with another order load, and predict, which takes longest."""


def rows(n: int = 40) -> tuple[Any, Any]:
    """Return rows and targets of a small table."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + 0.3 * rng.normal(size=n)


def frame(n: int = 60) -> Any:
    """Return a data frame with columns of all kinds, or None if pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        return None
    rng = np.random.default_rng(0)
    number = rng.normal(size=n)
    return pd.DataFrame(
        {
            "number": number,
            "some": np.where(rng.random(n) < 0.2, np.nan, number),
            "word": rng.choice(["u", "v", "w"], n),
            "day": pd.date_range("2020-01-01", periods=n, freq="36h"),
            "same": ["x"] * n,
        }
    )


def make_files(folder: Path) -> None:
    """Write the files that are changed, unless they are there."""
    if (folder / "made").exists():
        return
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {
            "networks": bdkn.BDKNRegressor(**TINY, density="student-t").fit(X, y),
            "bins": bdkn.BDKNRegressor(**TINY, n_bins=3, activation="relu", target="log").fit(X, np.exp(y)),
            "ensemble": bdkn.DeepEnsembleRegressor(**{k: v for k, v in TINY.items() if k != "cv"}).fit(X, y),
            "updated": bdkn.BDKNRegressor(**TINY).fit(X, y).partial_fit(X[:5], y[:5]),
            "shaped": _shaped(),
            "stack": _stack(X, y),
        }
        if (table := frame()) is not None:
            target = np.round(np.exp(table["number"].to_numpy()))
            models["frame"] = bdkn.BDKNRegressor(**TINY, density="student-t").fit(table, target)
        for name, model in models.items():
            model.save(folder / f"{name}.bdkn")
    (folder / "made").touch()


def _shaped() -> Any:
    """Return a model whose predictions have a shape learned from neighbours: targets have two humps."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 2))
    y = np.where(rng.random(120) < 0.5, -2.0, 2.0) * (X[:, 0] > 0) + 0.05 * rng.normal(size=120)
    model = bdkn.BDKNRegressor(**{**TINY, "epochs": 20}).fit(X, y)
    assert model.density_ is not None, "the file of a shape has one"
    return model


def _stack(X: Any, y: Any) -> Any:
    member = bdkn.BDKNRegressor(**TINY, density="student-t")
    other = bdkn.DeepEnsembleRegressor(n_members=1, epochs=2, hidden_layer_sizes=(2,), n_jobs=1)
    named = [("one", member), ("two", other)]
    return bdkn.BayesianStackingRegressor(named, cv=2, density="student-t", random_state=0).fit(X, y)


class Original:
    """A file that is changed: its content, rows to predict, and what its model predicts for them."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self.arrays, document = read(path)
        self.document = json.dumps(document)
        self.n_columns = bdkn.load(path).n_features_in_

    @cached_property
    def X(self) -> Any:
        """Rows to predict."""
        n = self.n_columns
        return frame().iloc[:4] if self.name == "frame" else 0.5 * np.random.default_rng(2).normal(size=(4, n))

    @cached_property
    def expected(self) -> Any:
        """What its model predicts."""
        return predict(container(Content(self.arrays, self.document)), self.X)


def predict(content: bytes, X: Any) -> Any:
    """Return what the model of a file's content predicts."""
    return predictions(loaded(content), X)


def loaded(content: bytes) -> Any:
    """Return the model of a file's content, as ``bdkn.load`` does."""
    return restore(*from_bytes(content, "the file"), "the file")


def predictions(model: Any, X: Any) -> Any:
    """Return standard deviations, means and ends of intervals, as the rows of an array."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        mean, std = model.predict(X, return_std=True)
        return np.array([std, mean, *model.predict_interval(X).T])


class Trials:
    """The trials by number; each chooses a file and changes by random numbers of its own."""

    def __init__(self, folder: Path) -> None:
        names = sorted(folder.glob("*.bdkn"))
        self.originals = [Original(path) for path in names]
        for original in self.originals:  # what is imported and compiled once is no part of a trial
            _ = original.expected
        _limit_memory()

    def content(self, number: int) -> tuple[Original, str, bytes, bool, list[str]]:
        """Return the file that is changed, the kind of change, the changed file, if it was extreme, and notes."""
        chance = random.Random(number)
        original = self.originals[number % len(self.originals)]
        changed = Content(original.arrays, original.document)
        (kind,) = chance.choices(list(CHANGES), SHARES)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            CHANGES[kind](changed, chance)
        return original, kind, container(changed), changed.is_extreme, changed.notes

    def outcome(self, number: int) -> str:
        """Return what came of a trial: what, and the kind of change."""
        original, kind, content, is_extreme, _ = self.content(number)
        started = time.process_time()
        what = judge(original, content, is_extreme)
        if time.process_time() - started > SLOW:
            what = "WRONG slow"
        return f"{what} in trial {number}:{kind}" if what.startswith("WRONG") else f"{what}:{kind}"


def _limit_memory() -> None:
    """Let this process take ``MEMORY`` more than it has, where the system tells how much that is."""
    sizes = Path("/proc/self/statm")
    if sizes.exists():
        most = int(sizes.read_text(encoding="utf-8").split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


_FEW_DEGREES = 0.005
"""With fewer degrees of freedom the 5 % quantile, about 0.05^(-1/df), is beyond the largest number."""


def _degrees(model: Any, X: Any) -> float:
    """Return the degrees of freedom of predictions, where they have some."""
    known = getattr(model, "dof_", None)
    return float(np.min(getattr(model.predict_dist(X), "df", np.inf) if known is None else known))


def judge(original: Original, content: bytes, is_extreme: bool) -> str:
    """Return what comes of loading a changed file."""
    try:
        parts = from_bytes(content, "the file")
    except ModelFileError:
        return "refused"
    except Exception as error:
        return f"WRONG load raised {type(error).__name__}"
    try:
        model = restore(*parts, "the file")
    except ModelFileError as error:
        return "refused" if _is_checked(error) else f"WRONG last resort {type(error.__cause__).__name__}"
    except Exception as error:
        return f"WRONG load raised {type(error).__name__}"
    try:
        found = predictions(model, original.X)
        is_expected = _same(found, original.expected)
        again = found if is_expected else predict(content, original.X)
    except BDKNError:
        return "told when predicting"
    except Exception as error:
        return f"WRONG predict raised {type(error).__name__}"
    if is_expected:
        return "same predictions"
    if not _same(found, again):
        return "WRONG other predictions each time"
    if np.isfinite(found[1:]).all() and (found[0] >= 0).all():  # with two degrees of freedom, deviations are infinite
        return "another model"
    # 1e308 of something: the end of an interval overflows, as the quantiles of a Student-t with next to no df do.
    overflows = is_extreme or _degrees(model, original.X) < _FEW_DEGREES
    return "another model, overflows" if overflows and not np.isnan(found).any() else "WRONG not finite"


def _same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b, equal_nan=True))


def _is_checked(error: ModelFileError) -> bool:
    """Return whether a check refused the file, and not the last resort of ``load``."""
    return error.__cause__ is None or isinstance(error.__cause__, ModelFileError)


def describe(folder: Path, number: int) -> str:
    """Return what a trial changed, and what came of it, with the error."""
    trials = Trials(folder)
    original, kind, content, _, notes = trials.content(number)
    lines = [f"{original.name}: changed {kind}", *notes, trials.outcome(number)]
    try:
        model = loaded(content)
        lines.append(str(predictions(model, original.X)))
    except Exception as error:
        import traceback

        lines += [f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)[-6:])]
    return "\n".join(lines)
