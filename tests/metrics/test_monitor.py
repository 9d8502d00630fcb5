"""The monitor: false alarms by simulation, how soon changes are found, reports, JSON and figure."""

from __future__ import annotations

import json
import sys
from threading import Barrier, Thread

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from bdkn import Gaussian, Monitor, StudentT
from bdkn.errors import InvalidParameterError
from bdkn.metrics.monitoring import N_BETS, Wealth, log_factors
from bdkn.plots import MonitorDisplay


def standard(n):
    return Gaussian(np.zeros(n), np.ones(n))


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
@pytest.mark.parametrize("bet", range(N_BETS))
def test_no_bet_wins_on_average_while_calibrated(bet, tolerance):
    def factor(p):
        return np.exp(log_factors(np.array([p]), tolerance)[0, bet])

    mean = sum(quad(factor, *part)[0] for part in ((0.0, 0.05), (0.05, 0.95), (0.95, 1.0)))
    assert mean <= 1.0 + 1e-9
    if tolerance == 0.0:
        assert mean == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_the_worst_row_takes_from_each_bet_its_share(tolerance):
    factors = np.exp(log_factors(np.array([0.0, 0.05, 0.5, 0.95, 1.0]), tolerance))
    np.testing.assert_allclose(factors.min(axis=0), np.tile([0.95, 0.85, 0.65, 0.4, 0.1], 6))


def test_rows_at_the_ends_of_the_interval_are_outside():
    outside, inside = log_factors(np.array([0.0, 0.05, 1.0]), 0.0), log_factors(np.array([0.06, 0.94]), 0.0)
    np.testing.assert_allclose(outside[:, 20:], np.tile(outside[0, 20:], (3, 1)))
    np.testing.assert_allclose(np.exp(inside[:, 20:25]), 1.0 - np.array([0.05, 0.15, 0.35, 0.6, 0.9]) * [[1.0], [1.0]])


def test_wealth_is_the_sum_over_beginnings():
    rng = np.random.default_rng(0)
    pit = rng.uniform(size=7)
    factors = np.exp(log_factors(pit, 0.02))
    logs, state = Wealth(0.02).after(pit)
    for t in range(1, 8):
        begun = [np.prod(factors[j - 1 : t], axis=0).mean() / (j * (j + 1)) for j in range(1, t + 1)]
        np.testing.assert_allclose(logs[t - 1], np.log(sum(begun) + 1 / (t + 1)), rtol=1e-10)
    assert state.log == logs[-1]
    assert Wealth(0.0).log == 0.0


def test_blocks_do_not_matter():
    pit = np.random.default_rng(1).beta(1.0, 1.3, size=9000)
    whole, end = Wealth(0.0).after(pit)
    first, middle = Wealth(0.0).after(pit[:123])
    second, last = middle.after(pit[123:])
    np.testing.assert_allclose(np.concatenate([first, second]), whole, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(last.log_stakes, end.log_stakes, rtol=1e-9, atol=1e-9)


def alarms(draw, alpha, tolerance, streams=150, rows=1000):
    rng, threshold = np.random.default_rng(0), -np.log(alpha)
    return np.mean([(Wealth(tolerance).after(draw(rng, rows))[0] >= threshold).any() for _ in range(streams)])


def test_false_alarms_are_rare_at_any_time():
    share = alarms(lambda rng, n: rng.uniform(size=n), alpha=0.2, tolerance=0.0)
    assert share <= 0.2
    assert share > 0.0  # bets that never win would pass as well


@pytest.mark.no_cover
def test_false_alarms_are_rare_at_the_edge_of_the_tolerance():
    def shifted(rng, n):
        p = rng.uniform(size=n)
        return np.where(rng.uniform(size=n) < 0.1, np.maximum(p, rng.uniform(size=n)), p)  # the mean of 2p - 1 is 0.033

    assert alarms(shifted, alpha=0.2, tolerance=0.05, streams=40) <= 0.2
    assert alarms(shifted, alpha=0.2, tolerance=0.0, streams=40, rows=6000) > 0.2


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (lambda z: z + 1.0, 80),
        (lambda z: 2.0 * z, 100),
        (lambda z: 0.3 * z, 120),
        (lambda z: z + 5.0, 30),
        (lambda z: z - 0.5, 350),
    ],
)
def test_changes_are_found_soon(change, rows):
    rng = np.random.default_rng(2)
    monitor = Monitor(alpha=0.01)
    assert not monitor.add(rng.normal(size=2000), standard(2000)).alarm
    report = monitor.add(change(rng.normal(size=400)), standard(400))
    assert report.alarm
    assert 2000 < report.alarm_row <= 2000 + rows


