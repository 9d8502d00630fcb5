"""The model that `bdkn fit` makes, and the estimate of how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bdkn.cli.estimate import LEFT_OUT, Estimate, left_out_estimate
from bdkn.cli.labelled import Labelled
from bdkn.errors import InvalidParameterError, check_choice

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
        from bdkn.regressors import BDKNRegressor, DeepEnsembleRegressor

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
