"""A rival as a peer: parameters here, fit and prediction by a process in the rival's environment."""

from __future__ import annotations

import os
import subprocess
import weakref
from collections.abc import Mapping
from functools import cache
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs

from bdkn.errors import MissingExtraError, check_choice
from bdkn.predictive import Gaussian, Predictive, StudentT
from bdkn.typing import FloatArray
from bdkn_paper.peers.peer import Peer
from bdkn_paper.rivals import worker
from bdkn_paper.rivals.densities import density_of_quantiles, density_of_samples, least_scale

FOLDER = "BDKN_RIVALS"
"""The environment variable with the folder of the rivals' environments; by default it is ``.rivals``."""


class Library(NamedTuple):
    """The environment of a rival, the module to import there, and the distributions whose versions matter."""

    environment: str
    module: str
    packages: tuple[str, ...]


_PYTABKIT = Library("pytabkit", "pytabkit", ("pytabkit", "torch"))
RIVALS = {
    "quantile-forest": Library("quantile-forest", "quantile_forest", ("quantile-forest", "scikit-learn")),
    "catboost-quantiles": Library("catboost", "catboost", ("catboost",)),
    "xgboost-tuned": Library("xgboost", "xgboost", ("xgboost-cpu",)),
    "xgboostlss": Library("xgboostlss", "xgboostlss.model", ("xgboostlss", "xgboost-cpu", "torch")),
    "treeffuser": Library("treeffuser", "treeffuser", ("treeffuser", "lightgbm")),
    "realmlp": _PYTABKIT,
    "realmlp-quantiles": _PYTABKIT,
    "tabm": _PYTABKIT,
}


class Rival(Peer):
    """A model of another library, fitted in an environment of its own; ``adaptors.py`` says how.

    Point predictions become Gaussians with the standard deviation of errors on rows left out; quantiles and samples
    become mixtures of Gaussians (``densities.py``). ``options`` are those of the adaptor. After a fit, ``cpu_seconds_``
    is the processor time that it took, and ``versions_`` are those of the libraries.
    """

    packages = ()

    def __init__(
        self,
        *,
        rival: str = "quantile-forest",
        options: Mapping[str, Any] | None = None,
        random_state: int = 0,
        n_jobs: int | None = 1,
    ) -> None:
        self.rival = rival
        self.options = options
        self.random_state = random_state
        self.n_jobs = n_jobs

    def library(self) -> Worker:
        """Return the process of the rival's environment, in which its library is imported."""
        check_choice("rival", self.rival, RIVALS)
        process = _worker(RIVALS[self.rival].environment)
        found, _ = process.ask(
            {"do": "load", "module": RIVALS[self.rival].module, "packages": RIVALS[self.rival].packages}
        )
        self.versions_: dict[str, str] = found["versions"]
        return process

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Fit to the rows of ``X`` and their targets."""
        process, self.key_ = self.library(), str(next(_KEYS))
        weakref.finalize(self, process.forget, self.key_)
        given = {"options": dict(self.options or {}), "threads": effective_n_jobs(self.n_jobs)}
        request = {"do": "fit", "rival": self.rival, "key": self.key_, "seed": self.random_state % 2**31, **given}
        found, _ = process.ask(request, X=np.asarray(X, dtype=np.float64), y=np.asarray(y, dtype=np.float64))
        self.cpu_seconds_: float = found["cpu"]
        self.least_ = least_scale(np.asarray(y))
        return self

    def predict_dist(self, X: FloatArray) -> Predictive:
        """Return the distribution of each row."""
        process = _worker(RIVALS[self.rival].environment)
        _, found = process.ask({"do": "predict", "key": self.key_}, X=np.asarray(X, dtype=np.float64))
        if "quantiles" in found:
            return density_of_quantiles(found["quantiles"], self.least_)
        if "samples" in found:
            return density_of_samples(found["samples"], self.least_)
        if "df" in found:
            return StudentT(found["df"], found["loc"], found["scale"])
        return Gaussian(found["mean"].astype(np.float64), found["std"].astype(np.float64))

    def predict(self, X: FloatArray, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return means and, if requested, standard deviations, so that a rival can be a member of a stack."""
        dist = self.predict_dist(X)
        return (dist.mean(), dist.std()) if return_std else dist.mean()


class Worker:
    """A process in a rival's environment, which answers one request at a time."""

    def __init__(self, python: Path) -> None:
        script = Path(worker.__file__)
        quiet = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self._process = subprocess.Popen(
            [python, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**quiet, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
        )
        self._lock = Lock()
        weakref.finalize(self, _end, self._process)

    def ask(self, message: Mapping[str, Any], **arrays: FloatArray) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """Return the answer to a request; raise if it failed there."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            worker.send(stdin, dict(message), arrays)
            answer = worker.receive(stdout)
        if answer is None:
            raise RuntimeError(f"the process of a rival ended with status {self._process.wait()}: {message}")
        if "error" in answer[0]:
            raise RuntimeError(f"raised in the process of a rival:\n{answer[0]['error']}")
        return answer

    def forget(self, key: str) -> None:
        """Let the process delete a model."""
        if self._process.poll() is None:
            self.ask({"do": "forget", "key": key})


_KEYS = count()


@cache
def _worker(environment: str) -> Worker:
    folder = Path(os.environ.get(FOLDER, ".rivals")).expanduser()
    python = folder / environment / "bin" / "python"
    if not python.exists():
        raise MissingExtraError(
            f"this needs an environment with python at {python}; make it with: python -m venv {python.parents[1]} && "
            f"{python} -m pip install -r reproduction/rivals/{environment}.txt, or let {FOLDER} name the folder"
        )
    return Worker(python)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
