"""bdkn fit."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bdkn.cli.labelled import Labelled, Roles, read_labelled
from bdkn.cli.model_files import record_making
from bdkn.cli.terminal import AsJson, Coverage, Data, Jobs, Quiet, Screen, Seed, Target, errors_as_messages, number
from bdkn.errors import InvalidParameterError, check_choice

if TYPE_CHECKING:
    from bdkn.predictive import Predictive
    from bdkn.typing import FloatArray


LEFT_OUT = "rows left out of training"


@dataclass(frozen=True)
class Estimate:
    """Scores of predictions for ``rows`` rows; ``level`` is the probability that each interval should hold.

    ``typical_error`` is the median absolute error, ``r2`` the share of the squared error that is saved in comparison
    with predicting the mean, ``how`` a sentence about where the rows come from, ``whose`` what they are called.
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
        """Return the scores of predictions ``dist`` for targets ``y``."""
        import numpy as np

        from bdkn.metrics import summary

        scores = summary(y, dist, level, counts)
        around = np.average((y - np.average(y, weights=counts)) ** 2, weights=counts)
        r2 = 1.0 - scores["rmse"] ** 2 / around if around > 0 else float("nan")
        typical = float(np.median(np.abs(y - dist.mean())))
        kept = {name: scores[name] for name in ("rmse", "nll", "crps", "coverage", "interval_width")}
        return cls(rows=len(y), typical_error=typical, r2=float(r2), level=level, how=how, whose=whose, **kept)

    def sentences(self, target: str) -> list[str]:
        """Return the estimate in plain words."""
        inside = round(self.coverage * self.rows)
        return [
            f"{self.how} ({self.rows:,} rows):",
            f"  Half of the predictions of {target!r} are off by less than {number(self.typical_error)}; "
            f"the root mean squared error is {number(self.rmse)}.",
            f"  {_explained(self.r2)}",
            f"  {inside:,} of {self.rows:,} {self.whose} ({self.coverage:.1%}) lay inside their {self.level:.0%} "
            f"interval, which is {number(self.interval_width)} wide on average.",
            f"  To compare models on the same rows; smaller is better: NLL {number(self.nll)}, "
            f"CRPS {number(self.crps)}.",
        ]

    def numbers(self) -> dict[str, Any]:
        """Return the estimate as numbers by name."""
        return asdict(self)


def left_out_estimate(model: Any, level: float) -> Estimate | None:
    """Return the estimate from the rows that a fit left out in turn; None if it left out none.

    Members predict rows that they were not trained on, and the weights of the members are learned from all rows but the
    one that is predicted. Densities of neighbours are not part of it.
    """
    held_out = getattr(model, "held_out_", None)
    if held_out is None or len(held_out.y) < 2:
        return None
    targets = model.target_scaler_
    student = model.combination_.leave_one_out(held_out.forecast(), held_out.y, held_out.counts)
    dist = targets.restore(student.affine(targets.scale, targets.mean))
    how = "Estimated from rows that were left out of training in turn"
    return Estimate.of(targets.inverse(held_out.y), dist, level, how, held_out.counts, LEFT_OUT)


def _explained(r2: float) -> str:
    if r2 != r2:
        return "All rows have the same target, so there is nothing to explain."
    if not r2 > 0.0:
        return f"The inputs tell nothing about it: predicting the mean for every row is as good (R² = {r2:.3f})."
    return f"The squared error is {r2:.0%} smaller than that of predicting the mean for every row (R² = {r2:.3f})."


METHODS = ("bdkn", "deep-ensemble", "stack")
_SHARE = 5
"""One of so many rows is left out for the estimate of a method that leaves out none itself."""


