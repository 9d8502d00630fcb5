"""scikit-learn's own checks of its contract."""

import pytest
from quick import BOTH
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from bdkn import BDKNRegressor

SMALL = {"n_members": 2, "hidden_layer_sizes": 16, "epochs": 60, "learning_rate": 1e-2}

FEW = {"epochs": 60, "n_members": 3}  # of the defaults, what takes time and makes no difference to these checks

# Neither the link nor the density depends on the design: the defaults, which are checked first, have both.
PLAIN = {**SMALL, "target": "identity", "density": "student-t"}

MODELS = [
    *(cls(**FEW) for cls in BOTH),
    *(BDKNRegressor(**PLAIN, design=design) for design in ("hold-out", "in-sample")),
    BDKNRegressor(**PLAIN, predict_with="refit"),
]

REASONS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row given twice falls into other mini-batches than a row of weight 2; with all rows in one batch the two "
        "agree, see test_sample_weight.py and, where rows are left out, test_designs.py"
    ),
}


@pytest.mark.no_cover
@parametrize_with_checks(MODELS, expected_failed_checks=lambda _: REASONS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", BOTH)
def test_defaults(cls):
    model = cls()
    assert clone(model).get_params() == model.get_params()
    assert model.get_params()["engine"] == "fused"
    shown = {"n_members": "auto", "hidden_layer_sizes": "auto", "epochs": "auto", "learning_rate": 3e-3}
    assert shown.items() <= model.get_params().items()


def test_the_default_design():
    shown = {"members": "networks", "design": "cross-fit", "cv": None, "predict_with": "folds", "combination": None}
    assert shown.items() <= BDKNRegressor().get_params().items()
