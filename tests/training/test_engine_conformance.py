"""Every engine of the library passes the conformance suite, and engines with a fault do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bdkn.networks import Engine, Trained, get_engine
from bdkn.networks.reference import ReferenceEngine
from bdkn.networks.torch_engine import TorchEngine
from bdkn.testing import check_engine
from bdkn.testing.engines import Check, engine_checks


@pytest.mark.parametrize(("name", "check"), engine_checks(), ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("engine", ["fused", "reference", "torch"])
def test_engines_conform(engine: str, name: str, check: Check) -> None:
    if engine == "torch":
        pytest.importorskip("torch")
    check(get_engine(engine), 1e-3)


@pytest.mark.no_cover
def test_engines_in_double_precision_conform() -> None:
    pytest.importorskip("torch")
    check_engine(ReferenceEngine(np.float64))
    check_engine(TorchEngine(dtype="float64"))


@pytest.mark.no_cover
def test_modules_conform_but_for_the_reference() -> None:
    nn = pytest.importorskip("torch").nn
    module = lambda n: nn.Sequential(nn.Linear(n, 6), nn.Tanh(), nn.Linear(6, 2))  # noqa: E731
    check_engine(TorchEngine(module=module), same_as_reference=False)


def faulty(
    change: Callable[..., tuple[Any, ...]] | None = None, after: Callable[[Trained], Trained] | None = None
) -> Engine:
    """Return an engine that changes what it is given or what it returns."""

    class Faulty:
        def train(self, jobs: Any, rows: Any, **options: Any) -> Trained:
            if change is not None:
                jobs, rows, options = change(jobs, rows, options)
            trained = ReferenceEngine().train(jobs, rows, **options)
            return trained if after is None else after(trained)

    return Faulty()


FAULTS = {
    "order": faulty(after=lambda trained: trained[range(len(trained.best_epochs))[::-1]]),
    "row_numbers": faulty(lambda jobs, rows, options: ([replace(job, rows=None) for job in jobs], rows, options)),
    "counts": faulty(lambda jobs, rows, options: (jobs, replace(rows, counts=None), options)),
    "reports": faulty(lambda jobs, rows, options: (jobs, rows, {**options, "on_epoch": None})),
    "early_stopping": faulty(after=lambda trained: replace(trained, best_epochs=(0,) * len(trained.best_epochs))),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found(name: str) -> None:
    check = dict(engine_checks())[name]
    with pytest.raises(AssertionError, match="this must hold: "):
        check(FAULTS[name], 1e-3)
    with pytest.raises(AssertionError, match=r"^\w+: "):
        check_engine(FAULTS[name])


def test_errors_are_required() -> None:
    def forgiving(jobs: Sequence[Any], rows: Any, options: Any) -> tuple[Any, ...]:
        return jobs, replace(rows, X=np.ascontiguousarray(rows.X, np.float32)), options

    with pytest.raises(AssertionError, match=r"on X of float64 \(61, 3\) raise InvalidParameterError"):
        dict(engine_checks())["errors"](faulty(forgiving), 1e-3)
