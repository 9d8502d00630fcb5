"""Sequential test of whether the predictions of a model in use are calibrated.

Let p be the probability integral transform of a row. If predictions are calibrated, p is uniform given the past, and
three functions g(p) have mean zero: 2p - 1 (predictions too high or too low), 6p² - 6p + 1 (too narrow or too wide) and
1{p outside of (0.05, 0.95)} - 0.1 (rows outside of their 90 % interval). Calibrated up to a tolerance ε means that the
mean of each g(p), given the past, is between -ε and ε. A bet against calibration multiplies its stake by

    1 + θ (g(p) - ε)   or   1 - θ (g(p) + ε),

which is never negative and whose mean, given the past, is at most one. Stakes are divided among the functions, both
directions and five sizes of θ, and among the rows at which a change may begin: 1/(t (t + 1)) of the wealth starts at
row t. So the wealth M begins with 1, is a supermartingale, and by Ville's inequality P(M ≥ 1/α at any time) ≤ α.
"""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError, check_number, shown
from bdkn.metrics.scores import average, observed
from bdkn.predictive import Predictive
from bdkn.typing import FloatArray

TAIL = 0.05
"""Probability of each tail outside the 90 % prediction interval, whose coverage is tested."""

_SIZES = (0.05, 0.15, 0.35, 0.6, 0.9)
"""Sizes of the bets against calibration, as fractions of the largest bet that cannot make a stake negative."""

_RANGES = ((-1.0, 1.0), (-0.5, 1.0), (-2.0 * TAIL, 1.0 - 2.0 * TAIL))
"""Ranges of the functions of the probability integral transform on which bets are based: bias, width, coverage."""

N_BETS = 2 * len(_RANGES) * len(_SIZES)
"""Number of bets against calibration: functions times two directions times sizes."""

_BLOCK_ROWS = 4096
"""Maximum number of rows that are processed together."""

LEVELS = (0.5, 0.9, 0.95)
"""Nominal coverages of the intervals whose observed coverage is reported."""

_BINS = 10
"""Number of bins of the histogram of probability integral transforms."""

_ADD_LOCK = threading.Lock()
"""Lock that is held while a batch is added, so that batches of several threads are added one after the other."""


@dataclass(frozen=True, eq=False)
class Wealth:
    """State of the sequential test of calibration after ``n`` rows: the wealth of B bets, which together start with 1.

    ``log_stakes`` (B,) are the logarithms of the bets' stakes. ``tolerance`` is the accepted deviation ε.
    """

    tolerance: float
    n: int = 0
    log_stakes: FloatArray = field(default_factory=lambda: np.full(N_BETS, -np.inf))

    @property
    def log(self) -> float:
        """Logarithm of the total wealth, including the part that is not bet yet: the evidence against calibration."""
        return float(_total(self.log_stakes[None], np.array([float(self.n)]))[0])

    def after(self, pit: FloatArray) -> tuple[FloatArray, Self]:
        """Return the logarithm of the wealth after each new row, and the state after the last row.

        With the cumulative products E of the factors, the stakes are E (stakes before + Σ new stakes / E).
        """
        n, stakes, logs = self.n, self.log_stakes[None], [np.empty(0)]
        for start in range(0, len(pit), _BLOCK_ROWS):
            some = pit[start : start + _BLOCK_ROWS]
            rows = np.arange(1.0, len(some) + 1.0, dtype=np.float64) + n
            factors = np.cumsum(log_factors(some, self.tolerance), axis=0)
            before = np.vstack([np.zeros(N_BETS), factors[:-1]])
            new = -np.log(rows)[:, None] - np.log(rows + 1.0)[:, None] - np.log(N_BETS) - before
            stakes = factors + np.logaddexp.accumulate(np.vstack([stakes[-1], new]), axis=0)[1:]
            logs.append(_total(stakes, rows))
            n += len(some)
        return np.concatenate(logs), replace(self, n=n, log_stakes=stakes[-1])


def log_factors(pit: FloatArray, tolerance: float) -> FloatArray:
    """Return log factors (n, B) by which each of n rows, with transform ``pit``, multiplies the stakes of B bets."""
    outside = np.abs(pit - 0.5) >= 0.5 - TAIL
    functions = (2.0 * pit - 1.0, 6.0 * pit**2 - 6.0 * pit + 1.0, outside - 2.0 * TAIL)
    found = []
    for g, (low, high) in zip(functions, _RANGES, strict=True):
        for up, worst in ((g - tolerance, tolerance - low), (-g - tolerance, tolerance + high)):
            found += [np.log1p(size / worst * up) for size in _SIZES]
    return np.stack(found, axis=1)


