"""Checks that an engine, which trains networks, does what this library relies on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError
from bdkn.networks import Engine, EpochReport, Job, NetworkSpec, Trained, TrainingConfig
from bdkn.networks.reference import ReferenceEngine
from bdkn.testing.encoders import require, require_close, require_equal
from bdkn.typing import FloatArray

_N_ROWS = 61
_SPEC = NetworkSpec(n_inputs=3, hidden=(6, 5), activation="tanh")
_CONFIG = TrainingConfig(epochs=6, batch_size=16, learning_rate=0.01)
_STOPPING = replace(_CONFIG, epochs=60, learning_rate=0.03, validation_fraction=0.25, patience=3, tol=1e-3)


def check_engine(engine: Engine, *, tolerance: float = 1e-3, same_as_reference: bool = True) -> None:
    """Check that an engine, which trains networks, does what every engine must do.

    Small networks are trained, which takes a few seconds. What is checked: networks come in the order of their jobs and
    do not depend on the other jobs, on ``n_jobs`` or on a hook; the same seed gives the same network; row numbers, of
    any integer type, select rows; a row with count k acts like k rows; early stopping follows its rule and returns the
    best weights; a hook gets one report per job and epoch, with outputs of the watched rows; diverging networks raise
    no error; wrong arguments raise ``InvalidParameterError``; results are equal to the reference engine's.

    Parameters
    ----------
    engine : Engine
        The engine to check.
    tolerance : float, default=1e-3
        Maximum difference, relative or absolute, of numbers that should be equal up to rounding.
    same_as_reference : bool, default=True
        Whether the networks must be equal to the reference engine's. False is for engines that train other networks.

    Raises
    ------
    AssertionError
        If the engine fails a check; the message begins with the name of the check.

    Examples
    --------
    >>> from bdkn.testing import check_engine
    >>> from bdkn.networks.reference import ReferenceEngine
    >>> check_engine(ReferenceEngine())
    """
    for name, check in engine_checks(same_as_reference=same_as_reference):
        try:
            check(engine, tolerance)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


Check = Callable[[Engine, float], None]


def engine_checks(*, same_as_reference: bool = True) -> list[tuple[str, Check]]:
    """Return the names and functions of the checks, each called with an engine and a tolerance."""
    chosen = _CHECKS if same_as_reference else tuple(check for check in _CHECKS if check is not check_reference)
    return [(check.__name__.removeprefix("check_"), check) for check in chosen]


def check_order(engine: Engine, tolerance: float) -> None:
    """Check that networks are in the order of their jobs and independent of other jobs and of the number of threads."""
    jobs, rows = _different_jobs(), _rows()
    together = engine.train(jobs, rows)
    lengths = {len(together.networks), len(together.loss_curves), len(together.best_epochs), len(jobs)}
    require(len(lengths) == 1, "there is one network, one loss curve and one best epoch per job")
    for number, job in enumerate(jobs):
        _require_same(together[[number]], engine.train([job], rows), tolerance, "a job is trained as if it were alone")
    results = [engine.train(_jobs(3), _rows(), n_jobs=n_jobs) for n_jobs in (None, 1, 2, -1)]
    for result in results[1:]:
        _require_same(result, results[0], 0.0, "the number of threads has no influence")


def check_seeds(engine: Engine, tolerance: float) -> None:
    """Check that equal seeds give equal networks, that other seeds give others, and that seeds are not changed."""
    seed = np.random.SeedSequence(7, spawn_key=(3,))
    first, again, other = (engine.train([Job(_SPEC, _CONFIG, s)], _rows()) for s in (seed, seed, _seeds(1)[0]))
    _require_same(first, again, 0.0, "the same seed gives the same network")
    require(not np.allclose(_outputs(first), _outputs(other), rtol=1e-3), "two seeds give different networks")
    require(seed.n_children_spawned == 0, "a seed is not changed")


def check_row_numbers(engine: Engine, tolerance: float) -> None:
    """Check that a job with row numbers is trained on these rows only, whatever the other rows contain."""
    numbers, rows = np.random.default_rng(4).permutation(_N_ROWS)[:47], _rows(counts=False)
    X, y = rows.X.copy(), rows.y.copy()
    others = np.setdiff1d(np.arange(_N_ROWS), numbers)
    X[others], y[others] = np.nan, np.inf
    for config in (_CONFIG, _STOPPING):
        job = Job(_SPEC, config, _seeds(1)[0])
        alone = engine.train([job], Rows(np.ascontiguousarray(rows.X[numbers]), rows.y[numbers]))
        for dtype in (np.int64, np.int32, np.uint8):
            given = numbers.astype(dtype)
            given.flags.writeable = False
            trained = engine.train([replace(job, rows=given)], Rows(X, y))
            _require_same(trained, alone, tolerance, "a job sees the rows of its row numbers only")


def check_counts(engine: Engine, tolerance: float) -> None:
    """Check that a row with count k acts like k equal rows, if all are in one batch; a common factor has no effect."""
    counts, rows, job = np.random.default_rng(5).integers(1, 4, _N_ROWS), _rows(counts=False), _jobs(1)[0]
    config = replace(_CONFIG, batch_size=200)
    repeated = rows[np.repeat(np.arange(_N_ROWS), counts)]
    expected = engine.train([replace(job, config=config)], repeated)
    for factor in (1.0, 10.0):
        counted = Rows(rows.X, rows.y, factor * counts.astype(np.float64))
        found = engine.train([replace(job, config=config)], counted)
        _require_same(found, expected, tolerance, "a row that counts k times is k equal rows")


def check_early_stopping(engine: Engine, tolerance: float) -> None:
    """Check that jobs stop by the rule of ``TrainingConfig``, with the weights of the best epoch."""
    reports: list[EpochReport] = []
    rows, config = _rows(), replace(_STOPPING, warmup_epochs=2)
    trained = engine.train(_jobs(3, config), rows, watch=rows.X, on_epoch=reports.append)
    means, variances = trained.networks.outputs(rows.X)
    for number, curve in enumerate(trained.validation_curves):
        require(len(curve) == len(trained.loss_curves[number]), "both curves of a job have one value per epoch")
        best, length = _stopping_rule(curve, config)
        require((trained.best_epochs[number], len(curve)) == (best, length), "a job stops by the rule")
        found = [(one.mean, one.variance) for one in reports if (one.job, one.epoch) == (number, best)]
        require(len(found) == 1, "there is one report per job and epoch")
        statement = "the weights of a network that stops early are those of its best epoch"
        _require_close(found[0], [means[number], variances[number]], tolerance, statement)
    without = engine.train(_jobs(2), rows)
    require(without.best_epochs == (_CONFIG.epochs - 1,) * 2, "without early stopping the last epoch is the best")
    require(not any(map(len, without.validation_curves)), "without early stopping there are no validation losses")


def check_reports(engine: Engine, tolerance: float) -> None:
    """Check that a hook gets one report per job and epoch, in the order of epochs, and changes no result."""
    rows, jobs = _rows(), [*_jobs(2), *_jobs(1, _STOPPING)]
    silent, seen = engine.train(jobs, rows), list[EpochReport]()
    trained = engine.train(jobs, rows, watch=rows.X[:4], on_epoch=seen.append)
    _require_same(trained, silent, 0.0, "a hook changes nothing")
    for number in range(len(jobs)):
        own = [report for report in seen if report.job == number]
        epochs = list(range(len(trained.loss_curves[number])))
        require([report.epoch for report in own] == epochs, "there is one report per job and epoch, in their order")
        require([report.is_last for report in own] == [epoch == epochs[-1] for epoch in epochs], "the last is marked")
        require_equal([report.loss for report in own], trained.loss_curves[number], "reports have the losses")
        validation = [report.validation_loss for report in own if report.validation_loss is not None]
        require_equal(validation, trained.validation_curves[number], "reports have the validation losses")
        watched = [report.mean is not None and report.mean.shape == (4,) for report in own]
        require(all(watched), "reports have the means of the watched rows")
    bare = list[EpochReport]()
    engine.train(jobs[:1], rows, on_epoch=bare.append)
    require(all(report.mean is None and report.variance is None for report in bare), "no watched rows, no outputs")


def check_divergence(engine: Engine, tolerance: float) -> None:
    """Check that a job that diverges raises no error, is marked as not finite, and does not affect other jobs."""
    rows, (good, bad) = _rows(), _jobs(2)
    y = rows.y.copy()
    y[0] = 1e300  # beyond single precision
    jobs = [replace(good, rows=np.arange(1, _N_ROWS)), bad]
    trained = engine.train(jobs, replace(rows, y=y))
    require(trained.networks.is_finite().tolist() == [True, False], "a network that diverges is not finite")
    alone = engine.train(jobs[:1], rows)
    _require_same(trained[[0]], alone, tolerance, "a job that diverges does not disturb others")


def check_errors(engine: Engine, tolerance: float) -> None:
    """Check that wrong arguments raise ``InvalidParameterError``."""
    rows, job = _rows(), _jobs(1)[0]
    wrong: list[tuple[Sequence[Job], Rows]] = [
        ([], rows),
        ([job], replace(rows, X=rows.X.astype(np.float64))),
        ([job], replace(rows, X=np.asfortranarray(rows.X))),
        ([replace(job, spec=replace(_SPEC, n_inputs=4))], rows),
        *(([replace(job, rows=np.array(numbers))], rows) for numbers in ([-1], [_N_ROWS], [], [0.5])),
    ]
    for jobs, table in wrong:
        try:
            engine.train(jobs, table)
        except InvalidParameterError:
            continue
        require(False, f"jobs {jobs} on X of {table.X.dtype} {table.X.shape} raise InvalidParameterError")


def check_networks(engine: Engine, tolerance: float) -> None:
    """Check that trained networks can be selected by number, and that outputs of a row do not depend on other rows."""
    rows = _rows()
    networks = engine.train(_different_jobs(), rows).networks
    means, variances = networks.outputs(rows.X)
    require(means.shape == variances.shape == (len(networks), _N_ROWS), "outputs are of shape (networks, rows)")
    require((variances > 0).all(), "variances are positive")
    some, expected = networks[np.array([2, 0])], [means[[2, 0], 5:9], variances[[2, 0], 5:9]]
    _require_close(some.outputs(rows.X[5:9]), expected, tolerance, "a row's outputs depend on network and row alone")
    require(networks.is_finite().tolist() == [True] * len(networks), "networks that do not diverge are finite")


def check_reference(engine: Engine, tolerance: float) -> None:
    """Check that losses, best epochs and outputs are equal to the reference engine's."""
    rows, jobs = _rows(), [*_different_jobs(), *_jobs(2, _STOPPING)]
    found, expected = (one.train(jobs, rows) for one in (engine, ReferenceEngine()))
    _require_same(found, expected, tolerance, "all numbers are those of the reference engine")


