import numpy as np
import pytest
from scipy import stats
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bdkn.report import ConstantGaussian, compare

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 2)), RNG.normal(5, 2, size=60)
X_NEW, Y_NEW = RNG.normal(size=(40, 2)), RNG.normal(5, 2, size=40)


def test_the_constant_predicts_mean_and_deviation_of_the_training_targets():
    dist = ConstantGaussian().fit(X, Y.tolist()).predict_dist(X_NEW)
    np.testing.assert_array_equal(dist.mean(), np.full(40, Y.mean()))
    np.testing.assert_array_equal(dist.std(), np.full(40, Y.std()))


def test_scores_agree_with_their_definitions():
    (score,) = compare({"constant": ConstantGaussian().fit(X, Y)}, X_NEW, Y_NEW, seconds={"constant": 1.5})
    gaussian = stats.norm(Y.mean(), Y.std())
    lower, upper = gaussian.interval(0.9)
    assert (score.model, score.seconds) == ("constant", 1.5)
    assert score.rmse == pytest.approx(np.sqrt(np.mean((Y_NEW - Y.mean()) ** 2)))
    assert score.nll == pytest.approx(-gaussian.logpdf(Y_NEW).mean())
    assert score.coverage == pytest.approx(np.mean(np.abs(Y_NEW - Y.mean()) <= (upper - lower) / 2))
    assert score.interval_width == pytest.approx(upper - lower)
    draws = gaussian.rvs((2, 50_000), random_state=0)
    energy = np.mean([np.abs(draws[0] - y).mean() for y in Y_NEW]) - np.abs(draws[0] - draws[1]).mean() / 2
    assert score.crps == pytest.approx(energy, rel=0.02)


def test_models_keep_their_order_and_may_be_pipelines():
    one, two = ConstantGaussian().fit(X, Y), ConstantGaussian().fit(X, Y + 1)
    scores = compare({"b": make_pipeline(StandardScaler().fit(X), two), "a": one}, X_NEW, Y_NEW)
    assert [score.model for score in scores] == ["b", "a"]
    assert [score.seconds for score in scores] == [None, None]
    assert scores[0].rmse == pytest.approx(np.sqrt(np.mean((Y_NEW - Y.mean() - 1) ** 2)))