@dataclass(frozen=True)
class Training:
    """The checked options of a fit."""

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
        check_choice("--effort", self.effort, ("fast", "balanced", "best"))
        if self.jobs == 0:
            raise InvalidParameterError("--jobs must be an integer other than 0; got 0")
        if self.method == "stack":
            raise InvalidParameterError(
                "--method stack cannot be written to a model file: its members are models of scikit-learn, which only "
                "pickle can write, and a pickle runs code when it is read. Use --method bdkn; `bdkn compare` tells how "
                "good a stack would be, and BayesianStackingRegressor makes one in Python"
            )
        if self.method == "deep-ensemble" and (self.lower is not None or self.upper is not None):
            raise InvalidParameterError("--lower and --upper need --method bdkn; a deep ensemble knows no bounds")

    def fit(self, rows: Labelled) -> tuple[Any, Estimate]:
        """Return the fitted model and the estimate."""
        if self.method == "bdkn":
            model = self._model().fit(rows.X, rows.y, sample_weight=rows.weights, groups=rows.groups)
            return model, left_out_estimate(model, self.coverage) or self._one_split(rows)
        estimate = self._one_split(rows)
        return self._model().fit(rows.X, rows.y, sample_weight=rows.weights), estimate

    def _model(self) -> Any:
        """Return the regressor, not fitted."""
        from bdkn.estimators import BDKNRegressor, DeepEnsembleRegressor

        common: dict[str, Any] = {"effort": self.effort, "random_state": self.seed, "n_jobs": self.jobs}
        common |= {"verbose": self.verbose, "time_limit": self.time_limit}
        if self.method == "deep-ensemble":
            known = DeepEnsembleRegressor().get_params()
            return DeepEnsembleRegressor(**{name: value for name, value in common.items() if name in known})
        return BDKNRegressor(**common, lower=self.lower, upper=self.upper, cv=self._folds())

    def _folds(self) -> Any:
        if not self.ordered:
            return None
        from sklearn.model_selection import TimeSeriesSplit

        return TimeSeriesSplit(n_splits=5)

    def _one_split(self, rows: Labelled) -> Estimate:
        """Return the estimate from one fifth of the rows, predicted by a model that is fitted to the others."""
        train, test = self._split(rows)
        model = self._model().fit(train.X, train.y, sample_weight=train.weights)
        how = "Estimated from a fifth of the rows, left out of a fit for this purpose"
        return Estimate.of(test.y, model.predict_dist(test.X), self.coverage, how, test.weights, LEFT_OUT)

    def _split(self, rows: Labelled) -> tuple[Labelled, Labelled]:
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


HELP = """Learn to predict a column of a table, and write the model to a file.

Columns may hold numbers, true/false, dates and text, with gaps. The fit ends with an estimate of how good predictions
for new rows will be, from rows that were left out of training.

Example:

    bdkn fit flats.csv --target price --drop id --out flats.bdkn
"""


def fit(
    data: Data,
    target: Target,
    out: Annotated[Path, typer.Option(help="Model file to write.", show_default=False)],
    method: Annotated[str, typer.Option(help="bdkn or deep-ensemble.")] = "bdkn",
    features: Annotated[str | None, typer.Option(help="Input columns: a,b,c. All others if not given.")] = None,
    drop: Annotated[str | None, typer.Option(help="Columns that are no inputs: x,y.")] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Column of labels; rows with the same label are left out together, as of one patient."),
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of dates or numbers; later rows are predicted from earlier ones.")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Column that says how many times each row counts.")] = None,
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
    """Learn to predict a column of a table, and write the model to a file."""
    with errors_as_messages():
        from bdkn.table_files import check_output, format_of

        screen = Screen(json=as_json, quiet=quiet)
        verbose = int(not quiet and sys.stderr.isatty())
        training = Training(method, effort, coverage, seed, time_limit, lower, upper, jobs, time is not None, verbose)
        if time is not None and groups is not None:
            from bdkn.errors import InvalidParameterError

            raise InvalidParameterError("--time and --groups cannot both divide the rows; give one of them")
        check_output(out, data)
        format_of(data)
        rows = read_labelled(data, Roles.of(target, features, drop, groups, time, weights), screen)
        screen.progress(f"Fitting {method} to {len(rows):,} rows and {rows.X.shape[1]} columns of {data}")
        with screen.noting_warnings():
            model, estimate = training.fit(rows)
        tell_columns(model, screen)
        record_making(model, data=data.name, target=target, rows=len(rows), estimate=estimate.numbers())
        model.save(out)
        screen.say(*estimate.sentences(target), f"Model: {out}")
        screen.finish({"model": str(out), "target": target, "inputs": list(rows.X.columns), **_as_result(estimate)})


def tell_columns(model: Any, screen: Screen) -> None:
    """Note the columns that carry nothing, if the model says which."""
    for row in getattr(getattr(model, "columns_", None), "rows", ()):
        if row.get("kind") in ("constant", "identifier", "copy", "empty"):
            screen.note(f"column {row['name']!r} is not used: {row['why']}")


def _as_result(estimate: Any) -> dict[str, Any]:
    return {"estimate": estimate.numbers()}