_CHECKS: tuple[Check, ...] = (
    check_order,
    check_seeds,
    check_row_numbers,
    check_counts,
    check_early_stopping,
    check_reports,
    check_divergence,
    check_errors,
    check_networks,
    check_reference,
)


def _rows(*, counts: bool = True) -> Rows:
    """Return rows with noisy targets; the number of rows is not a multiple of the batch size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(_N_ROWS, 3)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] / 2 + 0.2 * rng.normal(size=_N_ROWS)
    return Rows(X, y, rng.uniform(0.5, 2.0, _N_ROWS) if counts else None)


def _seeds(n: int) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(1).spawn(n)


def _jobs(n: int, config: TrainingConfig = _CONFIG) -> list[Job]:
    return [Job(_SPEC, config, seed) for seed in _seeds(n)]


def _different_jobs() -> list[Job]:
    """Return jobs that differ in shape, activation, settings and number of rows; equal shapes are not adjacent."""
    seeds = iter(_seeds(8))

    def job(activation: str = "tanh", hidden: tuple[int, ...] = (6, 5), rows: int | None = None, **config: Any) -> Job:
        seed = next(seeds)
        numbers = None if rows is None else np.sort(np.random.default_rng(seed).permutation(_N_ROWS)[:rows])
        return Job(
            NetworkSpec(n_inputs=3, hidden=hidden, activation=activation), replace(_CONFIG, **config), seed, numbers
        )

    return [
        job("silu", rows=48),
        job("relu", rows=49, weight_decay=0.3),
        job(hidden=(4,)),
        job("silu", schedule="cosine", weight_decay=0.1),
        job("leaky_relu", rows=33, weight_decay=1.0),
        job(hidden=(), objective="mse"),
        job(epochs=4, objective="beta_nll", beta=0.3, warmup_epochs=2),
        job("silu", rows=20, batch_size=64),
    ]


def _stopping_rule(curve: Iterable[float], config: TrainingConfig) -> tuple[int, int]:
    """Return the best epoch and the number of epochs by the rule of early stopping, given validation losses."""
    best, best_epoch, epoch = np.inf, config.warmup_epochs - 1, -1
    for epoch, loss in enumerate(curve):
        if epoch >= config.warmup_epochs and loss < best - config.tol:
            best, best_epoch = loss, epoch
        elif epoch >= config.warmup_epochs and epoch - best_epoch >= config.patience:
            return (best_epoch if np.isfinite(best) else epoch), epoch + 1
    return (best_epoch if np.isfinite(best) else epoch), config.epochs


def _outputs(trained: Trained) -> FloatArray:
    return np.stack([np.asarray(part, dtype=np.float64) for part in trained.networks.outputs(_rows().X)])


def _require_same(trained: Trained, expected: Trained, tolerance: float, statement: str) -> None:
    """Raise AssertionError unless two results of training have the same best epochs, and close losses and outputs."""
    require(trained.best_epochs == expected.best_epochs, f"{statement} (best epochs)")
    _require_close(trained.loss_curves, expected.loss_curves, tolerance, f"{statement} (losses)")
    _require_close(trained.validation_curves, expected.validation_curves, tolerance, f"{statement} (validation losses)")
    _require_close(_outputs(trained), _outputs(expected), tolerance, f"{statement} (outputs)")


def _require_close(found: Iterable[Any], expected: Iterable[Any], tolerance: float, statement: str) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        require(np.shape(mine) == np.shape(theirs), statement)
        require_close(mine, theirs, statement, rtol=tolerance, atol=tolerance)
