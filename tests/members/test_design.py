import numpy as np
import pytest

from bdkn.data.rows import Rows
from bdkn.ensemble.networks import Design
from bdkn.ensemble.selection import HeldOut, MemberScores, constant_variance
from bdkn.networks import MIN_VARIANCE, NetworkSpec, initial_networks

rng = np.random.default_rng(0)
X = rng.normal(size=(57, 3)).astype(np.float32)
y = rng.normal(size=57)
COUNTS = rng.integers(1, 4, 57)
NETWORKS = initial_networks(NetworkSpec(n_inputs=3, hidden=(5,)), [np.random.default_rng(h) for h in range(4)])


@pytest.fixture(params=[1, 10, 8192])
def chunk_rows(request, monkeypatch):
    monkeypatch.setattr("bdkn.data.rows.BLOCK_ROWS", request.param)


@pytest.mark.usefixtures("chunk_rows")
@pytest.mark.parametrize("counts", [None, COUNTS.astype(float)])
def test_concatenated_chunks_are_the_design_matrix(counts):
    design = Design(NETWORKS, Rows(X, y, counts))
    parts = list(design.chunks())
    np.testing.assert_allclose(np.concatenate([part[0] for part in parts]), NETWORKS.outputs(X)[0].T, rtol=1e-12)
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), y)
    assert all(part[2] is None for part in parts)
    if counts is None:
        assert all(part[3] is None for part in parts)
    else:
        np.testing.assert_array_equal(np.concatenate([part[3] for part in parts]), counts)


class Counting:
    """Networks that count how often they predict."""

    def __init__(self, networks):
        self.networks, self.asked = networks, 0

    def __len__(self):
        return len(self.networks)

    def __getitem__(self, members):
        return self.networks[members]

    def outputs(self, X):
        self.asked += 1
        return self.networks.outputs(X)


@pytest.mark.parametrize(("held", "asked"), [(10**9, 1), (0, 2)])
def test_few_outputs_are_stored_and_many_are_computed_again(monkeypatch, held, asked):
    monkeypatch.setattr("bdkn.ensemble.networks._MAX_STORED_OUTPUTS", held)
    networks = Counting(NETWORKS)
    design = Design(networks, Rows(X, y))
    first, second = ([part[0] for part in design.chunks()] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert networks.asked == asked
    (chosen,) = [part[0] for part in design[np.array([2, 0])].chunks()]
    np.testing.assert_allclose(chosen, first[0][:, [2, 0]], rtol=1e-12)


@pytest.mark.usefixtures("chunk_rows")
def test_in_sample_fit_against_repeated_rows_by_hand():
    fit = MemberScores.of(Design(NETWORKS, Rows(X, y, COUNTS.astype(float))).parts())
    means, variances = (np.repeat(part, COUNTS, axis=1) for part in NETWORKS.outputs(X))
    errors = means - np.repeat(y, COUNTS)
    np.testing.assert_allclose(fit.mse, (errors**2).mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(fit.rmse, np.sqrt((errors**2).mean(axis=1)), rtol=1e-12)
    likelihood = -np.log(2 * np.pi * variances) / 2 - errors**2 / variances / 2
    np.testing.assert_allclose(fit.nll, -likelihood.mean(axis=1), rtol=1e-12)


def test_without_a_variance_of_its_own_a_network_has_its_squared_error():
    fit = MemberScores.of(Design(NETWORKS, Rows(X, y)).parts(), own_variance=False)
    np.testing.assert_allclose(fit.nll, np.log(2 * np.pi * fit.mse) / 2 + 0.5, rtol=1e-12)


def test_constant_variance_has_the_floor_of_a_network():
    np.testing.assert_array_equal(constant_variance(np.array([0.0, 2.0])), [MIN_VARIANCE, 2.0])


@pytest.mark.parametrize("counts", [None, COUNTS.astype(float)])
def test_scores_do_not_depend_on_the_division_into_blocks(counts):
    means, variances = NETWORKS.outputs(X)
    whole = HeldOut(means.T, variances.T, means.T, y, counts).scores()
    parts = MemberScores.of(Design(NETWORKS, Rows(X, y, counts)).parts())
    np.testing.assert_allclose(whole.mse, parts.mse, rtol=1e-12)
    np.testing.assert_allclose(whole.nll, parts.nll, rtol=1e-12)


def test_scores_that_overflow_are_not_finite():
    means, variances = np.zeros((4, 3)), np.ones((4, 3))
    means[1, 0], variances[2, 1], means[0, 2] = 1e200, np.inf, np.nan
    scores = HeldOut(means, variances, means, np.zeros(4)).scores()
    np.testing.assert_array_equal(scores.is_finite, [False, False, False])
    np.testing.assert_array_equal(scores[np.array([1])].mse, [0.0])
    assert HeldOut(means[3:], variances[3:], means[3:], np.zeros(1)).scores().is_finite.all()


def test_selecting_rows_keeps_targets_and_counts():
    rows = Rows(X, y, COUNTS.astype(float))[np.array([3, 5])]
    np.testing.assert_array_equal(rows.X, X[[3, 5]])
    np.testing.assert_array_equal(rows.y, y[[3, 5]])
    np.testing.assert_array_equal(rows.counts, COUNTS[[3, 5]])
