from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from bdkn import BayesianStackingRegressor, DeepEnsembleRegressor
from bdkn.analysis.decisions import Outcome, expected_cost, optimal_order, probability_above
from bdkn.errors import InvalidParameterError
from bdkn.predictive import Gaussian, GaussianMixture, LogLink, Predictive, StudentT, Transformed

N = 5
LOC = np.linspace(-1.0, 2.0, N)


def outcomes():
    """Return outcomes of each form: a density, point masses and a density, and discrete values."""
    shares = np.linspace(0.1, 0.3, 2 * N).reshape(N, 2)
    discrete = np.full((N, 4), 0.25)
    return {
        "student-t": Outcome.of(StudentT(6.0, LOC, 0.8)),
        "mixture": Outcome.of(GaussianMixture(np.column_stack([LOC, LOC + 1.0]), 0.4)),
        "transformed": Outcome.of(Transformed(Gaussian(LOC / 3.0, 0.4), LogLink())),
        "masses": Outcome(np.array([0.0, 1.5]), shares, Gaussian(LOC, 1.0)),
        "discrete": Outcome(np.array([0.0, 1.0, 2.0, 5.0]), discrete, None),
    }


def draws(outcome, size=200_000):
    """Return draws (n, size)."""
    rng = np.random.default_rng(0)
    level = rng.random((len(outcome), size))
    found = np.zeros((len(outcome), size)) if outcome.rest is None else outcome.rest.rvs(size, rng)
    cumulated = np.cumsum(outcome.shares, axis=1)
    for k in range(len(outcome.values) - 1, -1, -1):
        found = np.where(level < cumulated[:, k : k + 1], outcome.values[k], found)
    return found


@pytest.fixture(params=outcomes())
def outcome(request):
    return outcomes()[request.param]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 2))
    return X, X[:, 0] + 0.3 * rng.normal(size=160)


@pytest.fixture(scope="module")
def model(data):
    return BayesianStackingRegressor([("first", lambda X: X[:, 0])], density="student-t", random_state=0).fit(*data)


@pytest.fixture(scope="module")
def with_zeros(data):
    X, y = data
    return BayesianStackingRegressor([("first", lambda X: X[:, 0])], random_state=0).fit(X, np.maximum(y, 0.0))


@pytest.fixture(scope="module")
def with_counts(data):
    X, y = data
    stack = BayesianStackingRegressor([("first", lambda X: X[:, 0])], random_state=0)
    return stack.fit(X, np.clip(np.round(y + 2.0), 0.0, 4.0))


class TestProbabilities:
    def test_shares_of_draws(self, outcome):
        drawn = draws(outcome)
        for threshold in (-0.7, 0.0, 1.5, 3.0):
            found = probability_above(outcome, threshold)
            np.testing.assert_allclose(found, (drawn > threshold).mean(axis=1), atol=0.006)

    def test_a_threshold_on_a_value_does_not_count_it(self):
        masses, discrete = outcomes()["masses"], outcomes()["discrete"]
        np.testing.assert_allclose(probability_above(discrete, 1.0), 0.5)
        np.testing.assert_allclose(probability_above(discrete, np.nextafter(1.0, 0.0)), 0.75)
        step = probability_above(masses, np.nextafter(0.0, -1.0)) - probability_above(masses, 0.0)
        np.testing.assert_allclose(step, masses.shares[:, 0], atol=1e-12)

    def test_shapes(self, model, data):
        X = data[0][:7]
        one = model.predict_above(X, 0.5)
        assert one.shape == (7,)
        np.testing.assert_allclose(one, 1.0 - model.predict_dist(X).cdf(0.5))
        several = model.predict_above(X, [0.0, 0.5, 1.0])
        assert several.shape == (7, 3)
        np.testing.assert_allclose(several[:, 1], one)
        np.testing.assert_allclose(model.predict_above(X, [[0.0, 0.5, 1.0]]), several)
        per_row = np.linspace(0.0, 1.0, 7)
        np.testing.assert_allclose(model.predict_above(X, per_row), 1.0 - model.predict_dist(X).cdf(per_row))
        own = np.stack([per_row, per_row + 1.0], axis=1)
        np.testing.assert_allclose(model.predict_above(X, own), 1.0 - model.predict_dist(X).cdf(own))
        assert model.predict_above(X, [0.5]).shape == (7, 1)
        assert model.predict_above(X[:1], [0.5]).shape == (1, 1)

    @pytest.mark.parametrize(
        ("threshold", "message"),
        [
            ([0.1, 0.2, 0.3], r"one per row or several.*a list of 3 for 3 rows.*shape \(3,\).*shape \(1, 3\)"),
            (np.array([0.1, 0.2]), r"one per row or several.*an array of 2 for 3 rows"),
            (np.zeros((2, 2)), r"several of shape \(1, k\) or \(3, k\); got shape \(2, 2\)"),
            (np.nan, "threshold must be numbers; 1 of 1 are nan"),
            ("high", "threshold must hold numbers; it is 'high'"),
        ],
    )
    def test_thresholds_that_could_mean_two_things(self, model, data, threshold, message):
        with pytest.raises(InvalidParameterError, match=message):
            model.predict_above(data[0][:3], threshold)

    def test_point_masses_of_a_model(self, with_zeros, data):
        X = data[0]
        assert not with_zeros.target_values_.is_discrete
        zero = with_zeros.predict_values(X)[0.0]
        rest = with_zeros._outcome(X).rest
        np.testing.assert_allclose(with_zeros.predict_above(X, 0.0), (1.0 - zero) * (1.0 - rest.cdf(0.0)), atol=1e-12)
        upper = with_zeros.predict_quantiles(X, 0.9)[:, 0]
        far = upper > 0.05
        np.testing.assert_allclose(with_zeros.predict_above(X, upper)[far], 0.1, atol=1e-6)

    def test_a_discrete_target_of_a_model(self, with_counts, data):
        X, values = data[0], with_counts.predict_values(data[0])
        expected = sum(share for value, share in values.items() if value > 2.0)
        np.testing.assert_allclose(with_counts.predict_above(X, 2.0), expected, atol=1e-12)

    def test_every_regressor_has_it(self, data):
        X, y = data
        ensemble = DeepEnsembleRegressor(n_members=2, hidden_layer_sizes=(8,), epochs=5, random_state=0).fit(X, y)
        np.testing.assert_allclose(ensemble.predict_above(X, 0.2), 1.0 - ensemble.predict_dist(X).cdf(0.2))


