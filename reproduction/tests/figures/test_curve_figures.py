import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from bdkn.errors import InvalidParameterError
from bdkn_paper.analysis.curves import quartile_curve, setting_curves, size_curves
from bdkn_paper.analysis.sample import quantiles
from bdkn_paper.figures.curve_axes import fit_view, limits
from bdkn_paper.figures.ensemble_size import draw_sizes
from bdkn_paper.figures.epochs import draw_epochs

EPOCHS = 40


def record(experiment, method, split, rmse, nll, status="done"):
    cell = {"experiment": experiment, "method": method, "split": split}
    return {
        "cell": cell,
        "status": status,
        "curves": {"epoch": list(range(1, len(rmse) + 1)), "rmse": rmse, "nll": nll},
    }


def falling(start, end, split=0):
    return [end + (start - end) * 0.8**k + 0.1 * split for k in range(EPOCHS)]


def records():
    return [
        record(experiment, method, split, falling(30, 3, split), [300.0, *falling(4, 2, split)[1:]])
        for experiment, methods in (
            ("figure2", ("bdkn-1", "de-1", "bdkn-2", "de-2")),
            ("figure3", ("bdkn-50", "bdkn-5", "bdkn-10")),
        )
        for method in methods
        for split in range(3)
    ]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0, 1))
def test_quantiles_are_numpys(values, share):
    assert quantiles(values, (share,))[0] == pytest.approx(np.quantile(values, share), abs=1e-6)


def test_quantiles_of_what_diverged():
    values = [[1.0], [np.nan], [2.0], [np.inf], [3.0]]
    assert quantiles(values, (0.25, 0.5, 0.75, 1.0)).ravel().tolist() == [2.0, 3.0, np.inf, np.inf]
    assert quantiles([1.0, np.nan], (0.5,))[0] == np.inf


def test_quartile_curves_by_hand():
    curves = [{"epoch": [1, 2], "rmse": [k, 10.0 * k]} for k in range(5)]
    curve = quartile_curve(curves, "rmse")
    assert curve.lower.tolist() == [1, 10]
    assert curve.median.tolist() == [2, 20]
    assert curve.upper.tolist() == [3, 30]
    assert curve.final.tolist() == [0, 10, 20, 30, 40]


def test_curves_of_different_length_are_refused():
    curves = [{"epoch": [1, 2], "rmse": [1, 1]}, {"epoch": [1], "rmse": [1]}]
    with pytest.raises(InvalidParameterError, match="curves must have the same epochs on every split; got 2 kinds"):
        quartile_curve(curves, "rmse")


def test_records_are_grouped():
    found = setting_curves([*records(), record("figure2", "bdkn-1", 9, [], [], status="failed")])
    assert list(found) == [1, 2]
    assert list(found[1]) == ["rmse", "nll"]
    assert list(found[1]["rmse"]) == ["bdkn", "de"]
    assert len(found[1]["rmse"]["bdkn"].final) == 3
    assert list(size_curves(records())["nll"]) == ["5", "10", "50"]


def test_figure_2_has_a_line_a_setting():
    figure = draw_epochs(setting_curves(records()))
    assert [ax.get_ylabel() for ax in figure.axes] == ["Test RMSE", "Test NLL"] * 2
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "(a) Setting 1, high learning rate",
        "",
        "(b) Setting 2, low learning rate",
        "",
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["BDKN", "DE"]
    assert figure.axes[0].get_yscale() == "log"
    assert figure.axes[1].get_yscale() == "linear"
    assert figure.axes[1].texts[0].get_text() == "off the scale: up to 300"
    assert figure.axes[0].lines[0].get_ydata() == pytest.approx(falling(30, 3, 1))


def test_figure_3_has_curves_and_boxes():
    figure = draw_sizes(size_curves(records()))
    above, _, below, _ = figure.axes
    assert [line.get_label() for line in above.lines] == ["H = 5", "H = 10", "H = 50"]
    assert [label.get_text() for label in below.get_xticklabels()] == ["5", "10", "50"]
    assert below.get_xlabel() == "Networks, H"
    assert below.get_title(loc="left") == "(b) After the last epoch"


@pytest.mark.no_cover
def test_what_diverged_leaves_gaps():
    bad = [record("figure3", "bdkn-5", k, [1.0, np.nan, 2.0], [1.0, np.nan, 2.0]) for k in range(3)]
    figure = draw_sizes(size_curves(bad))
    figure.canvas.draw()
    assert np.isnan(figure.axes[0].lines[0].get_ydata()).tolist() == [False, True, False]


def curve(values):
    return quartile_curve([{"epoch": list(range(len(values))), "y": values}], "y")


def test_a_high_beginning_does_not_flatten_the_rest():
    low, high = limits([curve([1000.0] + [1 + 0.01 * k for k in range(99)])])
    assert 0.9 < low < 1
    assert 2 < high < 3
    low, high = limits([curve([2.5] + [1 + 0.01 * k for k in range(99)])])
    assert high > 2.5


def test_a_flat_curve_has_a_view():
    low, high = limits([curve([2.0] * 20)])
    assert low < 2 < high


def test_small_spans_stay_linear():
    ax = Figure().add_subplot()
    fit_view(ax, [curve(falling(4, 2))], log=True)
    assert ax.get_yscale() == "linear"
    assert not ax.texts
