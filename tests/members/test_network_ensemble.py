import numpy as np
import pytest

from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.ensemble.networks import NetworkEnsemble
from bdkn.errors import DivergedError
from bdkn.networks import Networks, NetworkSpec, initial_networks

X = np.random.default_rng(0).normal(5, 3, (20, 2))


@pytest.fixture
def networks():
    return initial_networks(NetworkSpec(n_inputs=2, hidden=(4,)), [np.random.default_rng(h) for h in range(3)])


def ensemble_of(networks, variances=None):
    names = tuple(f"network {h}" for h in (1, 3, 4))
    return NetworkEnsemble(names, networks, Standardizer.fit(Rows(X, X[:, 0])), TargetScaler(100.0, 10.0), variances)


def test_members_predict_in_the_units_of_the_target(networks):
    ensemble = ensemble_of(networks)
    rows = (X - X.mean(axis=0)) / X.std(axis=0)
    means, variances = networks.outputs(rows)
    for h, member in enumerate(ensemble.members):
        mean, variance = member.predict(X)
        np.testing.assert_allclose(mean, 100 + 10 * means[h], rtol=1e-6)
        np.testing.assert_allclose(variance, 100 * variances[h], rtol=1e-6)


def test_one_forward_pass_agrees_with_the_members_one_by_one(networks):
    ensemble = ensemble_of(networks)
    means, variances = ensemble.outputs(X)
    assert means.shape == variances.shape == (20, 3)
    for h, member in enumerate(ensemble.members):
        mean, variance = member.predict(X)
        np.testing.assert_array_equal(mean, 100 + 10 * means[:, h])
        np.testing.assert_allclose(variance, 100 * variances[:, h], rtol=1e-14)


def test_selecting_members_keeps_names_and_variances(networks):
    chosen = ensemble_of(networks, np.array([1.0, 2.0, 3.0]))[[2, 0]]
    assert chosen.names == ("network 4", "network 1")
    assert len(chosen) == len(chosen.networks) == 2
    np.testing.assert_array_equal(chosen.variances, [3, 1])


def test_given_variances_replace_those_of_the_networks(networks):
    member = ensemble_of(networks, np.array([1.0, 2.0, 3.0])).members[1]
    np.testing.assert_allclose(member.predict(X)[1], 200.0)


class TestFolds:
    """Three members, each the average of a network from each of two folds."""

    @pytest.fixture
    def folded(self):
        spec = NetworkSpec(n_inputs=2, hidden=(4,))
        return ensemble_of(initial_networks(spec, [np.random.default_rng(k) for k in range(6)]))

    def test_a_member_is_the_average_over_folds(self, folded):
        first, second = (ensemble_of(folded.networks[range(3 * k, 3 * k + 3)]) for k in range(2))
        (m1, v1), (m2, v2) = first.outputs(X), second.outputs(X)
        means, variances = folded.outputs(X)
        np.testing.assert_allclose(means, (m1 + m2) / 2, rtol=1e-12)
        np.testing.assert_allclose(variances, (v1 + v2) / 2 + (m1 - m2) ** 2 / 4, rtol=1e-12)  # that of the mixture

    def test_the_forecast_averages_disagreement_within_folds(self, folded):
        halves = [ensemble_of(folded.networks[range(3 * k, 3 * k + 3)]).forecast(X) for k in range(2)]
        said = folded.forecast(X)
        np.testing.assert_allclose(said.means, folded.outputs(X)[0], rtol=1e-12)
        for name in ("noise", "disagreement"):
            expected = (getattr(halves[0], name) + getattr(halves[1], name)) / 2
            np.testing.assert_allclose(getattr(said, name), expected, rtol=1e-12)

    def test_choosing_a_member_chooses_its_network_in_every_fold(self, folded):
        chosen = folded[[2, 0]]
        assert (len(chosen), len(chosen.networks), chosen.names) == (2, 4, ("network 4", "network 1"))
        for mine, theirs in zip(chosen.outputs(X), folded.outputs(X), strict=True):
            np.testing.assert_allclose(mine, theirs[:, [2, 0]], rtol=1e-12)
        mean, variance = folded.members[1].predict(X)
        np.testing.assert_allclose(mean, 100 + 10 * folded.outputs(X)[0][:, 1], rtol=1e-12)
        np.testing.assert_allclose(variance, 100 * folded.outputs(X)[1][:, 1], rtol=1e-12)

    def test_many_rows_are_forecast_in_blocks(self, folded, monkeypatch):
        whole = folded.forecast(X)
        monkeypatch.setattr("bdkn.ensemble.networks.PREDICTED_ROWS", 7)
        blocks = folded.forecast(X)
        for name in ("means", "noise", "disagreement"):
            np.testing.assert_allclose(getattr(blocks, name), getattr(whole, name), rtol=1e-12)
        assert len(folded.forecast(X[:0])) == 0


def test_overflow_names_network_and_row():
    # Ten layers of the largest single-precision weights leave even double precision.
    spec = NetworkSpec(n_inputs=2, hidden=(4,) * 9)
    huge = tuple((np.full((3, *shape), 3e38, np.float32), np.ones((3, shape[0]), np.float32)) for shape in spec.shapes)
    with pytest.raises(DivergedError, match=r"network 1 overflows on row \d+.*lower learning_rate"):
        ensemble_of(Networks(spec, huge)).outputs(X)