class TestCosts:
    def test_linear_costs_are_those_of_draws(self, outcome):
        drawn = draws(outcome)
        found = expected_cost(outcome, (3.0, 1.0), [0.0, 1.5])
        assert found.shape == (N, 2)
        for k, decision in enumerate((0.0, 1.5)):
            costs = np.where(drawn > decision, 3.0 * (drawn - decision), decision - drawn)
            np.testing.assert_allclose(found[:, k], costs.mean(axis=1), rtol=0.02, atol=0.01)

    def test_linear_costs_are_those_of_a_function(self, outcome):
        decision = np.linspace(-0.5, 2.0, N)

        def cost(y, decision):
            return np.where(y > decision, 3.0 * (y - decision), decision - y)

        np.testing.assert_allclose(
            expected_cost(outcome, cost, decision), expected_cost(outcome, (3.0, 1.0), decision), rtol=2e-5, atol=2e-6
        )
        several = expected_cost(outcome, cost, [0.0, 1.0])
        np.testing.assert_allclose(several[:, 1], expected_cost(outcome, cost, 1.0))

    def test_a_function_against_another_quadrature(self):
        dist, cost = StudentT(6.0, LOC, 0.8), lambda y: np.sqrt(np.abs(y)) + (y > 0.3)
        found = expected_cost(Outcome.of(dist), cost)
        for i in range(N):
            pieces = [-np.inf, 0.0, 0.3, np.inf]
            exact = sum(
                quad(lambda y, i=i: cost(y) * dist[i].pdf(y)[0], low, high, limit=300)[0]
                for low, high in itertools.pairwise(pieces)
            )
            assert found[i] == pytest.approx(exact, rel=3e-6)

    def test_moments(self, outcome):
        drawn = draws(outcome)
        np.testing.assert_allclose(expected_cost(outcome, lambda y: y), drawn.mean(axis=1), atol=0.02)
        np.testing.assert_allclose(expected_cost(outcome, lambda y: 7.0), 7.0, rtol=1e-9)

    def test_kinds_of_predictions_that_are_not_known(self):
        known, other = Outcome.of(Gaussian(LOC, 1.0)), Outcome.of(Wrapped(Gaussian(LOC, 1.0)))
        expected = expected_cost(known, (2.0, 1.0), 0.4)
        np.testing.assert_allclose(expected_cost(other, (2.0, 1.0), 0.4), expected, rtol=1e-5)

    def test_the_tails_of_kinds_that_are_not_known_count(self):
        outcome = Outcome.of(Wrapped(StudentT(2.0, LOC, 1.0)))
        with pytest.raises(InvalidParameterError, match="row 0 cannot be computed to the tolerance 1e-06"):
            expected_cost(outcome, lambda y: y**4)

    def test_an_improvement_on_the_best_target(self, model, data):
        """Its cost is a hinge, far out in the tail of most predictions."""
        X, y = data
        found = model.expected_cost(X, lambda v: -np.maximum(v - y.max(), 0.0))
        exact = model.expected_cost(X, (1.0, 0.0), y.max())
        assert exact.min() < 1e-11
        np.testing.assert_allclose(-found, exact, rtol=1e-5, atol=1e-14)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (((1.0, 2.0),), "a cost .* is that of a decision: give decision="),
            (((1.0, 2.0, 3.0), 0.0), r"a function of the target, or a pair \(under, over\)"),
            (((-1.0, 2.0), 0.0), "under must be finite and >= 0"),
            (((1.0, 2.0), np.inf), "decision must be finite"),
            ((lambda y: y[:1],), "returns a cost for each number.*given shape .* it returned shape"),
        ],
    )
    def test_costs_that_are_none(self, model, data, arguments, message):
        with pytest.raises(InvalidParameterError, match=message):
            model.expected_cost(data[0][:4], *arguments)