def test_report():
    rng = np.random.default_rng(3)
    dist, y = StudentT(5.0, np.zeros(50), np.ones(50)), rng.standard_t(5.0, size=50)
    monitor = Monitor()
    report = monitor.add(y, dist, outside=0.2)
    assert (report.first, report.n, report.outside, report.alarm, report.alarm_row) == (0, 50, 0.2, False, None)
    assert report.log_score == pytest.approx(stats.t(5).logpdf(y).mean())
    assert report.crps == pytest.approx(dist.crps(y).mean())
    for level, share in report.coverage.items():
        low, high = dist.interval(level)
        assert share == np.mean((low <= y) & (y <= high))
    assert sum(report.pit_counts) == 50
    assert str(report).startswith("rows 1 to 50: log score -")
    assert "no alarm" in str(report)
    assert monitor.add(y, dist).first == 50


def test_levels_at_the_ends_of_intervals_and_bins():
    pit = [0.0, 0.1, 0.25, 0.35, 0.75, 0.99, 1.0]
    report = Monitor().add(np.zeros(7), standard(7), pit=pit)
    assert report.pit_counts == (1, 1, 1, 1, 0, 0, 0, 1, 0, 2)
    assert report.coverage == {0.5: 3 / 7, 0.9: 4 / 7, 0.95: 4 / 7}


def test_the_alarm_is_at_the_first_row_over_the_threshold_counted_from_the_reset():
    rng, monitor = np.random.default_rng(5), Monitor(alpha=0.1, tolerance=0.02)
    monitor.add(rng.normal(size=30), standard(30))
    monitor.reset()
    assert (monitor.start, monitor.n, monitor.alarm_row) == (30, 30, None)
    y = rng.normal(1.0, 1.0, size=60)
    wealth = [Wealth(0.02).after(stats.norm.cdf(y[:t]))[1].log for t in range(1, 61)]
    over = [t for t in range(1, 61) if wealth[t - 1] >= np.log(10.0)]
    assert 10 < over[0] < 50
    reports = [monitor.add(y[start : start + 10], standard(10)) for start in range(0, 60, 10)]
    assert [report.alarm_row for report in reports] == [None if end < over[0] else over[0] for end in range(10, 70, 10)]
    assert [report.alarm for report in reports] == [end >= over[0] for end in range(10, 70, 10)]
    np.testing.assert_allclose([report.log_wealth for report in reports], wealth[9::10])
    assert [report.first for report in reports] == list(range(30, 90, 10))


def test_alarm_stays_until_reset():
    monitor = Monitor()
    monitor.add(np.full(100, 4.0), standard(100))
    assert monitor.add(np.zeros(1), standard(1)).alarm
    row = monitor.alarm_row
    assert row is not None
    assert row < 20
    monitor.reset()
    assert not monitor.add(np.random.default_rng(0).normal(size=100), standard(100)).alarm
    report = monitor.add(np.full(100, 4.0), standard(100))
    assert 100 < report.alarm_row < 130
    assert (len(monitor.reports), monitor.n) == (4, 301)


