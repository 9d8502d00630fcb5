import copy
import inspect
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from quick import QUICK, grouped, table

import bdkn
from bdkn.errors import DivergedError, InvalidParameterError, ModelFileError
from bdkn.estimators import BDKNRegressor
from bdkn.inference.rowwise import leverage, location_scale, posterior_of_few, whitened
from bdkn.model.density import Forest
from bdkn.model.updating import RowStatistics
from bdkn.networks import Networks, NetworkSpec
from bdkn.networks.compiled import outputs_of, packing_of
from bdkn.networks.spec import Bins
from bdkn.storage.archive import read, write
from bdkn.storage.fields import STORED, WrongContentError, schema_of

GOLDEN = Path(__file__).parents[1] / "golden" / "files"
X, y = table()
NEW, _ = table(20, seed=1)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Arrays and document of a fitted model; not to be changed."""
    path = tmp_path_factory.mktemp("kept") / "model.bdkn"
    BDKNRegressor(**grouped(**QUICK, density="student-t")).fit(X, y).save(path)
    return read(path)


def load_changed(kept, folder, change):
    arrays, document = dict(kept[0]), copy.deepcopy(kept[1])
    change(arrays, document)
    write(folder / "model.bdkn", arrays, document)
    return bdkn.load(folder / "model.bdkn")


def at(document, *path):
    place = document["saved"]
    for key in path:
        place = place["arguments"][key]
    return place["arguments"]


ROOT = "saved.fitted.combination.posterior.root"
MEAN = "saved.fitted.combination.posterior.mean"
WEIGHTS = "saved.fitted.members.ensemble.networks.layers.0.0"


def array(name, change):
    def changed(arrays, document):
        arrays[name] = change(arrays[name])

    return changed


def field(*path, to):
    def changed(arrays, document):
        at(document, *path[:-1])[path[-1]] = to

    return changed


def near(low, high):
    return field("fitted", "targets", "link", "near", to={"tuple": [low, high]})


def made(**facts):
    def changed(arrays, document):
        at(document)["made"] = {"dict": facts}

    return changed


def parameter(place="parameters", /, **given):
    def changed(arrays, document):
        at(document)[place]["dict"].update(given)

    return changed


def as_an_ensemble(arrays, document):
    document["model"] = at(document)["model"] = "DeepEnsembleRegressor"


SOME_TRAINING = {"type": "TrainingOptions", "arguments": {}}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (array(ROOT, lambda root: root[:2, :2]), r"posterior: Posterior: root must have shape \(W, W\)"),
        (array(ROOT, lambda root: np.zeros_like(root)), "root must be invertible; it has a column of zeros"),
        (array(ROOT, lambda root: root.T.copy()), "root must be triangular up to the order of its columns"),
        (array(ROOT, lambda root: root.astype(np.float32)), "root must be an array of f8; got float32"),
        (array(ROOT, lambda root: root * np.nan), "root must hold finite numbers"),
        (array(MEAN, lambda mean: mean[:-1]), "Posterior: root must have shape"),
        (array(WEIGHTS, lambda W: W[:, :, :-1]), "layers must have the shapes"),
        (array(WEIGHTS, lambda W: W.astype(np.float64)), "all weights must have one type"),
        (field("fitted", "combination", "posterior", "a", to=-1.0), "a must be from 0 to inf; got -1.0"),
        (field("fitted", "combination", "posterior", "b", to=float("nan")), "b must be a number; got NaN"),
        (field("fitted", "combination", "tails", to=None), "tails must be a Tails; got nothing"),
        (field("fitted", "combination", "intercept", to=False), "must have weights for|has H = "),
        (field("fitted", "members", "ensemble", "names", to={"tuple": []}), r"must have H >= 1; got 0"),
        (field("fitted", "members", "ensemble", "networks", "spec", to=3), "spec must be a NetworkSpec"),
        (near(float("-inf"), float("-inf")), "near must be in order"),
        (near(float("inf"), float("inf")), "near must be in order"),
        (lambda arrays, _: arrays.update(more=np.zeros(3)), "the array 'more' belongs nowhere"),
        (lambda arrays, _: arrays.pop(ROOT), "there is no array"),
        (lambda _, document: at(document, "fitted", "reader").pop("n_columns"), "needs the field 'n_columns'"),
        (field("fitted", "reader", "n_columns", to=4), r"must take 4 inputs; got \[3\]"),
        (field("fitted", to=None), "belongs nowhere"),
        (field("evil", to=1), "SavedModel: has no field 'evil'"),
        (field("fitted", "evil", to=1), "FittedModel: has no field 'evil'"),
        (parameter(zeal=1), "has no parameter 'zeal'"),
        (parameter(epochs=[{}]), "epochs: a list stands where a value should be"),
        (parameter(epochs={"list": [{"dict": {}}]}), "epochs must be int or str"),
        (parameter(verbose="much"), "verbose must be int"),
        (parameter("objects", zeal=1), "has no parameter 'zeal'"),
        (parameter("objects", verbose={"type": "Standardizer", "arguments": {}}), "Standardizer: needs the field"),
        (parameter("objects", verbose={"dict": {}}), "verbose must hold numbers; got a dict"),
        (parameter("objects", training=3), "training must be TrainingOptions"),
        (parameter("objects", combination=SOME_TRAINING), "combination must be CombinationOptions"),
        (parameter("objects", training={"type": "TrainingOptions", "arguments": {"tol": "low"}}), "tol must be "),
        (made(when=3), "made when must be a text; got a int"),
        (made(data="a.csv"), "made data must have a number of rows"),
        (made(rows="many"), "made rows must be a whole number"),
        (made(estimate={"dict": {"rmse": 1.0, "r2": "good"}}), "made r2 must be a number"),
        (made(versions=3), "made versions must have names and values"),
        (field("parameters", to=[]), "parameters: a list stands where a value should be"),
        (field("parameters", to=None), "parameters must have names and values"),
        (field("objects", to=3), "objects must have names and values"),
        (field("fitted", to="x"), "fitted must be a FittedModel or FittedEnsemble; got a str"),
        (lambda _, document: document.update(saved="x"), "belongs nowhere"),
        (lambda _, document: document.update(saved=at(document)["fitted"]), "belongs elsewhere"),
        (lambda _, document: document.pop("saved"), "must have model, bdkn and saved"),
        (lambda _, document: document.update(more=1), "must have model, bdkn and saved"),
        (lambda _, document: document.update(model="DeepEnsembleRegressor"), "must hold that model"),
        (as_an_ensemble, "DeepEnsembleRegressor has no parameter"),
    ],
)
def test_a_changed_file_is_refused_and_says_what_is_wrong(kept, tmp_path, change, text):
    with pytest.raises(ModelFileError, match=text) as caught:
        load_changed(kept, tmp_path, change)
    assert isinstance(caught.value.__cause__, ModelFileError)  # a check found it, not the last resort


def test_a_document_that_is_no_document_is_refused(tmp_path):
    for document in ([], {}, {"model": []}, {"model": None}, "BDKNRegressor", 3):
        write(tmp_path / "model.bdkn", {}, document)
        with pytest.raises(ModelFileError):
            bdkn.load(tmp_path / "model.bdkn")


def test_declared_sizes_are_not_made(kept, tmp_path):
    wide = {"tuple": [30_000, 30_000]}

    def change(arrays, document):
        spec = at(document, "fitted", "members", "ensemble", "networks", "spec")
        spec["hidden"] = wide

    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="layers must have the shapes"):
            load_changed(kept, tmp_path, change)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_a_model_that_is_damaged_in_an_unforeseen_way_is_refused_all_the_same(kept, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise AttributeError("forgotten")

    monkeypatch.setattr("bdkn.estimators.registry._check_parameter", fail)
    with pytest.raises(ModelFileError, match=r"does not fit this version, .* \(AttributeError: forgotten\)"):
        load_changed(kept, tmp_path, lambda *_: None)


OF_THE_LIBRARY = [cls for cls in STORED.values() if cls.__module__.startswith("bdkn.")]  # tests define others


@pytest.mark.parametrize("cls", OF_THE_LIBRARY, ids=lambda cls: cls.__name__)
def test_every_stored_class_has_a_schema_of_all_its_fields(cls):
    assert list(schema_of(cls).fields) == list(inspect.signature(cls).parameters)


def test_statistics_of_rows_are_checked(tmp_path):
    model = BDKNRegressor(**grouped(**QUICK, density="student-t")).fit(X, y).partial_fit(X[:9], y[:9])
    path = tmp_path / "rows.bdkn"
    model.statistics().save(path)
    assert RowStatistics.load(path).digest() == model.statistics().digest()
    arrays, document = read(path)
    for change in ({"fitted": 3}, {"fitted": None}, {"fitted": {"type": "Factor", "arguments": {}}}):
        write(path, arrays, {**document, **change})
        with pytest.raises(ModelFileError, match=r"is damaged .* save the statistics again"):
            RowStatistics.load(path)
    write(path, {**arrays, "statistics.rows.factor.root": np.eye(2)}, document)
    with pytest.raises(ModelFileError, match="ref must have shape"):
        RowStatistics.load(path)


class TestDoorsOfCompiledCode:
    def test_roots_have_the_shape_of_rows(self):
        rows = np.ones((5, 3))
        for root in (np.eye(2), np.ones((3, 2)), np.ones(3)):
            for call in (leverage, whitened):
                with pytest.raises(InvalidParameterError, match=r"root must be \(H, H\) for Phi"):
                    call(root, rows)
            with pytest.raises(InvalidParameterError, match=r"root must be \(H, H\) for Phi"):
                location_scale(root, np.ones(3), rows, np.ones(5), 1.0)

    def test_means_and_noise_have_the_shape_of_rows(self):
        rows = np.ones((5, 3))
        for mean, noise in ((np.ones(2), np.ones(5)), (np.ones(3), np.ones(4))):
            with pytest.raises(InvalidParameterError, match="μ and noise must have shapes"):
                location_scale(np.eye(3), mean, rows, noise, 1.0)
        with pytest.raises(InvalidParameterError, match="y must have an entry for each row"):
            posterior_of_few(rows, np.ones(4))

    def test_weights_have_the_shape_of_their_networks(self):
        spec = NetworkSpec(n_inputs=2, hidden=(3,))
        W1, b1, W2, b2 = (np.zeros(shape, np.float32) for shape in ((1, 3, 2), (1, 3), (1, 2, 3), (1, 2)))
        Networks(spec, ((W1, b1), (W2, b2))).outputs(np.zeros((1, 2)))
        for layers in (((W1[:, :1], b1), (W2, b2)), ((W1, b1[:, :1]), (W2, b2)), ((W1, b1),), ()):
            with pytest.raises(InvalidParameterError, match="layers must have the shapes"):
                packing_of(spec).packed(layers)

    def test_bins_are_of_columns_that_there_are(self):
        spec = NetworkSpec(n_inputs=3, hidden=())
        weights = packing_of(spec).packed([(np.zeros((1, 2, 3), np.float32), np.zeros((1, 2), np.float32))])
        numbers = np.ones((4, 1), np.float32)
        outputs_of(spec, weights, np.zeros((1, 2)), Bins(np.array([1]), numbers))
        for column in (2, -1):
            with pytest.raises(InvalidParameterError, match="bins must be of columns from 0 to 1"):
                outputs_of(spec, weights, np.zeros((1, 2)), Bins(np.array([column]), numbers))

    @staticmethod
    def forest(**change):
        """A tree with a node and two leaves, and a second tree that is a leaf."""
        parts = {
            "feature": [0, -1, -1, -1],
            "right": [2, 0, 0, 3],
            "start": [0, 0, 1, 2],
            "stop": [2, 1, 2, 3],
            "roots": [0, 3],
            "rows": [0, 1, 1],
        }
        ints = {name: np.array(part, dtype=np.int32) for name, part in {**parts, **change}.items()}
        return Forest(threshold=np.zeros(4, np.float32), copies=np.ones(3, np.float32), **ints)

    @pytest.mark.parametrize(
        "change",
        [
            {"right": [0, 0, 0, 3]},
            {"right": [1, 0, 0, 3]},
            {"right": [3, 0, 0, 3]},
            {"right": [99, 0, 0, 3]},
            {"feature": [0, -1, 0, -1]},
            {"feature": [0, -1, -1, 0]},
            {"start": [0, 1, 1, 2]},
            {"stop": [2, 1, 2, 9]},
            {"start": [-1, 0, 1, 2]},
            {"roots": [0, 9]},
            {"roots": [1, 3]},
            {"roots": [3, 0]},
            {"rows": [0, 1]},
            {"feature": [0, -1, -1]},
            {"start": [0, 0, 1, 1]},
        ],
        ids=str,
    )
    def test_ways_through_a_forest_end(self, change):
        self.forest().check()
        with pytest.raises(WrongContentError, match="must"):
            self.forest(**change).check()


@pytest.fixture(scope="module")
def shaped():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    y = np.where(rng.random(300) < 0.5, -2.0, 2.0) * (X[:, 0] > 0) + 0.05 * rng.normal(size=300)
    model = BDKNRegressor(**grouped(**{**QUICK, "n_members": 1})).fit(X, y)
    assert model.density_ is not None
    return model


def test_densities_of_infinite_predictions_are_refused(shaped):
    density, rows = shaped.density_, np.zeros((1, 2))
    for loc, scale in ((1e300, 1e-10), (1e308, 1e-3), (1e39, 1.0), (0.0, 1e-39)):
        with pytest.raises(DivergedError, match="predictions are infinite, or so far from the training targets"):
            density.mix(5.0, np.array([loc]), np.array([scale]), rows)


@pytest.mark.parametrize("change", [{"unit": 1e300}, {"floor": 1e300}])
def test_densities_as_wide_as_no_number_are_refused(shaped, change):
    density = replace(shaped.density_, neighbours=replace(shaped.density_.neighbours, **change))
    with pytest.raises(DivergedError, match="predictions are infinite, or so far from the training targets"):
        density.mix(5.0, np.zeros(1), np.ones(1), np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("forest.rows", lambda part: part + 1000, "rows of the forest must be training rows"),
        ("forest.feature", lambda part: np.where(part >= 0, 2, -1).astype(np.int32), "features of the forest must be"),
        ("forest.right", lambda part: part * 0, "children must follow their node"),
        ("forest.copies", lambda part: -part, "copies must not hold numbers below 0"),
        ("kinds", lambda part: part * 1e9, "flags of kinds must be 0 or 1"),
        ("kinds", lambda part: part[:, :4].copy(), r"kinds must have shape \(K, 5\)"),
        ("errors", lambda part: part[:-1], "Neighbours: errors must have shape"),
    ],
)
def test_a_shape_that_is_damaged_is_refused(shaped, tmp_path, name, change, text):
    shaped.save(tmp_path / "model.bdkn")
    arrays, document = read(tmp_path / "model.bdkn")
    place = f"saved.fitted.density.neighbours.{name}"
    write(tmp_path / "model.bdkn", {**arrays, place: change(arrays[place])}, document)
    with pytest.raises(ModelFileError, match=text):
        bdkn.load(tmp_path / "model.bdkn")


def test_a_student_t_is_not_narrowed_to_nothing(shaped, tmp_path):
    shaped.save(tmp_path / "model.bdkn")
    arrays, document = read(tmp_path / "model.bdkn")
    at(document, "fitted", "density")["narrowing"] = 1e-300
    write(tmp_path / "model.bdkn", arrays, document)
    with pytest.raises(ModelFileError, match=r"narrowing must be from 0.1 to 1; got 1e-300"):
        bdkn.load(tmp_path / "model.bdkn")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A model that has absorbed rows, and the same from a file without rows."""
    model = BDKNRegressor(**grouped(**QUICK, density="student-t", target="log")).fit(X, np.exp(y))
    model.partial_fit(X[:9], np.exp(y[:9]))
    path = tmp_path_factory.mktemp("rows") / "model.bdkn"
    model.save(path, without_rows=True)
    return model, bdkn.load(path), path