class Wrapped(Predictive):
    """A predictive of a kind that closed forms do not know."""

    def __init__(self, inner):
        self.__dict__.update(inner=inner, scale=inner.scale)

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, rows):
        return Wrapped(self.inner[rows])

    def mean(self):
        return self.inner.mean()

    def var(self):
        return self.inner.var()

    def _affine(self, scale, shift):
        return Wrapped(self.inner._affine(scale, shift))

    def _logpdf(self, y):
        return self.inner._logpdf(y)

    def _cdf(self, y):
        return self.inner._cdf(y)

    def _ppf(self, q):
        return self.inner._ppf(q)

    def _crps(self, y):
        return self.inner._crps(y)

    def _rvs(self, size, generator):
        return self.inner._rvs(size, generator)


class TestOrders:
    def test_no_other_order_costs_less(self, outcome):
        order = optimal_order(outcome, 3.0, 1.0)
        np.testing.assert_allclose(order.level, 0.75)
        for step in (-0.3, -0.01, 0.01, 0.3):
            assert (expected_cost(outcome, (3.0, 1.0), order.quantity + step) >= order.cost - 1e-6).all()
        np.testing.assert_allclose(order.cost, expected_cost(outcome, (3.0, 1.0), order.quantity))

    def test_costs_per_row(self, model, data):
        X, under = data[0][:6], np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        order = model.optimal_order(X, under=under, over=2.0)
        for i in range(6):
            alone = model.optimal_order(X[i : i + 1], under=under[i], over=2.0)
            assert order.quantity[i] == pytest.approx(alone.quantity[0])
            assert order.cost[i] == pytest.approx(alone.cost[0])
        np.testing.assert_allclose(model.predict_above(X, order.quantity), 1.0 - order.level)

    def test_counts_are_ordered_in_counts(self, with_counts, data):
        order = with_counts.optimal_order(data[0], under=3.0, over=1.0)
        assert set(np.unique(order.quantity)) <= {0.0, 1.0, 2.0, 3.0, 4.0}
        np.testing.assert_allclose(order.quantity, with_counts.predict_quantiles(data[0], 0.75)[:, 0])

    def test_tables(self, model, data):
        pandas = pytest.importorskip("pandas")
        frame = model.optimal_order(data[0][:3], under=1.0, over=1.0).to_frame()
        assert isinstance(frame, pandas.DataFrame)
        assert list(frame.columns) == ["quantity", "cost", "level"]

    @pytest.mark.parametrize(
        ("under", "over", "message"),
        [
            (0.0, 1.0, "under and over must be > 0"),
            (0.0, 0.0, "must not both be 0"),
            (-1.0, 1.0, "under must be finite"),
            ([[1.0, 2.0]], 1.0, "one number per row; got several"),
        ],
    )
    def test_costs_without_an_order(self, model, data, under, over, message):
        with pytest.raises(InvalidParameterError, match=message):
            model.optimal_order(data[0][:4], under=under, over=over)


@given(
    loc=st.floats(-5.0, 5.0),
    scale=st.floats(0.01, 10.0),
    df=st.floats(2.5, 50.0),
    under=st.floats(0.1, 10.0),
    over=st.floats(0.1, 10.0),
    decision=st.floats(-20.0, 20.0),
)
def test_costs_of_a_decision_have_their_slope(loc, scale, df, under, over, decision):
    """The cost grows by over P(y < d) - under P(y > d) with the decision, and is linear far from the prediction."""
    outcome = Outcome.of(StudentT(df, [loc], scale))
    step = 1e-4 * scale
    low, high = expected_cost(outcome, (under, over), [[decision - step, decision + step]])[0]
    above = probability_above(outcome, decision)[0]
    assert (high - low) / (2.0 * step) == pytest.approx(over * (1.0 - above) - under * above, abs=1e-3 * (under + over))
    least = max(under * (loc - decision), over * (decision - loc))
    assert expected_cost(outcome, (under, over), decision)[0] >= least - 1e-9 * (1.0 + abs(decision)) * (under + over)
