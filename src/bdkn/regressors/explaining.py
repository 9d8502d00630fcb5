"""Shapley values of predictions, by sampling orders of the columns in opposite pairs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.errors import InvalidParameterError, OutsideDataWarning, check_number
from bdkn.members.provenance import Seed, seed_sequence
from bdkn.predictive import GaussianMixture, Predictive
from bdkn.regressors.explanation import Explanation
from bdkn.regressors.mixed_rows import MixedRows, column_names, dense, stack_rows, take_rows
from bdkn.typing import FloatArray, IndexArray

_ROWS_AT_ONCE = 1 << 15
"""Rows that are predicted at once."""

_MOST_BACKGROUND = 384
"""Rows of the background that are predicted, to draw from them evenly."""

_FOR_FEW, _FOR_MANY, _FEW_ROWS = 800, 500, 20
"""Predictions by default: for each of few rows, and for each of many."""

_LEAST_SAMPLES, _MOST_SAMPLES = 8, 128
"""Pairs of orders by default."""

Outputs = Callable[[Any], FloatArray]
"""A function of a table (m, p) that returns what is explained (m, K)."""


def moments_of(dist: Predictive) -> dict[str, FloatArray]:
    """Return mean and variance, and the parts of the variance of an ensemble's mixture."""
    mean = dist.mean()
    if not isinstance(dist, GaussianMixture):
        return {"mean": mean, "variance": dist.var()}
    noise = np.einsum("nh,nh->n", dist.weights, dist.scale**2)
    apart = np.einsum("nh,nh->n", dist.weights, (dist.loc - mean[:, None]) ** 2)
    return {"mean": mean, "variance": noise + apart, "noise": noise, "disagreement": apart}


def explain(
    model: Any,
    X: Any,
    background: Any,
    n_samples: int | None,
    max_rows: int | None,
    variance: bool,
    random_state: Seed,
) -> Explanation:
    """Return the Shapley values of the predictions of rows; see ``ProbabilisticRegressor.explain``."""
    generator = np.random.default_rng(seed_sequence(random_state))
    table = dense(X)
    others = table if background is None else dense(background, "background")
    _check_background(others, background is None)
    rows = some_rows(table.shape[0], max_rows, generator)
    n_samples = _default_samples(len(rows), table.shape[1]) if n_samples is None else n_samples
    check_number("n_samples", n_samples, low=2, whole=True)
    n_samples = int(n_samples)  # it may be an integer of 8 bits
    source = take_rows(others, some_rows(others.shape[0], max(n_samples, _MOST_BACKGROUND), generator))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDataWarning)  # mixed rows may be far from all training rows
        chosen = _evenly(model._centres(model._rows(source)), min(n_samples, source.shape[0]), generator)
        mixed, names = mixed_rows(model, take_rows(table, rows), take_rows(source, chosen))
        predict = predictor(model, mixed, variance=variance)
        return _Sampler.of(mixed, predict, len(rows), len(chosen), n_samples, generator).explain(rows, names)


