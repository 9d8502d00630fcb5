from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy import stats

from bdkn.errors import InvalidParameterError
from bdkn.metrics import calibration_curve, coverage, pit
from bdkn.plots import (
    CalibrationDisplay,
    CurveDisplay,
    IntervalDisplay,
    PITDisplay,
    WeightsDisplay,
    WidthDisplay,
    save_figure,
)
from bdkn.plots.display import BLUE, GREY, SERIES, VERMILION, central_bands, tint
from bdkn.plots.predictions import as_steps, binomial_envelope
from bdkn.predictive import Gaussian, StudentT

ROWS = 80
RNG = np.random.default_rng(0)
DIST = StudentT(5.0, RNG.normal(size=ROWS), RNG.uniform(0.5, 2.0, size=ROWS))
Y = DIST.rvs(1, 1)[:, 0]
WEIGHTS = StudentT(20.0, [0.1, 0.6, -0.4, 0.01], [0.1, 0.05, 0.1, 0.02])
NAMES = ["a", "b", "c", "d"]


def labels(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


class Sine:
    """A stand-in for a fitted regressor of one variable."""

    member_names_ = NAMES

    def weight_posterior(self) -> StudentT:
        return WEIGHTS

    def predict_dist(self, X: object) -> Gaussian:
        self.seen = X
        column = np.asarray(X, dtype=float)[:, 0]
        return Gaussian(np.sin(column), 0.1 + column**2)


# --- the numbers ------------------------------------------------------------------------------------------------------


def test_interval_numbers_are_sorted_by_mean() -> None:
    data = IntervalDisplay.from_predictions(Y, DIST).data
    order = np.argsort(DIST.mean())
    np.testing.assert_array_equal(data.rank, np.arange(1, ROWS + 1))
    np.testing.assert_array_equal(data.mean, DIST.mean()[order])
    np.testing.assert_array_equal(data.y, Y[order])
    assert [band.level for band in data.bands] == [0.9, 0.5]
    for band in data.bands:
        np.testing.assert_array_equal([band.lower, band.upper], np.array(DIST[order].interval(band.level)))
    lower, upper = DIST[order].interval(0.9)
    np.testing.assert_array_equal(data.inside, (lower <= Y[order]) & (Y[order] <= upper))
    assert data.share == coverage(Y, DIST, 0.9) == data.inside.mean()


def test_many_rows_are_thinned_evenly_but_counted_all() -> None:
    data = IntervalDisplay.from_predictions(Y, DIST, max_rows=9).data
    assert len(data.rank) == len(data.y) == len(data.bands[0].lower) == 9
    assert data.rank[0] == 1
    assert data.rank[-1] == ROWS
    assert {b - a for a, b in pairwise(data.rank)} <= {9, 10}
    assert data.share == coverage(Y, DIST, 0.9)


def test_one_row_can_be_drawn() -> None:
    display = IntervalDisplay.from_predictions(Y[:1], DIST[:1])
    np.testing.assert_array_equal(display.data.rank, [1])


def test_steps_give_each_row_a_flat_piece() -> None:
    x, (band,) = as_steps(np.array([1.0, 2.0, 5.0]), central_bands(Gaussian([0.0, 10.0, 20.0], 1.0), [0.5]))
    np.testing.assert_allclose(x, [0.5, 1.5, 1.5, 3.5, 3.5, 5.5])
    np.testing.assert_allclose((band.lower + band.upper) / 2, [0, 0, 10, 10, 20, 20])


def test_calibration_numbers() -> None:
    data = CalibrationDisplay.from_predictions(Y, DIST, levels=[0.3, 0.6, 0.9], confidence=0.8).data
    nominal, share = calibration_curve(Y, DIST, [0.3, 0.6, 0.9])
    np.testing.assert_array_equal(data.nominal, nominal)
    np.testing.assert_array_equal(data.observed, share)
    assert data.error == pytest.approx(np.mean(np.abs(nominal - share)))
    np.testing.assert_allclose(data.lower, stats.binom.ppf(0.1, ROWS, nominal) / ROWS)
    np.testing.assert_allclose(data.upper, stats.binom.ppf(0.9, ROWS, nominal) / ROWS)


def test_envelope_contains_the_stated_share_of_samples() -> None:
    lower, upper = binomial_envelope(200, [0.1, 0.5, 0.9], 0.95)
    shares = np.random.default_rng(1).binomial(200, [0.1, 0.5, 0.9], size=(20_000, 3)) / 200
    held = np.mean((lower <= shares) & (shares <= upper), axis=0)
    assert np.all((held > 0.945) & (held < 0.98))


def test_pit_numbers() -> None:
    data = PITDisplay.from_predictions(Y, DIST, bins=5).data
    counts = [np.sum((pit(Y, DIST) >= a) & (pit(Y, DIST) < a + 0.2)) for a in data.edges[:-1]]
    np.testing.assert_allclose(data.edges, np.linspace(0, 1, 6))
    np.testing.assert_allclose(data.density, np.array(counts) / ROWS * 5)
    assert data.density.mean() == pytest.approx(1.0)
    assert data.lower == pytest.approx(stats.binom.ppf(0.025, ROWS, 0.2) / ROWS * 5)
    assert data.upper == pytest.approx(stats.binom.ppf(0.975, ROWS, 0.2) / ROWS * 5)


def test_weights_numbers_go_from_greatest_to_least() -> None:
    data = WeightsDisplay.from_posterior(WEIGHTS, NAMES).data
    assert data.names == ["b", "a", "d", "c"]
    np.testing.assert_array_equal(data.mean, [0.6, 0.1, 0.01, -0.4])
    np.testing.assert_array_equal(data.clear, [True, False, False, True])
    np.testing.assert_array_equal(data.bands[0].upper, WEIGHTS.interval(0.9)[1][[1, 0, 3, 2]])
    assert data.equal == 0.25
    assert data.not_shown == 0


def test_only_the_heaviest_members_are_shown() -> None:
    data = WeightsDisplay.from_posterior(WEIGHTS, NAMES, max_members=2).data
    assert data.names == ["b", "c"]
    assert data.not_shown == 2
    assert data.equal == 0.25


def test_curve_numbers_are_sorted_by_x() -> None:
    dist = Gaussian([20.0, 0.0, 10.0], [3.0, 1.0, 2.0])
    data = CurveDisplay.from_predictions([2.0, 0.0, 1.0], dist, truth=[21, 1, 11]).data
    np.testing.assert_array_equal(data.x, [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(data.mean, [0.0, 10.0, 20.0])
    np.testing.assert_array_equal(data.truth, [1.0, 11.0, 21.0])
    np.testing.assert_allclose(data.bands[0].upper, [0.0, 10.0, 20.0] + stats.norm.ppf(0.95) * np.array([1, 2, 3]))


def test_grid_reaches_past_the_data() -> None:
    display = CurveDisplay.from_estimator(Sine(), np.array([[0.0], [10.0]]), [0.0, 1.0], grid=5, margin=0.1)
    np.testing.assert_allclose(display.data.x, [-1, 2, 5, 8, 11])


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_grid_keeps_column_names(package: str) -> None:
    table, model = pytest.importorskip(package).DataFrame({"volt": [0.0, 1.0]}), Sine()
    CurveDisplay.from_estimator(model, table, [0.0, 1.0], grid=3, margin=0.0)
    assert type(model.seen) is type(table)
    assert list(model.seen.columns) == ["volt"]
    np.testing.assert_allclose(np.asarray(model.seen)[:, 0], [0.0, 0.5, 1.0])


def test_tint_runs_from_white_to_the_colour() -> None:
    assert to_hex(tint(BLUE, 0.0)) == "#ffffff"
    assert to_hex(tint(BLUE, 1.0)) == BLUE.lower()


# --- the drawing ------------------------------------------------------------------------------------------------------


def test_interval_artists() -> None:
    display = IntervalDisplay.from_predictions(Y, DIST, name="BDKN", target="yield (mol/h)")
    wide, narrow, inside, outside = display.ax_.collections
    assert wide.get_facecolor().mean() > narrow.get_facecolor().mean()  # the outer band is the paler one
    assert len(inside.get_offsets()) == display.data.inside.sum()
    assert len(outside.get_offsets()) == (~display.data.inside).sum() > 0
    assert to_hex(outside.get_facecolor()[0]) == VERMILION.lower()
    np.testing.assert_array_equal(display.ax_.lines[0].get_ydata(), display.data.mean)
    assert display.ax_.get_ylabel() == "yield (mol/h)"
    assert display.ax_.get_title(loc="left") == "BDKN"
    assert labels(display.ax_)[:3] == ["90% interval", "50% interval", "predicted mean"]
    assert labels(display.ax_)[3] == f"observed, inside 90% ({display.data.share:.0%} of rows)"


def test_several_models_share_one_calibration_axis() -> None:
    first = CalibrationDisplay.from_predictions(Y, DIST, name="one")
    second = CalibrationDisplay.from_predictions(Y, DIST.affine(1.0, 0.3), name="two", ax=first.ax_)
    assert second.ax_ is first.ax_
    models = [line for line in first.ax_.lines if line.get_gid() == "model"]
    assert [line.get_color() for line in models] == list(SERIES[:2])
    assert len({line.get_marker() for line in models}) == 2
    np.testing.assert_array_equal(models[1].get_ydata(), second.data.observed)
    assert len(first.ax_.collections) == 1  # one envelope for both
    assert labels(first.ax_) == [
        "chance, 95% of 80-row samples",
        "calibrated",
        f"one (mean gap {first.data.error:.1%})",
        f"two (mean gap {second.data.error:.1%})",
    ]


def test_models_with_other_numbers_of_rows_have_their_own_envelope() -> None:
    first = CalibrationDisplay.from_predictions(Y, DIST)
    CalibrationDisplay.from_predictions(Y[:40], DIST[:40], ax=first.ax_)
    assert len(first.ax_.collections) == 2


def test_pit_artists() -> None:
    display = PITDisplay.from_predictions(Y, DIST, bins=8, name="BDKN")
    bars = display.ax_.patches[:8]
    np.testing.assert_allclose([bar.get_height() for bar in bars], display.data.density)
    assert display.ax_.get_ylim()[1] > display.data.density.max()
    assert labels(display.ax_) == ["chance, 95% of samples", "calibrated"]


def test_weights_artists() -> None:
    display = WeightsDisplay.from_posterior(WEIGHTS, NAMES)
    wide, narrow, means = display.ax_.collections
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["b", "a", "d", "c"]
    top, bottom = display.ax_.transData.transform([(0, 0), (0, 3)])[:, 1]
    assert top > bottom  # the greatest weight is read first
    assert [to_hex(colour) for colour in wide.get_colors()] == [
        BLUE.lower() if clear else GREY for clear in display.data.clear
    ]
    np.testing.assert_allclose(
        [path.vertices[:, 0] for path in narrow.get_paths()], np.array(WEIGHTS.interval(0.5)).T[[1, 0, 3, 2]]
    )
    np.testing.assert_allclose(means.get_offsets()[:, 0], display.data.mean)
    assert labels(display.ax_) == ["90% interval", "50% interval", "mean", "equal weights", "90% interval holds zero"]


def test_the_weights_figure_grows_with_its_members() -> None:
    few = WeightsDisplay.from_posterior(WEIGHTS, NAMES)
    many = WeightsDisplay.from_posterior(StudentT(9.0, np.ones(40), 0.1), [str(i) for i in range(40)])
    assert many.figure_.get_figheight() > 2 * few.figure_.get_figheight()
    assert many.ax_.get_xlabel() == "Posterior weight (10 lighter members not shown)"
    assert "90% interval holds zero" not in labels(many.ax_)


def test_curve_artists() -> None:
    x = np.linspace(0, 1, 20)
    display = CurveDisplay.from_predictions(
        x, Gaussian(x, 0.1), truth=x**2, points=([0.5], [0.4]), labels=("volt (V)", "current (A)")
    )
    assert labels(display.ax_) == ["90% interval", "50% interval", "predicted mean", "truth", "observed"]
    np.testing.assert_array_equal(display.ax_.lines[1].get_ydata(), x**2)
    np.testing.assert_array_equal(display.ax_.collections[2].get_offsets(), [[0.5, 0.4]])
    bare = CurveDisplay.from_predictions(x, Gaussian(x, 0.1))
    assert labels(bare.ax_) == ["90% interval", "50% interval", "predicted mean"]
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("volt (V)", "current (A)")


def test_labels_can_be_replaced_and_are_kept_when_a_figure_is_drawn_again() -> None:
    display = IntervalDisplay.from_predictions(Y, DIST, target="yield (mol/h)")
    assert display.plot().ax_.get_ylabel() == "yield (mol/h)"
    assert display.plot(labels=("row", "flow")).ax_.get_ylabel() == "flow"
    assert display.ax_.get_xlabel() == "row"


@pytest.mark.parametrize("display", [IntervalDisplay, CalibrationDisplay, PITDisplay])
def test_estimators_are_drawn_as_their_predictions(display) -> None:
    X, model = RNG.normal(size=(50, 1)), Sine()
    y = model.predict_dist(X).rvs(1, 0)[:, 0]
    drawn, expected = display.from_estimator(model, X, y), display.from_predictions(y, model.predict_dist(X))
    arrays = {name: value for name, value in vars(expected.data).items() if isinstance(value, np.ndarray)}
    assert arrays
    for name, value in arrays.items():
        np.testing.assert_array_equal(getattr(drawn.data, name), value)
    words = [drawn.ax_.get_title(loc="left"), *labels(drawn.ax_)]
    assert any(word.startswith("Sine") for word in words)


def test_curves_and_weights_of_estimators() -> None:
    X = RNG.uniform(-1, 1, size=(30, 1))
    curve = CurveDisplay.from_estimator(Sine(), X, np.sin(X[:, 0]), grid=50, margin=0.5)
    assert curve.data.x[0] == pytest.approx(X.min() - 0.5 * np.ptp(X))
    np.testing.assert_allclose(curve.data.mean, np.sin(curve.data.x))
    assert len(curve.ax_.collections[2].get_offsets()) == 30
    weights = WeightsDisplay.from_estimator(Sine())
    assert weights.data.names == ["b", "a", "d", "c"]
    assert weights.ax_.get_title(loc="left") == "Sine"


def test_given_axes_are_used_and_keep_their_layout() -> None:
    figure = Figure(figsize=(6, 4))  # no layout engine: nothing makes room below, so the legend goes inside
    ax = figure.add_subplot()
    display = IntervalDisplay.from_predictions(Y, DIST, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    figure.draw_without_rendering()
    legend, inside = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert inside.y0 <= legend.y0
    assert legend.y1 <= inside.y1


@pytest.mark.parametrize("display", [IntervalDisplay, CalibrationDisplay, PITDisplay])
def test_a_figure_of_its_own_shows_everything(display) -> None:
    shown = display.from_predictions(Y, DIST, name="BDKN")
    shown.figure_.draw_without_rendering()
    legend, axes = shown.ax_.get_legend().get_window_extent(), shown.ax_.get_window_extent()
    label = shown.ax_.xaxis.label.get_window_extent()
    assert legend.y1 < label.y0 < axes.y0  # below the axis label, hiding neither it nor the data
    assert legend.y0 >= 0
    assert legend.x1 <= shown.figure_.bbox.x1


def test_unknown_options_are_errors() -> None:
    with pytest.raises(TypeError, match="colour"):
        IntervalDisplay.from_predictions(Y, DIST, colour="red")
    with pytest.raises(TypeError, match="bin"):
        PITDisplay.from_estimator(Sine(), np.ones((2, 1)), [1.0, 2.0], bin=3)


def test_impossible_figures_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="names must name each of the 4 weights; got 2 names"):
        WeightsDisplay.from_posterior(WEIGHTS, ["a", "b"])
    with pytest.raises(InvalidParameterError, match=r"x must hold one value for each of the 80 predicted rows; got.*3"):
        CurveDisplay.from_predictions([1, 2, 3], DIST)
    with pytest.raises(InvalidParameterError, match=r"a curve needs X with one column; got shape \(5, 2\)"):
        CurveDisplay.from_estimator(Sine(), np.zeros((5, 2)), np.zeros(5))
    with pytest.raises(InvalidParameterError, match="bins must be an integer >= 1; got 0"):
        PITDisplay.from_predictions(Y, DIST, bins=0)


# --- files and global state -------------------------------------------------------------------------------------------


@pytest.mark.no_cover
def test_files_are_written_and_reproducible(tmp_path: Path) -> None:
    formats = ("png", "svg", "pdf")
    first = CalibrationDisplay.from_predictions(Y, DIST).save(tmp_path / "new" / "one", "figure", formats)
    second = CalibrationDisplay.from_predictions(Y, DIST).save(tmp_path / "two", "figure", formats)
    assert [path.name for path in first] == ["figure.png", "figure.svg", "figure.pdf"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert "dc:date" not in first[1].read_text()
    assert first[0].read_bytes().startswith(b"\x89PNG")


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidParameterError, match="formats must be one of 'png', 'svg', 'pdf'; got 'pgn'; did you mean"
    ):
        save_figure(Figure(), tmp_path / "folder", "figure", ("png", "pgn"))
    assert not (tmp_path / "folder").exists()


def test_a_notebook_shows_the_figure() -> None:
    assert PITDisplay.from_predictions(Y, DIST)._repr_png_().startswith(b"\x89PNG")


def test_settings_of_the_session_stay_untouched(tmp_path: Path) -> None:
    before = dict(rcParams)
    IntervalDisplay.from_predictions(Y, DIST).save(tmp_path, "figure")
    assert dict(rcParams) == before


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    code = """
import sys
import bdkn.plots
from bdkn.predictive import Gaussian
assert not {"matplotlib", "scoringrules", "numba", "sklearn", "torch", "scipy.stats"} & set(sys.modules), sys.modules
bdkn.plots.PITDisplay.from_predictions([0.0, 1.0], Gaussian([0.0, 0.0], 1.0))
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


# --- width over two columns -------------------------------------------------------------------------------------------


class Bowl:
    """A stand-in for a fitted regressor of two variables, whose scale grows with the distance from zero."""

    def predict_dist(self, X: object) -> Gaussian:
        self.seen = X
        table = np.asarray(X, dtype=float)
        return Gaussian(table.sum(axis=1), 0.1 + np.linalg.norm(table, axis=1))


def test_width_is_that_of_the_intervals_on_a_grid_beyond_the_rows() -> None:
    X = np.array([[-1.0, -2.0], [1.0, 2.0], [0.0, 0.0]])
    data = WidthDisplay.from_estimator(Bowl(), X, level=0.5, grid=21, margin=0.5).data
    np.testing.assert_allclose([data.x[0], data.x[-1], data.y[0], data.y[-1]], [-2.0, 2.0, -4.0, 4.0])
    scale = 0.1 + np.hypot(data.x[3], data.y[7])
    np.testing.assert_allclose(data.width[7, 3], scale * np.diff(stats.norm.interval(0.5))[0])


def test_width_keeps_names_of_columns() -> None:
    pandas = pytest.importorskip("pandas")
    frame, bowl = pandas.DataFrame({"a": [0.0, 1.0], "b": [0.0, 3.0]}), Bowl()
    display = WidthDisplay.from_estimator(bowl, frame, grid=4, name="bowl")
    assert list(bowl.seen.columns) == ["a", "b"]  # type: ignore[attr-defined]
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel(), display.ax_.get_title("left")) == ("a", "b", "bowl")


@pytest.mark.parametrize(("X", "level"), [(np.zeros((3, 1)), 0.9), (np.eye(2), 1.5)])
def test_width_refuses(X: object, level: float) -> None:
    with pytest.raises(InvalidParameterError, match=r"two columns|level must be"):
        WidthDisplay.from_estimator(Bowl(), X, level=level)
