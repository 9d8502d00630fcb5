"""Information about a fitted regressor: held-out rows and their predictions, prototypes, and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.model.description import describe_columns
from bdkn.predictive import Predictive
from bdkn.predictive.transformed import restore
from bdkn.typing import FloatArray

__all__ = ["HeldOutPredictions", "held_out_predictions", "held_out_targets", "n_prototypes"]


@dataclass(frozen=True, eq=False)
class HeldOutPredictions:
    """Predictions of held-out rows. Made by ``held_out_predictions``.

    Parameters
    ----------
    y : array (n,)
        Targets of the held-out rows.
    dist : Predictive
        Predicted distribution of each row.
    counts : array (n,) or None
        How many times each row is counted; None: once.

    Examples
    --------
    >>> from bdkn import Gaussian
    >>> from bdkn.analysis.inspection import HeldOutPredictions
    >>> HeldOutPredictions([0.0, 1.0], Gaussian([0.0, 2.0], [1.0, 1.0])).dist.mean()
    array([0., 2.])
    """

    y: FloatArray
    dist: Predictive
    counts: FloatArray | None = None


def held_out_targets(regressor: Any) -> FloatArray | None:
    """Return the targets of the rows that were held out of training: with cross-fitting, usually all rows.

    Parameters
    ----------
    regressor : estimator
        A fitted regressor.

    Returns
    -------
    y : ndarray of shape (n_held_out,) or None
        Targets in their original units; None if no rows were held out.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> from bdkn.analysis.inspection import held_out_targets
    >>> X = np.linspace(-1.0, 1.0, 60)[:, None]
    >>> model = BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
    >>> bool(np.allclose(held_out_targets(model), X[:, 0] ** 3))
    True
    """
    held_out = getattr(regressor, "held_out_", None)
    return None if held_out is None else np.asarray(regressor.model_.targets.inverse(held_out.y))


def held_out_predictions(regressor: Any) -> HeldOutPredictions | None:
    """Return leave-one-out predictions of held-out rows, from which the quality of new predictions can be estimated.

    Each row is predicted by members that were not trained on it, with weights that are learned from all other rows.
    They are Student-t distributions, transformed if the target is, and do not include kernel densities of neighbours.

    Parameters
    ----------
    regressor : estimator
        A fitted regressor.

    Returns
    -------
    predictions : HeldOutPredictions or None
        None if fewer than two rows were held out.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor, coverage
    >>> from bdkn.analysis.inspection import held_out_predictions
    >>> X = np.linspace(-1.0, 1.0, 60)[:, None]
    >>> model = BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3)
    >>> found = held_out_predictions(model)
    >>> len(found.y), bool(coverage(found.y, found.dist, 0.9) > 0.8)
    (60, True)
    """
    held_out, y = getattr(regressor, "held_out_", None), held_out_targets(regressor)
    if held_out is None or y is None or len(y) < 2:
        return None
    model = regressor.model_
    scaled = model.combination.leave_one_out(held_out.forecast(), held_out.y, held_out.counts)
    dist = restore(scaled.affine(model.targets.scale, model.targets.mean), model.targets.link)
    return HeldOutPredictions(y, dist, held_out.counts)


def n_prototypes(regressor: Any) -> int:
    """Return the number of prototypes: training rows from which ``support`` measures distances.

    Parameters
    ----------
    regressor : estimator
        A fitted regressor.

    Returns
    -------
    n_prototypes : int
        At most 1024; 0 if the regressor has none, and thus no ``support``.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BayesianStackingRegressor
    >>> from bdkn.analysis.inspection import n_prototypes
    >>> X = np.linspace(-1.0, 1.0, 60)[:, None]
    >>> n_prototypes(BayesianStackingRegressor([("line", lambda X: X[:, 0])], random_state=0).fit(X, X[:, 0] ** 3))
    60
    """
    extrapolation = getattr(getattr(regressor, "model_", None), "extrapolation", None)
    return 0 if extrapolation is None else len(extrapolation.support.prototypes)


def input_columns(regressor: Any) -> list[dict[str, Any]] | None:
    """Return a description of each column of the data frame that a regressor was fitted to; None for an array.

    It is the dict of ``describe_columns`` with the key ``form``: the text format of the numbers or dates, if unusual.
    """
    encoder = regressor.model_.reader.encoder
    if encoder is None:
        return None
    forms = [getattr(column, "form", "") for column in encoder.columns]
    return [{**column, "form": form} for column, form in zip(describe_columns(encoder), forms, strict=True)]


def column_codes(regressor: Any, X: Any) -> list[FloatArray]:
    """Return the codes (n, n_codes) of each data frame column: numbers that the fitted encoder converts to inputs."""
    encoder = regressor.model_.reader.encoder
    ends = np.cumsum([column.n_codes for column in encoder.columns])
    return np.split(encoder.code(X), ends[:-1], axis=1)


def input_names(regressor: Any) -> list[str]:
    """Return, for each input of a regressor fitted to a data frame, the name of the column that it comes from."""
    encoder = regressor.model_.reader.encoder
    return [str(encoder.names[j]) for j in encoder.column_of_feature]