def test_json():
    rng, monitor = np.random.default_rng(4), Monitor(alpha=0.05, tolerance=0.01)
    monitor.add(rng.normal(size=80), standard(80), outside=0.1)
    other = Monitor.from_json(monitor.to_json())
    assert other.reports == monitor.reports
    y = rng.normal(1.0, 1.0, size=80)
    assert other.add(y, standard(80), outside=0.0) == monitor.add(y, standard(80), outside=0.0)
    assert other.alarm_row == monitor.alarm_row is not None
    fresh = Monitor.from_json(Monitor().to_json())
    assert fresh.n == 0
    assert fresh.add(y, standard(80), outside=0.0) == Monitor().add(y, standard(80), outside=0.0)
    text = json.loads(monitor.to_json())
    text["wealth"]["log_stakes"] = [0.0]
    with pytest.raises(InvalidParameterError, match="a monitor has 30 bets; this text has 1"):
        Monitor.from_json(json.dumps(text))


def test_wrong_calls():
    with pytest.raises(InvalidParameterError, match="alpha must be a number > 0 and <= 1; got 0"):
        Monitor(alpha=0)
    with pytest.raises(InvalidParameterError, match=r"tolerance must be a number >= 0 and <= 0.5; got 2"):
        Monitor(tolerance=2)
    with pytest.raises(InvalidParameterError, match="pit must hold one probability for each of 2 rows"):
        Monitor().add([0.0, 1.0], standard(2), pit=[0.5, 1.5])
    with pytest.raises(InvalidParameterError, match=r"pit must hold one probability.* got shape \(3,\)"):
        Monitor().add([0.0, 1.0], standard(2), pit=[0.5, 0.5, 0.5])
    with pytest.raises(InvalidParameterError, match="pit must hold one probability"):
        Monitor().add([0.0, 1.0], standard(2), pit=[-0.1, 0.5])
    with pytest.raises(InvalidParameterError, match="it has watched none"):
        MonitorDisplay.from_monitor(Monitor())


def test_figure():
    rng, monitor = np.random.default_rng(5), Monitor()
    monitor.add(rng.normal(size=100), standard(100), outside=0.0)
    monitor.add(3.0 * rng.normal(size=100), standard(100), outside=0.5)
    display = MonitorDisplay.from_monitor(monitor, name="model")
    assert display.coverage_ax_.get_title() == "model" or display.coverage_ax_.get_title(loc="left") == "model"
    np.testing.assert_array_equal(display.ax_.lines[0].get_xdata(), [0, 100, 200])
    assert display.data.alarm_row == monitor.alarm_row
    alone = MonitorDisplay.from_monitor(monitor, ax=display.ax_)
    assert alone.coverage_ax_ is None


def test_a_batch_that_cannot_be_scored_is_not_added_in_part() -> None:
    class Broken(Gaussian):
        def crps(self, y):
            raise ArithmeticError("no score")

    monitor = Monitor()
    before = monitor.to_json()
    with pytest.raises(ArithmeticError, match="no score"):
        monitor.add([3.0, 4.0], Broken([0.0, 0.0], [1.0, 1.0]))
    assert monitor.to_json() == before


def test_batches_of_several_threads_are_all_watched() -> None:
    monitor, start, switching = Monitor(), Barrier(8), sys.getswitchinterval()

    def watch() -> None:
        start.wait()
        for _ in range(25):
            monitor.add([0.1, -0.2], Gaussian([0.0, 0.0], [1.0, 1.0]))

    threads = [Thread(target=watch) for _ in range(8)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switching)
    assert [report.first for report in monitor.reports] == list(range(0, 400, 2))
    assert monitor.reports[-1].log_wealth == _one_after_the_other().reports[-1].log_wealth


def _one_after_the_other() -> Monitor:
    monitor = Monitor()
    for _ in range(200):
        monitor.add([0.1, -0.2], Gaussian([0.0, 0.0], [1.0, 1.0]))
    return monitor


def test_the_mean_score_of_the_largest_numbers_is_a_number() -> None:
    report = Monitor().add(np.full(3, 1.7e308), Gaussian(np.zeros(3), np.ones(3)))
    assert report.crps == pytest.approx(1.7e308)
