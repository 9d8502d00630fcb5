"""Methods of regressors that live on after their fit: they absorb, forget and exchange rows, and are watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self, TypeVar, cast

from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if

from bdkn.errors import InvalidParameterError, check_flag, check_number
from bdkn.estimators.combining_model import CombiningModel
from bdkn.estimators.fitted import Combined, Updates
from bdkn.estimators.monitoring import watch_batch
from bdkn.estimators.publication import of_one_state
from bdkn.estimators.serialization import check_has_rows
from bdkn.estimators.updating import (
    RowStatistics,
    absorb,
    merge_statistics,
    remove_all,
    remove_rows,
    statistics_of,
)
from bdkn.metrics import Monitor, MonitorReport

Table = Any
Model = TypeVar("Model", bound="LivingRegressor")
Method = TypeVar("Method", bound=Callable[..., Any])


def _leaves_rows_out(model: object) -> bool:
    """Return True if rows are left out of the fit of a model, raise AttributeError if none are."""
    if getattr(model, "design", None) == "in-sample":
        raise AttributeError(
            "a model is updated by rows that its members were not trained on, beside those that were left out of the "
            "fit; design='in-sample' leaves out none: fit with design='cross-fit' or 'hold-out'"
        )
    return True


def _if_rows_are_left_out(method: Method) -> Method:
    """Return a method that models lack whose fit leaves no rows out; type checkers see it as it is."""
    return cast("Method", available_if(_leaves_rows_out)(method))


class LivingRegressor:
    """Methods by which a combining regressor absorbs rows after its fit; members never change.

    Members have not seen such rows, so that these count as held-out rows: the posterior of the weights and the noise
    becomes, in closed form, that of the held-out rows of the fit and all rows absorbed since.
    """

    __metadata_request__partial_fit = {"forgetting": UNUSED, "refit_prior": UNUSED}  # noqa: RUF012

    @property
    def updates_(self) -> Updates | None:
        """What was absorbed since the fit; None if nothing was."""
        return _combining(self)._combined.updates

    @_if_rows_are_left_out
    def partial_fit(
        self,
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        forgetting: float = 1.0,
        refit_prior: bool = False,
    ) -> Self:
        """Absorb new rows: learn the weights of the members, and the noise, from them too; members stay as they are.

        The result is that of all rows at once, in any order and any batches. The model keeps statistics of the rows,
        whose size does not depend on their number. Fixed from the fit are the tempering, the tails, the prior variance
        of the weights, the shape of predictions, the probabilities of values, and where the training rows lie: a row
        outside of them stays outside, as members have not learned from it, and tells less about the weights. A model
        that is not fitted is fitted to the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows that were not part of the fit.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            How many times each row is counted; a row with weight 0 is not absorbed.
        forgetting : float, default=1.0
            The factor by which all rows before this call, those of the fit included, count less from now on, for data
            that drift. It holds per call: with batches of m rows, ``forgetting`` is about the same as counting the last
            ``m / (1 - forgetting)`` rows.
        refit_prior : bool, default=False
            Whether to choose the prior variance of the weights again, from all rows, as ``prior_variance`` says.

        Returns
        -------
        self : object
            The regressor, which has changed.
        """
        check_number("forgetting", forgetting, low=0.0, high=1.0, strict=True)
        check_flag("refit_prior", refit_prior)

        def absorbed(model: CombiningModel) -> object:
            if not model.__sklearn_is_fitted__():
                return model.fit(X, y, sample_weight)._state
            rows = model._later_rows(X, y, sample_weight).counted()
            return _with(model, absorb(model, rows, float(forgetting), refit_prior))

        return _publish(self, absorbed)

    def forget(self, X: Table = None, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Remove rows that ``partial_fit`` absorbed; without rows, all of them.

        The result is that of a model which never absorbed these rows, up to rounding. A row is removed with the weight
        that it counts now, however much was forgotten since. Rows that were not absorbed are refused: the last 100 000
        rows are recognised; others, and rows of models that were merged, are refused if what would remain cannot be the
        statistics of any rows. Rows of the fit cannot be removed, as members were trained on them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), optional
            Rows to remove, as they were absorbed; None: all, which brings back the model as it was fitted.
        y : array-like of shape (n_samples,), optional
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            Their weights, if they had any.

        Returns
        -------
        self : object
            The regressor, which has changed.
        """
        if X is None and y is None:
            return _publish(self, lambda model: _with(model, remove_all(model._combined)))
        if X is None or y is None:
            raise InvalidParameterError("forget takes rows X with their targets y, or neither; got only one of them")
        return _publish(self, lambda model: _with(model, _forgotten(model, X, y, sample_weight)))

    @of_one_state
    def statistics(self) -> RowStatistics:
        """Return what the rows absorbed since the fit tell about the members, without the rows.

        Returns
        -------
        statistics : RowStatistics
            A small object with ``save`` and ``load``, for ``merge`` of a model with the same members.
        """
        return statistics_of(_combining(self))

    def merge(self, other: Any) -> Self:
        """Absorb the rows that another model with the same members has absorbed, by statistics and without rows.

        Sites start with copies of one fitted model, absorb their own rows, and exchange ``statistics()``. The result is
        that of one model that absorbed the rows of all, as long as no row is in two of them.

        Parameters
        ----------
        other : regressor or RowStatistics
            A regressor from the same fit, or its ``statistics()``.

        Returns
        -------
        self : object
            The regressor, which has changed.
        """
        told = other if isinstance(other, RowStatistics) else None
        if told is None:
            if not isinstance(other, LivingRegressor):
                raise InvalidParameterError(
                    f"merge takes a regressor with the same members, or its statistics(); got {type(other).__name__}"
                )
            told = other.statistics()
        return _publish(self, lambda model: _with(model, merge_statistics(model, told)))

    @of_one_state
    def monitor(self, X: Table, y: ArrayLike, monitor: Monitor | None = None) -> MonitorReport:
        """Score a batch of rows before it is absorbed, and tell whether predictions are still calibrated.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        y : array-like of shape (n_samples,)
            Their targets.
        monitor : Monitor, optional
            What is known from earlier batches; it is changed. By default a new one, with its default false-alarm rate,
            for this batch alone.

        Returns
        -------
        report : MonitorReport
            Scores, coverage, share of rows outside of the training rows, and whether there is an alarm.
        """
        return watch_batch(_combining(self), X, y, Monitor() if monitor is None else monitor)


def _combining(model: object) -> CombiningModel:
    return cast(CombiningModel, model)


def _publish(model: Model, change: Callable[[CombiningModel], object]) -> Model:
    """Give a model the state to which ``change`` brings it, at once and after all other updates."""
    _combining(model)._publish_update(change)
    return model


def _with(model: CombiningModel, combined: Combined) -> object:
    """Return the state of a model with another combination."""
    return replace(model._state, combined=combined)


def _forgotten(model: CombiningModel, X: Table, y: ArrayLike, sample_weight: ArrayLike | None) -> Combined:
    """Return the combination without rows that were absorbed."""
    rows = model._later_rows(X, y, sample_weight).counted()
    check_has_rows(model._combined)
    if model._combined.updates is None:
        raise InvalidParameterError(
            "forget removes rows that partial_fit absorbed; this model has absorbed none: fit again without these "
            "rows to remove them from a fit"
        )
    return remove_rows(model, rows)