def _total(log_stakes: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the log of the total wealth after each row t of ``rows``: the stakes, plus 1/(t + 1) not bet yet."""
    return np.asarray(np.logaddexp(logsumexp(log_stakes, axis=1), -np.log(rows + 1.0)))


@dataclass(frozen=True)
class MonitorReport:
    """Scores of one batch, and the evidence of all batches so far against calibration. Made by ``Monitor.add``.

    Parameters
    ----------
    first : int
        Number of rows watched before this batch.
    n : int
        Number of rows in this batch.
    log_score : float
        Mean log density of the targets; greater is better.
    crps : float
        Mean continuous ranked probability score; smaller is better.
    coverage : dict of float to float
        Share of the targets inside the central interval of 50, 90 and 95 %.
    pit_counts : tuple of int
        Number of rows with a probability integral transform in each tenth of [0, 1].
    outside : float
        Share of the rows that are farther from the training rows than those are from each other; nan if unknown.
    log_wealth : float
        Logarithm of the wealth of bets against calibration after this batch; large if predictions are not calibrated.
    alarm : bool
        Whether the wealth has reached 1/alpha, in this batch or before.
    alarm_row : int or None
        The row, counted from 1 since the last reset, at which the wealth reached 1/alpha; None without an alarm.

    Examples
    --------
    >>> from bdkn import Gaussian, Monitor
    >>> report = Monitor().add([0.1, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0]))
    >>> report.n, report.coverage[0.9], report.alarm
    (2, 1.0, False)
    """

    first: int
    n: int
    log_score: float
    crps: float
    coverage: dict[float, float]
    pit_counts: tuple[int, ...]
    outside: float
    log_wealth: float
    alarm: bool
    alarm_row: int | None

    def __str__(self) -> str:
        state = f"alarm at row {self.alarm_row}" if self.alarm else "no alarm"
        shares = ", ".join(f"{share:.0%} inside {level:.0%}" for level, share in self.coverage.items())
        return f"rows {self.first + 1} to {self.first + self.n}: log score {self.log_score:.3g}, {shares}; {state}"


class Monitor:
    """Sequential test of whether predictions of new rows are calibrated, batch after batch.

    The test is valid at any time: as long as predictions are calibrated up to the tolerance, the probability that
    there is ever an alarm is at most ``alpha``, for any number of rows and of looks at the result. An alarm stays on
    until ``reset``.

    Parameters
    ----------
    alpha : float, default=0.01
        Largest probability of a false alarm, over all time.
    tolerance : float, default=0.05
        Deviation from calibration that is accepted: the share of targets outside of their 90 % interval may differ from
        10 % by this number, and the means of 2p - 1 and 6p² - 6p + 1 from zero, where p is the probability integral
        transform. 0.05 allows predicted means that are wrong by about a tenth of the standard deviation. With 0, any
        deviation will be found, given enough rows.

    Attributes
    ----------
    reports : list of MonitorReport
        One report per batch.
    start : int
        Number of rows watched before the last reset.
    alarm_row : int or None
        The row at which there was an alarm, counted from 1 since the last reset; None without an alarm.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import Gaussian, Monitor
    >>> rng, monitor = np.random.default_rng(0), Monitor(alpha=0.01)
    >>> predicted = Gaussian(np.zeros(200), np.ones(200))
    >>> monitor.add(rng.normal(size=200), predicted).alarm
    False
    >>> monitor.add(rng.normal(0.0, 2.0, size=200), predicted).alarm
    True
    """

    def __init__(self, alpha: float = 0.01, tolerance: float = 0.05) -> None:
        check_number("alpha", alpha, low=0.0, high=1.0, strict=True)
        check_number("tolerance", tolerance, low=0.0, high=0.5)
        self.alpha, self.tolerance = float(alpha), float(tolerance)
        self.reports: list[MonitorReport] = []
        self.reset()

    def reset(self) -> None:
        """Start the test again, for example after a change of the model; earlier reports are kept."""
        with _ADD_LOCK:
            self._wealth, self.start = Wealth(self.tolerance), self.n
            self.alarm_row: int | None = None

    @property
    def n(self) -> int:
        """Number of rows watched so far; a reset does not set it to 0."""
        return sum(report.n for report in self.reports)

    @property
    def alarm(self) -> bool:
        """True if there has been an alarm since the last reset."""
        return self.alarm_row is not None

    @property
    def threshold(self) -> float:
        """Logarithm of the wealth at which there is an alarm: log(1/alpha)."""
        return -float(np.log(self.alpha))

    def add(
        self, y: ArrayLike, dist: Predictive, *, pit: ArrayLike | None = None, outside: float = np.nan
    ) -> MonitorReport:
        """Add a batch of rows to the test, in the order in which they were observed, and return its report.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Observed targets.
        dist : Predictive
            Predicted distributions of these rows, made before the targets were known.
        pit : array-like of shape (n_samples,), optional
            Probability integral transforms; ``dist.cdf(y)`` by default. For distributions with point masses they must
            be randomized to be uniform.
        outside : float, optional
            Share of the rows that are far from the training rows; it is only copied to the report.

        Returns
        -------
        report : MonitorReport
            Scores of the batch, and whether there is an alarm.
        """
        values = observed(y, dist)
        levels = read_numbers("pit", dist.cdf(values) if pit is None else pit)
        if levels.shape != values.shape or not np.all((levels >= 0.0) & (levels <= 1.0)):
            raise InvalidParameterError(
                f"pit must hold one probability for each of {len(values)} rows; got shape {levels.shape}"
            )
        scores: dict[str, Any] = {
            "n": len(values),
            "log_score": float(dist.logpdf(values).mean()),
            "crps": _mean(dist.crps(values)),
            "coverage": {level: float(np.mean(np.abs(levels - 0.5) <= level / 2.0)) for level in LEVELS},
            "pit_counts": tuple(np.histogram(levels, _BINS, (0.0, 1.0))[0].tolist()),
            "outside": float(outside),
        }
        with _ADD_LOCK:  # no step may fail: a batch is added completely or not at all
            first, (logs, self._wealth) = self.n, self._wealth.after(levels)
            if self.alarm_row is None and (over := logs >= self.threshold).any():
                self.alarm_row = first - self.start + int(np.argmax(over)) + 1
            report = MonitorReport(
                first=first, **scores, log_wealth=self._wealth.log, alarm=self.alarm, alarm_row=self.alarm_row
            )
            self.reports.append(report)
        return report

    def to_json(self) -> str:
        """Return the monitor with all reports as JSON text.

        Returns
        -------
        text : str
            Text that ``from_json`` reads.
        """
        with _ADD_LOCK:
            seen, reports = self._wealth, list(self.reports)
            state = {"alpha": self.alpha, "tolerance": self.tolerance, "alarm_row": self.alarm_row, "start": self.start}
        stored = [{**asdict(report), "coverage": list(report.coverage.values())} for report in reports]
        wealth = {"n": seen.n, "log_stakes": [x if np.isfinite(x) else None for x in seen.log_stakes]}
        return json.dumps({**state, "wealth": wealth, "reports": stored})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the monitor that ``to_json`` wrote.

        Parameters
        ----------
        text : str
            The JSON text.

        Returns
        -------
        monitor : Monitor
            The same monitor, in the same state.
        """
        try:
            state = json.loads(text)
            monitor, wealth = cls(state["alpha"], state["tolerance"]), state["wealth"]
            check_number("n of the wealth", wealth["n"], low=0, whole=True)
            check_number("start", state["start"], low=0, whole=True)
            if state["alarm_row"] is not None:
                check_number("alarm_row", state["alarm_row"], low=1, whole=True)
            stakes = read_numbers("log_stakes", [-np.inf if x is None else x for x in wealth["log_stakes"]])
            if stakes.shape != (N_BETS,):
                raise InvalidParameterError(
                    f"a monitor has {N_BETS} bets; this text has {len(stakes)}: it is of another version"
                )
            monitor._wealth = Wealth(monitor.tolerance, wealth["n"], stakes)
            monitor.start, monitor.alarm_row = state["start"], state["alarm_row"]
            for report in state["reports"]:
                report["coverage"] = dict(zip(LEVELS, report["coverage"], strict=True))
                monitor.reports.append(MonitorReport(**{**report, "pit_counts": tuple(report["pit_counts"])}))
            return monitor
        except InvalidParameterError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InvalidParameterError(
                f"text must be what Monitor.to_json wrote; this is not ({type(error).__name__}: {shown(str(error))})"
            ) from error


def _mean(scores: FloatArray) -> float:
    """Return the mean of ``scores``, correct even if their sum would overflow."""
    with np.errstate(over="ignore"):
        mean = float(scores.mean())
    return mean if np.isfinite(mean) else average(scores, None)
