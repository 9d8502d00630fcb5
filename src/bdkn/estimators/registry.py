"""The regressors by name, and the loading of a regressor from a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version

from bdkn.errors import ModelFileError
from bdkn.estimators.base import ProbabilisticRegressor
from bdkn.estimators.bdkn import BayesianStackingRegressor, BDKNRegressor
from bdkn.estimators.deep_ensemble import DeepEnsembleRegressor
from bdkn.estimators.files import restore_model
from bdkn.storage.archive import Arrays, Document, read

REGRESSORS: dict[str, type[ProbabilisticRegressor]] = {
    "BDKNRegressor": BDKNRegressor,
    "DeepEnsembleRegressor": DeepEnsembleRegressor,
    "BayesianStackingRegressor": BayesianStackingRegressor,
}


def load(path: str | os.PathLike[str], *, member_classes: Sequence[type] = ()) -> ProbabilisticRegressor:
    """Load a fitted regressor from a file that its ``save`` wrote; its predictions have the same bits.

    Parameters
    ----------
    path : str or path-like
        File to read. Nothing in it is executed.
    member_classes : sequence of type, default=()
        Classes of members of your own, with ``from_arrays``, that may be in the file.

    Returns
    -------
    model : ProbabilisticRegressor
        A fitted regressor of the class that was saved.

    Raises
    ------
    ModelFileError
        If the file is damaged, is not a model of this library, or was written by a newer version of it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import bdkn
    >>> X = np.arange(20.0)[:, None]
    >>> model = bdkn.BDKNRegressor(n_members=2, epochs=2, random_state=0).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "model.bdkn")
    ...     loaded = bdkn.load(Path(folder) / "model.bdkn")
    >>> bool(np.array_equal(loaded.predict(X), model.predict(X)))
    True
    """
    return restore(*read(path), os.fspath(path), member_classes)


def restore(
    arrays: Arrays, document: Document, path: str, member_classes: Sequence[type] = ()
) -> ProbabilisticRegressor:
    """Return the regressor of what was read from the file ``path``."""
    name = document.get("model")
    if not isinstance(name, str) or name not in REGRESSORS:
        raise ModelFileError(f"{path} holds a {name!s:.80}; this version knows {', '.join(REGRESSORS)}")
    try:
        model: ProbabilisticRegressor = restore_model(REGRESSORS, arrays, document, member_classes)
    except Exception as error:
        raise ModelFileError(
            f"{path} was written by bdkn {document.get('bdkn')!s:.20} and does not fit this version, "
            f"{_installed()} ({_reason(error)}); it is damaged or, if it is of a later version, run: pip install "
            "--upgrade bdkn"
        ) from error
    return model


@cache
def _installed() -> str:
    """Return the version of this library; finding it takes longer than refusing a file."""
    return version("bdkn")


def _reason(error: Exception) -> str:
    """Return the reason: the message of a ``ModelFileError``; before that of any other error, its class."""
    return str(error) if isinstance(error, ModelFileError) else f"{type(error).__name__}: {error}"
