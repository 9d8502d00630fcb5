import numpy as np
import pandas as pd
import pytest
from quick import QUICK, Stretched, grouped, table

import bdkn
from bdkn import CombinationOptions
from bdkn.errors import DivergedMemberWarning, ModelFileError
from bdkn.estimators import BDKNRegressor, DeepEnsembleRegressor
from bdkn.networks.reference import ReferenceEngine
from bdkn.storage.archive import read, write

X, y = table()
NEW, y_new = table(20, seed=1)

MODELS = [
    BDKNRegressor(**grouped(**QUICK)),
    BDKNRegressor(**grouped(**QUICK, objective="mse", predict_with="refit", tempering=1.0, tails="posterior")),
    BDKNRegressor(**grouped(**QUICK, design="hold-out")),
    BDKNRegressor(
        **grouped(**{**QUICK, "activation": ("relu", "silu"), "weight_decay": (0.0, 0.1, 1.0)}, select_members=False)
    ),
    BDKNRegressor(**grouped(**QUICK, design="in-sample", prior_variance=0.5, standardize_y=False)),
    DeepEnsembleRegressor(**grouped(**QUICK)),
    DeepEnsembleRegressor(**grouped(**QUICK, objective="mse", predictive="gaussian")),
]


def public(model):
    names = [name for name in dir(model) if name.endswith("_") and not name.startswith("_")]
    return {name: getattr(model, name) for name in names if hasattr(model, name)}  # networks have no candidates_


