"""Boosted trees that predict a mean and a variance: NGBoost and CatBoost, with or without early stopping."""

from __future__ import annotations

from typing import Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from bdkn.predictive import Gaussian
from bdkn.typing import FloatArray
from bdkn_paper.peers.peer import Peer

Rows = tuple[FloatArray, FloatArray]


class NGBoost(Peer):
    """Natural gradient boosting of a Gaussian, ``ngboost.NGBRegressor``; it uses one thread, whatever ``n_jobs`` says.

    With ``early_stopping_rounds``, ``validation_fraction`` of the training rows are held out, and predictions are those
    of the iteration that was best on them. The library itself would also use the iterations after it.
    """

    module, packages = "ngboost", ("ngboost",)

    def __init__(
        self,
        *,
        n_estimators: int = 500,
        learning_rate: float = 0.01,
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.1,
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Fit to the rows of ``X`` and their targets."""
        library = self.library()
        # Its trees break ties with NumPy's global generator; with a seed, the same fit gives the same bits.
        tree = clone(library.learners.default_tree_learner).set_params(random_state=self.random_state)
        self.model_ = library.NGBRegressor(
            Base=tree,
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            random_state=self.random_state,
            verbose=False,
        )
        if self.early_stopping_rounds is None:
            self.model_.fit(X, y)
            self.iterations_ = len(self.model_.base_models)
        else:
            (X, y), (X_val, y_val) = hold_out(X, y, self.validation_fraction, self.random_state)
            self.model_.fit(X, y, X_val=X_val, Y_val=y_val, early_stopping_rounds=self.early_stopping_rounds)
            self.iterations_ = self.model_.best_val_loss_itr + 1
        return self

    def predict_dist(self, X: FloatArray) -> Gaussian:
        """Return the Gaussian of each row."""
        dist = self.model_.pred_dist(X, max_iter=self.iterations_)
        return Gaussian(dist.loc, dist.scale)


class CatBoost(Peer):
    """``catboost.CatBoostRegressor`` with the loss RMSEWithUncertainty, which is a Gaussian's log-likelihood.

    With ``early_stopping_rounds``, ``validation_fraction`` of the training rows are held out, and the iterations after
    the one that was best on them are dropped.
    """

    module, packages = "catboost", ("catboost",)

    def __init__(
        self,
        *,
        iterations: int = 1000,
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.1,
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.iterations = iterations
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Fit to the rows of ``X`` and their targets."""
        stops = self.early_stopping_rounds is not None
        self.model_ = self.library().CatBoostRegressor(
            iterations=self.iterations,
            loss_function="RMSEWithUncertainty",
            early_stopping_rounds=self.early_stopping_rounds,
            use_best_model=stops,
            random_seed=self.random_state,
            thread_count=effective_n_jobs(self.n_jobs),
            allow_writing_files=False,
            verbose=False,
        )
        held = None
        if stops:
            (X, y), held = hold_out(X, y, self.validation_fraction, self.random_state)
        self.model_.fit(X, y, eval_set=held)
        self.iterations_ = self.model_.tree_count_
        return self

    def predict_dist(self, X: FloatArray) -> Gaussian:
        """Return the Gaussian of each row."""
        mean, variance = self.model_.predict(X, prediction_type="RMSEWithUncertainty").T
        return Gaussian(mean, np.sqrt(variance))


def hold_out(X: FloatArray, y: FloatArray, fraction: float, random_state: int | None) -> tuple[Rows, Rows]:
    """Return training and validation rows, the same for every method with the same seed."""
    X, X_held, y, y_held = train_test_split(X, y, test_size=fraction, random_state=random_state)
    return (X, y), (X_held, y_held)
