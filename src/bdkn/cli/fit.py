"""The command ``bdkn fit``, which fits a model to a table and writes it to a file."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bdkn.cli.inputs import Labelled, Roles, read_labelled, record_making
from bdkn.cli.terminal import (
    AsJson,
    Coverage,
    Data,
    Drop,
    Features,
    Groups,
    Jobs,
    Quiet,
    Screen,
    Seed,
    Target,
    Time,
    names_of,
    number,
)
from bdkn.errors import InvalidParameterError, check_choice

if TYPE_CHECKING:
    from bdkn.predictive import Predictive
    from bdkn.typing import FloatArray

METHODS = ("bdkn", "deep-ensemble", "stack")
EFFORTS = ("fast", "balanced", "best")

_SHARE = 5
"""Inverse of the fraction of rows that are held out to estimate errors, for methods that hold out none themselves."""


@dataclass(frozen=True)
class Estimate:
    """Scores of predictions for ``rows`` rows with known targets; ``level`` is the probability of the intervals.

    ``typical_error`` is the median absolute error, ``r2`` the coefficient of determination. ``how`` is the beginning of
    a sentence about the source of the rows. ``whose`` is the noun for the rows in sentences, such as "held-out rows".
    """

    rows: int
    rmse: float
    typical_error: float
    r2: float
    nll: float
    crps: float
    level: float
    coverage: float
    interval_width: float
    how: str
    whose: str = "rows"

    @classmethod
    def of(
        cls,
        y: FloatArray,
        dist: Predictive,
        level: float,
        how: str,
        counts: FloatArray | None = None,
        whose: str = "rows",
    ) -> Estimate:
        """Return the scores of the predicted distributions ``dist`` for the observed targets ``y``."""
        import numpy as np

        from bdkn.metrics import summary

        scores = summary(y, dist, level, counts)
        around = np.average((y - np.average(y, weights=counts)) ** 2, weights=counts)
        r2 = 1.0 - scores["rmse"] ** 2 / around if around > 0 else float("nan")
        typical = float(np.median(np.abs(y - dist.mean())))
        kept = {name: scores[name] for name in ("rmse", "nll", "crps", "coverage", "interval_width")}
        return cls(rows=len(y), typical_error=typical, r2=float(r2), level=level, how=how, whose=whose, **kept)

    def sentences(self, target: str) -> list[str]:
        """Return lines of text that describe the scores in words."""
        inside = round(self.coverage * self.rows)
        if self.r2 != self.r2:
            gain = "All rows have the same target, so there is nothing to explain."
        elif self.r2 > 0.0:
            gain = f"The squared error is {self.r2:.0%} smaller than that of predicting the mean for every row"
            gain += f" (R² = {self.r2:.3f})."
        else:
            gain = "The inputs are of no use for these rows: predicting the mean for every row is as good"
            gain += f" (R² = {self.r2:.3f})."
        return [
            f"{self.how} ({self.rows:,} rows):",
            f"  Half of the predictions of {target!r} are off by less than {number(self.typical_error)}; "
            f"the root mean squared error is {number(self.rmse)}.",
            f"  {gain}",
            f"  {inside:,} of {self.rows:,} {self.whose} ({self.coverage:.1%}) lie inside their {self.level:.0%} "
            f"interval, which is {number(self.interval_width)} wide on average.",
            f"  To compare models on the same rows; smaller is better: NLL {number(self.nll)}, "
            f"CRPS {number(self.crps)}.",
        ]


def held_out_estimate(model: Any, level: float) -> Estimate | None:
    """Return the scores of the held-out predictions that were made in a fit; None if the fit held out no rows."""
    from bdkn.analysis.inspection import held_out_predictions

    found = held_out_predictions(model)
    if found is None:
        return None
    how = "Estimated from rows that were held out of training in turn"
    return Estimate.of(found.y, found.dist, level, how, found.counts, "held-out rows")


@dataclass(frozen=True)
class Training:
    """The checked options of ``bdkn fit``, with methods that make the regressor and fit it."""

    method: str = "bdkn"
    effort: str = "balanced"
    coverage: float = 0.9
    seed: int = 0
    time_limit: float | None = None
    lower: float | None = None
    upper: float | None = None
    jobs: int = -1
    ordered: bool = False
    verbose: int = 0

    def __post_init__(self) -> None:
        check_choice("--method", self.method, METHODS)
        check_choice("--effort", self.effort, EFFORTS)
        if self.jobs == 0:
            raise InvalidParameterError("--jobs must be an integer other than 0; got 0")
        if self.method == "deep-ensemble" and (self.lower, self.upper, self.time_limit) != (None, None, None):
            raise InvalidParameterError(
                "--lower, --upper and --time-limit need --method bdkn or stack; a deep ensemble takes no bounds and no "
                "limit of time, but --effort fast"
            )

    def fit(self, rows: Labelled) -> tuple[Any, Estimate]:
        """Fit a model to all rows; return it with an estimate of its errors, from held-out rows."""
        model, estimate = self.regressor(), None
        if self.method != "deep-ensemble":
            model.fit(rows.X, rows.y, sample_weight=rows.weights, groups=rows.groups)
            estimate = held_out_estimate(model, self.coverage)
        if estimate is None:  # one fifth of the rows is predicted by a model that is fitted to the others
            train, test = self._split(rows)
            judged = self.regressor().fit(train.X, train.y, sample_weight=train.weights)
            how = "Estimated from a fifth of the rows, held out of a fit for this purpose"
            dist = judged.predict_dist(test.X)
            estimate = Estimate.of(test.y, dist, self.coverage, how, test.weights, "held-out rows")
        if self.method == "deep-ensemble":
            model.fit(rows.X, rows.y, sample_weight=rows.weights)
        return model, estimate

    def regressor(self) -> Any:
        """Return an unfitted regressor with these options."""
        from sklearn.model_selection import TimeSeriesSplit

        from bdkn.estimators import BayesianStackingRegressor, BDKNRegressor, DeepEnsembleRegressor

        classes = (BDKNRegressor, DeepEnsembleRegressor, BayesianStackingRegressor)
        made: Any = classes[METHODS.index(self.method)]()
        options = {
            "effort": self.effort,
            "random_state": self.seed,
            "n_jobs": self.jobs,
            "verbose": self.verbose,
            "time_limit": self.time_limit,
            "lower": self.lower,
            "upper": self.upper,
        }
        if self.ordered:
            options["cv"] = TimeSeriesSplit(n_splits=5)
        known = made.get_params(deep=False)
        return made.set_params(**{name: value for name, value in options.items() if name in known})

    def _split(self, rows: Labelled) -> tuple[Labelled, Labelled]:
        """Return training rows and test rows. A fifth are test rows: the last ones, whole groups, or random ones."""
        import numpy as np
        from sklearn.model_selection import GroupShuffleSplit

        n, few = len(rows), max(2, len(rows) // _SHARE)
        if n < 2 * few:
            raise InvalidParameterError(f"an estimate of the error needs at least 4 rows with a target; got {n}")
        if self.ordered:
            return rows[np.arange(n - few)], rows[np.arange(n - few, n)]
        if rows.groups is not None:
            split = GroupShuffleSplit(1, test_size=1 / _SHARE, random_state=self.seed)
            train, test = next(split.split(rows.X, groups=rows.groups))
            return rows[train], rows[test]
        order = np.random.default_rng(self.seed).permutation(n)
        return rows[order[few:]], rows[order[:few]]


def fit(
    data: Data,
    target: Target,
    out: Annotated[Path, typer.Option(help="Model file to write.", show_default=False)],
    method: Annotated[str, typer.Option(help="bdkn, stack or deep-ensemble.")] = "bdkn",
    features: Features = None,
    drop: Drop = None,
    groups: Groups = None,
    time: Time = None,
    weights: Annotated[str | None, typer.Option(help="Column with the number of times each row counts.")] = None,
    effort: Annotated[str, typer.Option(help="fast, balanced or best.")] = "balanced",
    coverage: Coverage = 0.9,
    lower: Annotated[float | None, typer.Option(help="Lowest number that the target can be.")] = None,
    upper: Annotated[float | None, typer.Option(help="Highest number that the target can be.")] = None,
    time_limit: Annotated[float | None, typer.Option(min=0.1, help="Seconds that training should take.")] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn to predict a column of a table, and write the model to a file.

    Columns may hold numbers, true/false, dates and text, with missing values. The fit ends with an estimate of the
    errors of predictions for new rows, from held-out rows.

    Example:

        bdkn fit flats.csv --target price --drop id --out flats.bdkn
    """
    from bdkn.table_files import check_output, format_of

    screen = Screen(json=as_json, quiet=quiet)
    verbose = int(not quiet and sys.stderr.isatty())
    training = Training(method, effort, coverage, seed, time_limit, lower, upper, jobs, time is not None, verbose)
    if time is not None and groups is not None:
        raise InvalidParameterError("--time and --groups cannot both divide the rows; give one of them")
    check_output(out, data)
    format_of(data)
    roles = Roles(target, names_of(features), names_of(drop), groups, time, weights)
    rows = read_labelled(data, roles, screen)
    screen.progress(f"Fitting {method} to {len(rows):,} rows and {rows.X.shape[1]} columns of {data}")
    with screen.noting_warnings():
        model, estimate = training.fit(rows)
    for row in model.columns_.rows:
        if row["kind"] in ("constant", "identifier", "empty"):
            screen.note(f"column {row['name']!r} is not used: {row['why']}")
    record_making(model, data=data.name, target=target, rows=len(rows), estimate=asdict(estimate))
    model.save(out)
    screen.write(*estimate.sentences(target), f"Model: {out}")
    inputs = list(rows.X.columns)
    screen.finish({"model": str(out), "target": target, "inputs": inputs, "estimate": asdict(estimate)})
