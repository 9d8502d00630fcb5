"""What functions about combining regressors need of them; ``CombiningRegressor`` has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import ArrayLike

from bdkn.data.rows import Rows
from bdkn.ensemble.held_out import HeldOut
from bdkn.estimators.fitted import Combined
from bdkn.estimators.prediction import Prediction
from bdkn.estimators.support_report import SupportReport
from bdkn.inference import Forecast
from bdkn.typing import FloatArray


class CombiningModel(Protocol):
    """A regressor that combines members by a Bayesian linear model."""

    prior_variance: str | float

    @property
    def _state(self) -> Any: ...

    @property
    def _combined(self) -> Combined: ...

    @property
    def held_out_(self) -> HeldOut | None:
        """Predictions of the members for held-out rows."""

    @property
    def member_names_(self) -> tuple[str, ...]:
        """Names of the members in use."""

    def __sklearn_is_fitted__(self) -> bool: ...

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Fit the regressor."""

    def support(self, X: Any) -> SupportReport:
        """Return how far each row is from the training rows."""

    def _publish_update(self, change: Callable[[Any], object]) -> Any: ...

    def _later_rows(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Rows: ...

    def _rows(self, X: Any) -> Any: ...

    def _forecast(self, X: Any) -> Forecast: ...

    def _by_fold(self, X: Any) -> tuple[FloatArray, FloatArray]: ...

    def _prediction(self, X: Any) -> Prediction: ...
