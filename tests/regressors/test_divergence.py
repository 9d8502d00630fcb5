from dataclasses import dataclass, replace

import numpy as np
import pytest
from quick import EACH, QUICK, Stretched, grouped, table
from sklearn.base import clone

from bdkn.data.rows import Rows
from bdkn.ensemble.networks import Design
from bdkn.ensemble.selection import MemberScores, finite_members
from bdkn.errors import DivergedError, DivergedMemberWarning
from bdkn.estimators import BDKNRegressor, DeepEnsembleRegressor
from bdkn.networks import Networks

X, y = table()
NEW, y_new = table(25, seed=1)
LEFT_OUT = r"left out network 2 of 3, which diverged.*try a lower learning_rate, standardize_y=True"


@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize("factor", [np.nan, np.inf])
def test_a_diverged_network_is_left_out_by_name(cls, factor):
    with pytest.warns(DivergedMemberWarning, match=LEFT_OUT) as caught:
        model = cls(**grouped(**QUICK, engine=Stretched((1, factor, 1)))).fit(X, y)
    assert caught[0].filename == __file__
    assert model.member_names_ == ("network 1", "network 3")
    assert len(model.members_) == len(model.member_table()["rmse"]) == len(model.member_table()["epochs"]) == 2
    assert len(model.loss_curves_) == len(model.ensemble_.networks)
    assert np.isfinite(np.stack(model.predict(NEW, return_std=True))).all()
    assert list(model.member_report().member) == ["network 1", "network 3"]


def test_diverged_networks_do_not_change_the_others():
    with pytest.warns(DivergedMemberWarning):
        without = DeepEnsembleRegressor(**grouped(**QUICK, engine=Stretched((1, 1, np.nan)))).fit(X, y)
    two = DeepEnsembleRegressor(**grouped(**{**QUICK, "n_members": 2}, engine="reference")).fit(X, y)
    np.testing.assert_allclose(without.predict(NEW), two.predict(NEW), rtol=1e-6)


@pytest.mark.parametrize("cls", EACH)
def test_the_error_when_all_networks_diverge(cls):
    with pytest.raises(DivergedError, match=r"all 3 networks diverged.*try a lower learning_rate, standardize_y=True"):
        cls(**grouped(**QUICK, engine=Stretched((np.nan, np.inf, np.nan)))).fit(X, y)


def test_outputs_that_overflow_on_training_rows_count_as_diverged():
    deep = {**QUICK, "hidden_layer_sizes": (4,) * 8, "epochs": 1}

    class Exploding(Stretched):
        def train(self, *args, **kwargs):
            trained = super().train(*args, **kwargs)
            for W, b in trained.networks.layers:
                W[0], b[0] = 3e38, 3e38  # finite weights, infinite products
            return trained

    with pytest.warns(DivergedMemberWarning, match="left out network 1 of 3"):
        model = BDKNRegressor(**grouped(**deep, engine=Exploding((1, 1, 1)))).fit(X, y)
    assert model.member_names_ == ("network 2", "network 3")
    assert np.isfinite(model.member_table()["rmse"]).all()
    assert len(model.member_table()["rmse"]) == 2


@dataclass(frozen=True)
class Told:
    """Networks that predict given means and variances, the same for every row."""

    means: np.ndarray
    variances: np.ndarray

    def __len__(self):
        return len(self.means)

    def __getitem__(self, chosen):
        return Told(self.means[chosen], self.variances[chosen])

    def is_finite(self):
        return np.ones(len(self), bool)

    def outputs(self, X):
        return tuple(np.repeat(part[:, None], len(X), axis=1) for part in (self.means, self.variances))


def test_means_and_variances_must_be_finite_and_so_must_their_squares():
    networks = Told(np.array([0, np.nan, 0, 1e200, 1e30, 0]), np.array([1, 1, np.inf, 1, 1, np.nan]))
    rows = Rows(np.zeros((5, 1), np.float32), np.zeros(5))
    scores = MemberScores.of(Design(networks, rows).parts())
    with pytest.warns(DivergedMemberWarning, match="left out network 2, network 3, network 4, network 6 of 6"):
        finite = finite_members(scores.is_finite, [f"network {h + 1}" for h in range(6)])
    np.testing.assert_array_equal(finite, [0, 4])
    np.testing.assert_allclose(scores[finite].rmse, [0, 1e30])


@pytest.mark.parametrize("engine", ["fused", "reference"])
def test_targets_beyond_single_precision_diverge_and_scaling_helps(engine):
    with pytest.raises(DivergedError, match="standardize_y=True"):
        BDKNRegressor(**grouped(**QUICK, standardize_y=False, engine=engine)).fit(X, y * 1e60)
    model = BDKNRegressor(**grouped(**QUICK, engine=engine)).fit(X, y * 1e60)
    assert model.score(X, y * 1e60) > 0.9


@pytest.fixture(scope="module", params=["evidence", "paper", 1.0])
def sane(request):
    """A fit with one of the ways to choose the prior variance."""
    return BDKNRegressor(**grouped(**QUICK, prior_variance=request.param, engine=Stretched((1, 1, 1)))).fit(X, y)


@pytest.mark.parametrize("factor", [1e6, 1e15, 1e30, 1e36])
def test_a_huge_but_finite_network_does_not_break_the_posterior(factor, sane):
    model = clone(sane).set_params(engine=Stretched((1, 1, factor))).fit(X, y)
    assert model.score(X, y) > sane.score(X, y) - 0.01
    assert model.log_score(NEW, y_new) > sane.log_score(NEW, y_new) - 0.5
    assert np.isfinite(model.predict(NEW, return_cov=True)[1]).all()
    assert np.isfinite(model.sample_y(NEW, 5)).all()
    assert np.isfinite(model.evidence_)


@dataclass(frozen=True)
class Brittle:
    """Networks of which all but the first overflow far from the training rows."""

    networks: Networks

    def __len__(self):
        return len(self.networks)

    def __getitem__(self, chosen):
        return Brittle(self.networks[chosen])

    @classmethod
    def concatenate(cls, parts):
        return cls(Networks.concatenate([part.networks for part in parts]))

    def is_finite(self):
        return self.networks.is_finite()

    def outputs(self, X):
        means, variances = self.networks.outputs(X)
        means[1:, np.abs(X).max(axis=1) > 100] = np.nan
        return means, variances


class BrittleEngine(Stretched):
    def train(self, *args, **kwargs):
        trained = super().train(*args, **kwargs)
        return replace(trained, networks=Brittle(trained.networks))


@pytest.mark.parametrize("cls", EACH)
@pytest.mark.parametrize("call", ["predict", "predict_interval", "sample_y"])
def test_an_overflow_at_prediction_is_an_error_and_never_nan(cls, call):
    everyone = {"select_members": False} if "select_members" in cls().get_params() else {}
    model = cls(**grouped(**QUICK, **everyone, engine=BrittleEngine((1, 1, 1)))).fit(X, y)
    assert np.isfinite(getattr(model, call)(NEW)).all()
    far = NEW.copy()
    far[4] = 1e307
    with pytest.raises(DivergedError, match="network 2 overflows on row 4"):
        getattr(model, call)(far)
