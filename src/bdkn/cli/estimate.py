"""How good a model is, from rows left out of training, in words and numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bdkn.cli.wording import number

if TYPE_CHECKING:
    from bdkn.predictive import Predictive
    from bdkn.typing import FloatArray


LEFT_OUT = "rows left out of training"


@dataclass(frozen=True)
class Estimate:
    """Scores of predictions for ``rows`` rows; ``level`` is the probability that each interval should hold.

    ``typical_error`` is the median absolute error, ``r2`` the share of the squared error that is saved in comparison
    with predicting the mean, ``how`` a sentence about where the rows come from, ``whose`` what they are called.
    """

    rows: int
    rmse: float
    typical_error: float
    r2: float
    nll: float
    crps: float
    level: float
    coverage: float
    interval_width: float
    how: str
    whose: str = "rows"

    @classmethod
    def of(
        cls,
        y: FloatArray,
        dist: Predictive,
        level: float,
        how: str,
        counts: FloatArray | None = None,
        whose: str = "rows",
    ) -> Estimate:
        """Return the scores of predictions ``dist`` for targets ``y``."""
        import numpy as np

        from bdkn.metrics import summary

        scores = summary(y, dist, level, counts)
        around = np.average((y - np.average(y, weights=counts)) ** 2, weights=counts)
        r2 = 1.0 - scores["rmse"] ** 2 / around if around > 0 else float("nan")
        typical = float(np.median(np.abs(y - dist.mean())))
        kept = {name: scores[name] for name in ("rmse", "nll", "crps", "coverage", "interval_width")}
        return cls(rows=len(y), typical_error=typical, r2=float(r2), level=level, how=how, whose=whose, **kept)

    def sentences(self, target: str) -> list[str]:
        """Return the estimate in plain words."""
        inside = round(self.coverage * self.rows)
        return [
            f"{self.how} ({self.rows:,} rows):",
            f"  Half of the predictions of {target!r} are off by less than {number(self.typical_error)}; "
            f"the root mean squared error is {number(self.rmse)}.",
            f"  {_explained(self.r2)}",
            f"  {inside:,} of {self.rows:,} {self.whose} ({self.coverage:.1%}) lay inside their {self.level:.0%} "
            f"interval, which is {number(self.interval_width)} wide on average.",
            f"  To compare models on the same rows; smaller is better: NLL {number(self.nll)}, "
            f"CRPS {number(self.crps)}.",
        ]

    def numbers(self) -> dict[str, Any]:
        """Return the estimate as numbers by name."""
        return asdict(self)


def left_out_estimate(model: Any, level: float) -> Estimate | None:
    """Return the estimate from the rows that a fit left out in turn; None if it left out none.

    Members predict rows that they were not trained on, and the weights of the members are learned from all rows but the
    one that is predicted. Densities of neighbours are not part of it.
    """
    held_out = getattr(model, "held_out_", None)
    if held_out is None or len(held_out.y) < 2:
        return None
    targets = model._combined.targets
    student = model.combination_.leave_one_out(held_out.forecast(), held_out.y, held_out.counts)
    dist = targets.restore(student.affine(targets.scale, targets.mean))
    how = "Estimated from rows that were left out of training in turn"
    return Estimate.of(targets.inverse(held_out.y), dist, level, how, held_out.counts, LEFT_OUT)


def _explained(r2: float) -> str:
    if r2 != r2:
        return "All rows have the same target, so there is nothing to explain."
    if not r2 > 0.0:
        return f"The inputs tell nothing about it: predicting the mean for every row is as good (R² = {r2:.3f})."
    return f"The squared error is {r2:.0%} smaller than that of predicting the mean for every row (R² = {r2:.3f})."
