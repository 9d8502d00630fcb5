import json
from dataclasses import replace

import numpy as np
from scipy import stats

from bdkn.report import score_table, trial_report, weight_table
from bdkn.report.captions import describe_calibration, describe_chance, describe_intervals, describe_weights
from bdkn.report.figures import draw_calibration, draw_intervals, draw_weights
from bdkn.report.picture import draw_picture
from bdkn.report.summary import summarize_trial


def test_the_intervals_caption_counts_rows(trial):
    y, dist = trial.data.y_test, trial.predictive("BDKN")
    lower, upper = dist.ppf(0.05), dist.ppf(0.95)
    held = int(np.sum((lower <= y) & (y <= upper)))
    assert f"contain {held} of 111 observations ({held / 111:.0%})" in describe_intervals(trial)


def test_the_range_of_chance_is_binomial():
    low, high = stats.binom.interval(0.95, 111, 0.9)
    words = f"contain between {low / 111:.0%} and {high / 111:.0%} of 111 observations, in 95% of samples."
    assert describe_chance(111).endswith(words)


def test_the_calibration_caption_leaves_out_the_baseline(trial):
    first, second, _ = trial.scores
    words = f"{first.calibration_error:.1%} for BDKN, {second.calibration_error:.1%} for Deep ensemble."
    assert words in describe_calibration(trial)
    assert "Constant" not in describe_calibration(trial)


def test_the_weights_caption_counts_intervals_that_exclude_zero(trial):
    members = trial.models["BDKN"].member_table()
    clear = sum(lower > 0 or upper < 0 for lower, upper in zip(members["lower"], members["upper"], strict=True))
    count = len(members["member"])
    expected = f"of {clear} of {count} weights exclude zero; equal weights would be {1 / count:.2f}."
    assert expected in describe_weights(trial)


def test_figures_show_the_trial(trial):
    assert draw_intervals(trial).ax_.get_ylabel() == "Disease progression after a year"
    models = [line.get_label() for line in draw_calibration(trial).ax_.lines if line.get_gid() == "model"]
    assert [label.split(" (")[0] for label in models] == ["BDKN", "Deep ensemble"]
    drawn = draw_weights(trial).data
    np.testing.assert_array_equal(np.sort(drawn.mean), np.sort(trial.models["BDKN"].weights_))
    assert drawn.bands[0].level == 0.95


def test_the_picture_has_three_panels(trial):
    figure = draw_picture(trial)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["Predictions of BDKN for 111 test rows", "Calibration", "Weights of the networks of BDKN"]
    figure.draw_without_rendering()
    boxes = [ax.get_tightbbox().transformed(figure.transFigure.inverted()) for ax in figure.axes]
    assert all(box.x0 > -0.01 and box.x1 < 1.01 and box.y0 > -0.01 for box in boxes), boxes
    assert boxes[0].x1 <= boxes[1].x0
    assert boxes[1].x1 <= boxes[2].x0


def test_the_report_holds_tables_notes_and_figures(trial):
    report = trial_report(trial, ["a remark"])
    assert report.title == "BDKN on the diabetes data"
    assert report.tables[0].rows == score_table(trial.scores, "").rows
    assert report.tables[1].rows == weight_table(trial.models["BDKN"].member_table(), "").rows
    assert report.notes[1:] == (describe_chance(111), "a remark")
    assert [item.stem for item in report.illustrations] == ["intervals", "calibration", "weights"]


def test_the_summary_of_a_trial_is_json(trial):
    numbers = json.loads(json.dumps(summarize_trial(trial), allow_nan=False))
    assert numbers["data"] == {"name": "diabetes", "train": 331, "test": 111}
    assert [row["model"] for row in numbers["scores"]] == ["BDKN", "Deep ensemble", "Constant"]
    assert numbers["scores"][0]["nll"] == trial.scores[0].nll
    np.testing.assert_array_equal([row["weight"] for row in numbers["weights"]], trial.models["BDKN"].weights_)
    assert numbers["weights"][0].keys() == set(trial.models["BDKN"].member_table())
    assert numbers["models"] == trial.expressions
    assert {"Python", "bdkn", "numpy", "machine"} <= numbers["versions"].keys()


def test_numbers_that_are_not_finite_become_null(trial):
    broken = replace(trial)
    vars(broken)["scores"] = [replace(trial.scores[0], nll=float("inf"), rmse=float("nan"), seconds=None)]
    row = json.loads(json.dumps(summarize_trial(broken), allow_nan=False))["scores"][0]
    assert row["nll"] is row["rmse"] is row["seconds"] is None