def _default_samples(n_rows: int, n_columns: int) -> int:
    predictions = _FOR_FEW if n_rows <= _FEW_ROWS else _FOR_MANY
    return int(np.clip(predictions // max(1, 2 * (n_columns - 1)), _LEAST_SAMPLES, _MOST_SAMPLES))


def some_rows(n: int, most: int | None, generator: np.random.Generator) -> IndexArray:
    """Return the numbers of all n rows or, if they are more than ``most``, of some drawn at random, ascending."""
    if most is not None:
        check_number("max_rows", most, low=1, whole=True)
    if most is None or n <= most:
        return np.arange(n)
    return np.sort(generator.choice(n, int(most), replace=False))


def mixed_rows(model: Any, X: Any, source: Any) -> tuple[MixedRows, tuple[str, ...]]:
    """Return the rows of two tables, as the model receives them after checks where it can, and names of the columns."""
    names = tuple(map(str, getattr(model, "feature_names_in_", column_names(X))))
    first, second = model._rows(X), model._rows(source)
    encoder = getattr(model, "table_", None)
    groups = [[j] for j in range(len(names))] if encoder is None else getattr(encoder, "column_groups", None)
    if isinstance(first, np.ndarray) and groups is not None and first.shape[1] == sum(map(len, groups)):
        owner = np.empty(first.shape[1], dtype=np.intp)
        for j, group in enumerate(groups):
            owner[list(group)] = j
        return MixedRows(stack_rows(first, second), owner, len(names)), names
    given = tuple(map(str, column_names(X)))
    return MixedRows(stack_rows(X, source), None, len(given)), given


def predictor(model: Any, mixed: MixedRows, *, variance: bool) -> Outputs:
    """Return the function that predicts what is explained, with the names as its attribute ``names``."""

    def predict(table: Any) -> FloatArray:
        rows = table if mixed.owner is not None else model._rows(table)
        found = model._mean_and_variances(rows) if variance else {"mean": model._predictive(rows).mean()}
        predict.__dict__["names"] = tuple(found)
        return np.stack(list(found.values()), axis=1)

    return predict


def _check_background(background: Any, is_default: bool) -> None:
    if background.shape[0] < 2:
        raise InvalidParameterError(
            "a prediction is explained by comparing it with those of other rows, of which there must be 2; got "
            f"{background.shape[0]}{' in X' if is_default else ''}: give background=, for example the training rows"
        )


@dataclass(frozen=True, eq=False)
class _Sampler:
    """Rows to explain, numbered from 0 in ``mixed``, with their predictions, and rows of the background with theirs.

    ``background`` are numbers of rows in ``mixed``, each of which is used ``rounds`` times.
    """

    mixed: MixedRows
    predict: Outputs
    own: FloatArray
    background: IndexArray
    base: FloatArray
    rounds: int
    generator: np.random.Generator

    @classmethod
    def of(
        cls, mixed: MixedRows, predict: Outputs, n: int, n_others: int, n_samples: int, generator: np.random.Generator
    ) -> _Sampler:
        """Return the sampler of n rows, after predictions of all rows as they are."""
        plain = np.broadcast_to(np.arange(n + n_others)[:, None], (n + n_others, mixed.n_columns))
        outputs = _in_blocks(mixed, predict, plain)
        _check_finite(outputs)
        background, rounds = n + np.arange(n_others), -(-n_samples // n_others)
        return cls(mixed, predict, outputs[:n], background, outputs[n:], rounds, generator)

    def explain(self, rows: IndexArray, names: tuple[str, ...]) -> Explanation:
        """Return the explanation of all rows."""
        p, pairs = self.mixed.n_columns, self.rounds * len(self.background)
        step = max(1, _ROWS_AT_ONCE // max(1, 2 * pairs * (p - 1)))
        parts = [self._values(np.arange(i, min(i + step, len(rows)))) for i in range(0, len(rows), step)]
        values, errors = (np.concatenate(part) for part in zip(*parts, strict=True))
        outputs = tuple(self.predict.__dict__["names"])
        return Explanation(names, outputs, rows, self.base.mean(axis=0), self.own, values, errors)

    def _values(self, rows: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Return the values (m, p, K) of some rows, and their standard errors."""
        p, background = self.mixed.n_columns, np.tile(np.arange(len(self.background)), self.rounds)
        ranks = self._ranks((len(rows), len(background), p))
        steps = self._along(rows, background, ranks)
        added = np.take_along_axis(np.diff(steps, axis=3), ranks[..., None], axis=3).mean(axis=2)
        # The background is in the order of its predicted means, so that only differences between neighbours are error.
        error = np.sqrt(np.mean(np.diff(added, axis=1) ** 2, axis=1) / (2.0 * added.shape[1]))
        return added.mean(axis=1), error

    def _ranks(self, shape: tuple[int, int, int]) -> IndexArray:
        """Return the places (m, pairs, 2, p) of the columns in random orders and in the opposite ones."""
        ranks = np.argsort(self.generator.random(shape), axis=2)
        return np.stack([ranks, shape[2] - 1 - ranks], axis=2)

    def _along(self, rows: IndexArray, background: IndexArray, ranks: IndexArray) -> FloatArray:
        """Return the outputs (m, pairs, 2, p + 1, K) as one column after the other is replaced."""
        m, pairs, _, p = ranks.shape
        K = self.own.shape[1]
        steps = np.empty((m, pairs, 2, p + 1, K))
        steps[..., 0, :] = self.base[background][None, :, None]
        steps[..., p, :] = self.own[rows][:, None, None]
        if p > 1:
            replaced = ranks[..., None, :] < np.arange(1, p)[:, None]
            others = self.background[background][None, :, None, None, None]
            numbers = np.where(replaced, rows[:, None, None, None, None], others).reshape(-1, p)
            steps[..., 1:p, :] = _in_blocks(self.mixed, self.predict, numbers).reshape(m, pairs, 2, p - 1, K)
        return steps


def _in_blocks(mixed: MixedRows, predict: Outputs, numbers: IndexArray) -> FloatArray:
    parts = (numbers[i : i + _ROWS_AT_ONCE] for i in range(0, len(numbers), _ROWS_AT_ONCE))
    return np.concatenate([predict(mixed.take(part)) for part in parts])


def _evenly(means: FloatArray, size: int, generator: np.random.Generator) -> IndexArray:
    """Return row numbers, one drawn from each of ``size`` equal shares of the rows in the order of their means."""
    edges = np.linspace(0, len(means), size + 1)
    places = (edges[:-1] + generator.random(size) * np.diff(edges)).astype(np.intp)
    order: IndexArray = np.argsort(means, kind="stable")
    return np.asarray(order[np.unique(np.minimum(places, len(means) - 1))])


def _check_finite(outputs: FloatArray) -> None:
    if not np.isfinite(outputs).all():
        raise InvalidParameterError(
            f"variances can be explained where they are finite; {int((~np.isfinite(outputs)).any(axis=1).sum())} of "
            f"{len(outputs)} rows have none, as the model has two degrees of freedom or fewer: give variance=False"
        )