@pytest.fixture(scope="module", params=MODELS, ids=str)
def model(request):
    """A fitted model; not to be changed."""
    return request.param.fit(X, y)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The file of a fitted model; not to be changed."""
    path = tmp_path_factory.mktemp("kept") / "model.bdkn"
    BDKNRegressor(**grouped(**QUICK)).fit(X, y).save(path)
    return path


def test_a_loaded_model_predicts_the_same_bits(model, tmp_path):
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict(NEW, return_cov=True)[1], model.predict(NEW, return_cov=True)[1])
    np.testing.assert_array_equal(loaded.predict_interval(NEW), model.predict_interval(NEW))
    np.testing.assert_array_equal(loaded.sample_y(NEW, 3), model.sample_y(NEW, 3))
    assert loaded.log_score(NEW, y_new) == model.log_score(NEW, y_new)


@pytest.mark.no_cover
def test_a_loaded_model_has_the_same_parameters_and_attributes(model, tmp_path):
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(str(tmp_path / "model.bdkn"))
    assert loaded.get_params() == model.get_params()
    before, after = public(model), public(loaded)
    assert before.keys() == after.keys()
    weighing = ("weights_", "weights_cov_", "intercept_", "noise_variance_", "dof_", "prior_variance_", "evidence_")
    for name in (*weighing, "loss_curve_", "n_iter_"):
        np.testing.assert_array_equal(after.get(name), before.get(name))
    assert after["member_names_"] == before["member_names_"]
    for mine, theirs in zip(after["loss_curves_"], before["loss_curves_"], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    pd.testing.assert_frame_equal(loaded.member_report(), model.member_report())


def test_column_names_are_kept_and_checked(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    BDKNRegressor(**grouped(**QUICK)).fit(frame, y).save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    np.testing.assert_array_equal(loaded.feature_names_in_, ["a", "b", "c"])
    np.testing.assert_array_equal(loaded.predict(frame[["b", "a", "c"]]), loaded.predict(frame))
    with pytest.raises(ValueError, match="must have the columns of the fit; missing: 'b'"):
        loaded.predict(frame[["a", "c"]])


def test_the_number_of_columns_is_kept_and_checked(kept):
    with pytest.raises(ValueError, match="X has 2 features, but BDKNRegressor is expecting 3"):
        bdkn.load(kept).predict(X[:, :2])


def test_names_of_the_members_in_use_are_saved(tmp_path):
    with pytest.warns(DivergedMemberWarning):
        model = BDKNRegressor(**grouped(**QUICK, select_members=False, engine=Stretched((np.nan, 1, 1)))).fit(X, y)
    model.save(tmp_path / "model.bdkn")
    assert bdkn.load(tmp_path / "model.bdkn").member_names_ == ("network 2", "network 3")


@pytest.mark.parametrize(
    ("given", "saved"),
    [
        ({"engine": ReferenceEngine()}, {"engine": "reference"}),
        ({"random_state": np.random.RandomState(0)}, {"random_state": None}),
        ({"random_state": np.random.default_rng(0)}, {"random_state": None}),
        ({"hidden_layer_sizes": [16]}, {"hidden_layer_sizes": (16,)}),
        ({"hidden_layer_sizes": np.array([16])}, {"hidden_layer_sizes": (16,)}),
        ({"tol": np.float64(0.01)}, {"training": grouped(**QUICK, tol=0.01)["training"]}),
        ({"early_stopping": np.True_}, {"training": grouped(**QUICK)["training"]}),
        ({"tempering": np.float32(0.5)}, {"combination": CombinationOptions(tempering=0.5)}),
        ({"batch_size": np.int64(16)}, {"training": grouped(**QUICK, batch_size=16)["training"]}),
    ],
    ids=[
        "engine",
        "RandomState",
        "Generator",
        "list",
        "array",
        "NumPy number",
        "NumPy flag",
        "single precision",
        "NumPy integer",
    ],
)
def test_parameters_are_saved_in_their_nearest_plain_form(given, saved, tmp_path):
    model = BDKNRegressor(**grouped(**{**QUICK, **given})).fit(X, y)
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    assert {name: loaded.get_params()[name] for name in saved} == saved
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))


@pytest.mark.no_cover
def test_an_engine_of_the_users_own_becomes_the_default(tmp_path):
    model = BDKNRegressor(**grouped(**QUICK, engine=Stretched((1, 1, 1)))).fit(X, y)
    model.save(tmp_path / "model.bdkn")
    assert bdkn.load(tmp_path / "model.bdkn").fit(X, y).engine == "fused"


def test_a_module_of_the_users_own_cannot_be_saved(tmp_path):
    torch = pytest.importorskip("torch")
    from bdkn.networks.torch_engine import TorchEngine

    engine = TorchEngine(module=lambda n_inputs: torch.nn.Linear(n_inputs, 2))
    model = BDKNRegressor(**grouped(**{**QUICK, "epochs": 2}, engine=engine)).fit(X, y)
    with pytest.raises(ModelFileError, match=r"networks is a \w+: train with hidden_layer_sizes instead of a module"):
        model.save(tmp_path / "model.bdkn")
    assert list(tmp_path.iterdir()) == []


def test_a_model_unknown_to_this_version(tmp_path):
    write(tmp_path / "model.bdkn", {}, {"model": "NextRegressor"})
    with pytest.raises(ModelFileError, match=r"holds a NextRegressor; this version knows .*BDKNRegressor.*DeepEns"):
        bdkn.load(tmp_path / "model.bdkn")


@pytest.mark.parametrize(
    "change", [{"parameters": {"dict": {"zeal": 3}}}, {"fitted": {"type": "NextModel", "arguments": {}}}]
)
def test_parts_unknown_to_this_version(tmp_path, kept, change):
    arrays, document = read(kept)
    document["saved"]["arguments"].update(change)
    write(tmp_path / "model.bdkn", arrays, {**document, "bdkn": "99.0"})
    with pytest.raises(ModelFileError, match=r"written by bdkn 99\.0 and does not fit this version, .*--upgrade"):
        bdkn.load(tmp_path / "model.bdkn")


def test_the_contents_of_a_file(tmp_path):
    """A change here is a change of format: files written before must still load, or the version must rise."""
    model = BDKNRegressor(**grouped(**QUICK)).fit(X, y)
    model.save(tmp_path / "model.bdkn")
    arrays, document = read(tmp_path / "model.bdkn")
    assert set(document) == {"model", "bdkn", "saved"}
    assert document["bdkn"] == bdkn.__version__
    n_networks = len(model.loss_curves_)
    assert document["saved"]["type"] == "SavedModel"
    saved = document["saved"]["arguments"]
    assert set(saved) == {"model", "parameters", "objects", "fitted", "made"}
    assert set(saved["objects"]["dict"]) == {"training"}
    assert saved["fitted"]["type"] == "FittedModel"
    assert set(arrays) == {
        "saved.fitted.extrapolation.slopes",
        "saved.fitted.extrapolation.support.prototypes",
        *(f"saved.fitted.extrapolation.support.columns.{part}" for part in ("center", "scale", "low", "high")),
        "saved.fitted.members.ensemble.inputs.mean",
        "saved.fitted.members.ensemble.inputs.scale",
        *(f"saved.fitted.members.ensemble.networks.layers.{layer}.{part}" for layer in (0, 1) for part in (0, 1)),
        "saved.fitted.members.scores.mse",
        "saved.fitted.members.scores.nll",
        *(f"saved.fitted.members.{kind}_curves.{k}" for kind in ("loss", "validation") for k in range(n_networks)),
        "saved.fitted.members.best_epochs",
        "saved.fitted.held_out.means",
        "saved.fitted.held_out.variances",
        "saved.fitted.held_out.fold_variance",
        "saved.fitted.held_out.fold_of",
        "saved.fitted.held_out.y",
        "saved.fitted.combination.posterior.mean",
        "saved.fitted.combination.posterior.root",
        "saved.fitted.combination.posterior.prior.mean",
        "saved.fitted.combination.posterior.prior.precision",
    }


@pytest.mark.no_cover
@pytest.mark.parametrize("activation", [("relu", "silu"), np.array(["relu"])], ids=str)
def test_members_are_added_to_a_loaded_model(tmp_path, activation):
    model = BDKNRegressor(**grouped(**{**QUICK, "activation": activation}, engine=ReferenceEngine())).fit(X, y)
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    np.testing.assert_array_equal(loaded.add_members(1, X, y).predict(NEW), model.add_members(1, X, y).predict(NEW))