class TestWithoutRows:
    def test_predictions_are_the_same(self, pair):
        model, loaded, _ = pair
        np.testing.assert_array_equal(loaded.predict(NEW, return_std=True), model.predict(NEW, return_std=True))
        np.testing.assert_array_equal(loaded.predict_interval(NEW), model.predict_interval(NEW))
        np.testing.assert_array_equal(loaded.sample_y(NEW, 2), model.sample_y(NEW, 2))
        np.testing.assert_array_equal(loaded.weights_, model.weights_)

    def test_the_file_has_no_array_with_an_entry_for_each_row_but_prototypes(self, pair):
        model, _, path = pair
        arrays, _ = read(path)
        long = [name for name, part in arrays.items() if part.ndim and len(part) >= len(X)]
        assert long == ["saved.fitted.extrapolation.support.prototypes"]
        assert model.held_out_ is not None  # the model that was saved has not changed

    @pytest.mark.parametrize(
        "call",
        [
            lambda model: model.held_out_,
            lambda model: model.evidence_,
            lambda model: model.weights_cov_,
            lambda model: model.partial_fit(X[:3], np.exp(y[:3])),
            lambda model: model.forget(),
            lambda model: model.forget(X[:3], np.exp(y[:3])),
            lambda model: model.statistics(),
            lambda model: model.merge(model),
            lambda model: model.predict_interval(NEW, guarantee=True),
            lambda model: model.member_report(),
            lambda model: model.add_members(1, X, np.exp(y)),
        ],
    )
    def test_what_takes_rows_says_so(self, pair, call):
        with pytest.raises(InvalidParameterError, match="a file that was saved with without_rows=True"):
            call(pair[1])

    def test_models_that_predict_from_rows_cannot_be_saved_so(self, shaped, tmp_path):
        stack = bdkn.load(GOLDEN / "stack.bdkn")
        for model, text in (
            (shaped, r"save model\.without_shape\(\)"),
            (stack, "a stack computes the noise of its members from held-out rows"),
        ):
            with pytest.raises(InvalidParameterError, match=text):
                model.save(tmp_path / "model.bdkn", without_rows=True)
        assert list(tmp_path.iterdir()) == []
        shaped.without_shape().save(tmp_path / "model.bdkn", without_rows=True)

    def test_models_that_keep_no_rows_are_saved_as_they_are(self, tmp_path):
        model = bdkn.load(GOLDEN / "ensemble-default.bdkn")
        model.save(tmp_path / "with.bdkn")
        model.save(tmp_path / "without.bdkn", without_rows=True)
        kept, left = (read(tmp_path / name) for name in ("with.bdkn", "without.bdkn"))
        assert kept[1] == left[1]
        assert {name: part.tobytes() for name, part in kept[0].items()} == {k: v.tobytes() for k, v in left[0].items()}

    def test_it_is_true_or_false(self, shaped, tmp_path):
        with pytest.raises(InvalidParameterError, match="without_rows must be True or False; got 'yes'"):
            shaped.save(tmp_path / "model.bdkn", without_rows="yes")
