"""Fits to rows in blocks: equal to fits in memory, whatever the blocks."""

import numpy as np
import pytest

import bdkn
from bdkn import ArrayRows, BDKNRegressor, CombinationOptions, RowNumberFolds, TrainingOptions
from bdkn.data.sample import draw_sample
from bdkn.errors import InvalidParameterError
from bdkn.estimators import fitting

SMALL = {"n_members": 4, "epochs": 6, "n_bins": (0, 4), "random_state": 0, "density": "student-t", "target": "identity"}


def table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)


class InBlocks(ArrayRows):
    """Rows of arrays in blocks of a given size."""

    def of_size(self, size):
        self.size = size
        return self

    def blocks(self, size=None):
        return super().blocks(self.size)


@pytest.fixture
def small_chunks(monkeypatch):
    """Let a chunk, and the sample, have 150 rows."""
    monkeypatch.setattr(fitting, "CHUNK_ROWS", 150)


def same(one, other, X):
    p, q = one.predict_dist(X), other.predict_dist(X)
    return np.array_equal(p.loc, q.loc) and np.array_equal(p.scale, q.scale) and np.array_equal(p.df, q.df)


@pytest.mark.parametrize("groups", [None, "labels"])
def test_few_rows_in_blocks_give_the_bits_of_a_fit_in_memory(groups):
    X, y = table(200)
    labels = None if groups is None else np.repeat(np.arange(50), 4)
    memory = BDKNRegressor(cv=RowNumberFolds(5), **SMALL).fit(X, y, groups=labels)
    blocks = BDKNRegressor(**SMALL).fit(InBlocks(X, y, groups=labels).of_size(33))
    assert same(memory, blocks, X)
    assert memory.evidence_ == blocks.evidence_


def test_weights_and_a_refit_are_those_of_a_fit_in_memory():
    X, y = table(200)
    weights = np.random.default_rng(1).integers(1, 4, 200).astype(float)
    given = {**SMALL, "predict_with": "refit"}
    memory = BDKNRegressor(cv=RowNumberFolds(5), **given).fit(X, y, weights)
    assert same(memory, BDKNRegressor(**given).fit(ArrayRows(X, y, weights)), X)


@pytest.mark.parametrize("given", [{}, {"design": "hold-out", "cv": 0.3}, {"predict_with": "refit"}])
def test_many_rows_give_the_same_bits_in_blocks_of_any_size(small_chunks, given):
    X, y = table()
    models = [BDKNRegressor(**SMALL, **given).fit(InBlocks(X, y).of_size(size)) for size in (7, 150, 600)]
    assert same(models[0], models[1], X)
    assert same(models[0], models[2], X)


def test_results_do_not_depend_on_the_number_of_threads(small_chunks):
    X, y = table()
    one, two = (BDKNRegressor(**SMALL, n_jobs=n).fit(ArrayRows(X, y)) for n in (1, 2))
    assert same(one, two, X)


def test_all_rows_left_out_are_counted_and_the_weights_are_those_of_all(small_chunks):
    X, y = table()
    memory = BDKNRegressor(cv=RowNumberFolds(5), **SMALL).fit(X, y)
    blocks = BDKNRegressor(**SMALL).fit(ArrayRows(X, y))
    assert blocks.combination_.n == len(y)
    assert len(blocks.held_out_.y) == 150
    assert blocks.dof_ <= 600
    new, truth = table(2000, seed=5)
    rmse = [np.sqrt(np.mean((model.predict(new) - truth) ** 2)) for model in (memory, blocks)]
    nll = [-model.predict_dist(new).logpdf(truth).mean() for model in (memory, blocks)]
    assert rmse[1] == pytest.approx(rmse[0], rel=0.1)
    assert nll[1] == pytest.approx(nll[0], abs=0.1)


def test_statistics_of_chunks_are_those_of_all_rows_at_once(small_chunks):
    X, y = table()
    options = CombinationOptions(prior_variance=1.0, tempering=0.5)
    model = BDKNRegressor(**SMALL, combination=options).fit(ArrayRows(X, y))
    ensemble, all_rows = model.ensemble_, model.model_.all_rows
    folds = [list(RowNumberFolds(5, seed).split(X)) for seed in _fold_seeds(4)]
    members = [int(name.split()[1]) - 1 for name in ensemble.names]
    means, variances = ensemble.by_fold(X)
    Phi, v = np.empty((2, len(y), len(members)))
    for place, h in enumerate(members):
        for k, (_, rows) in enumerate(folds[h]):
            Phi[rows, place], v[rows, place] = means[k, rows, place], variances[k, rows, place]
    pooled = v.mean(axis=1) + Phi.var(axis=1)
    scaled = ensemble.targets.transform(y)
    A = np.column_stack([Phi, np.ones(len(y)), scaled]) / pooled[:, None] ** 0.25
    stats = all_rows.statistics
    H = stats.n_weights
    root = stats.root.copy()
    root[:, H] += root[:, :H] @ stats.ref
    assert np.allclose(root.T @ root, A.T @ A, rtol=1e-9, atol=1e-9)
    assert all_rows.noise == pytest.approx(np.sum(pooled**0.5), rel=1e-12)


def _fold_seeds(n):
    from bdkn.data.folds import fold_generator

    return [int(fold_generator(seed).integers(2**31)) for seed in np.random.SeedSequence(0).spawn(n)]


def test_rows_counted_zero_times_are_left_out(small_chunks):
    X, y = table()
    weights = np.ones(600)
    weights[::3] = 0.0
    y[::3] = 1e6
    model = BDKNRegressor(**SMALL).fit(ArrayRows(X, y, weights))
    assert model.combination_.n == 400
    assert np.abs(model.predict(X)).max() < 10


def test_a_model_of_blocks_is_saved_updated_and_brought_back(small_chunks, tmp_path):
    X, y = table()
    model = BDKNRegressor(**SMALL).fit(ArrayRows(X, y))
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    assert same(model, loaded, X)
    assert loaded.evidence_ == model.evidence_
    new, truth = table(50, seed=3)
    model.partial_fit(new, truth)
    assert model.combination_.n == 650
    model.forget()
    assert same(model, loaded, X)


def test_categories_keep_the_inputs_that_were_learned_for_the_sample(small_chunks):
    pd = pytest.importorskip("pandas")
    X, y = table()
    rng = np.random.default_rng(2)
    kind = rng.choice([f"kind {i}" for i in range(40)], 600)
    y = y + (np.char.str_len(kind) > 6)
    frame = pd.DataFrame(X, columns=list("abc")).assign(kind=kind)
    models = [BDKNRegressor(**SMALL).fit(InBlocks(frame, y).of_size(size)) for size in (64, 600)]
    assert same(*models, frame)
    assert np.corrcoef(models[0].predict(frame), y)[0, 1] > 0.7


@pytest.mark.no_cover
def test_targets_beyond_those_of_the_sample_need_no_link_of_the_sample(small_chunks):
    X, y = table()
    y = np.exp(y)
    outside = np.setdiff1d(np.arange(600), draw_sample(ArrayRows(X, y), 150).numbers.astype(int))[0]
    y[outside] = -0.5
    given = {**SMALL, "target": "auto"}
    model = BDKNRegressor(**given).fit(ArrayRows(X, y))
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(InvalidParameterError, match=r"target=.log. must be defined for all targets.* -0\.5"):
        BDKNRegressor(**{**SMALL, "target": "log"}).fit(ArrayRows(X, y))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"design": "in-sample"}, "has none"),
        ({"training": TrainingOptions(early_stopping=True)}, "without early stopping"),
        ({"engine": "reference"}, "by the engine 'fused'"),
        ({"cv": [([0], [1])]}, "functions of their numbers"),
        ({"members": ("networks", "linear")}, "use members='networks'"),
    ],
)
def test_what_blocks_cannot_do_is_said(small_chunks, given, message):
    with pytest.raises(InvalidParameterError, match=message):
        BDKNRegressor(**{**SMALL, **given}).fit(ArrayRows(*table()))


def test_a_source_with_other_rows_in_the_second_pass_is_refused(small_chunks):
    class Shrinks(ArrayRows):
        passes = 0

        def blocks(self, size=None):
            self.passes += 1
            return super().blocks(size) if self.passes == 1 else ArrayRows(*table(500)).blocks(size)

    with pytest.raises(InvalidParameterError, match="600 rows that count in the first pass and 500 in the second"):
        BDKNRegressor(**SMALL).fit(Shrinks(*table()))


def test_no_temporary_file_is_left(small_chunks, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    BDKNRegressor(**SMALL).fit(ArrayRows(*table()))
    assert list(tmp_path.iterdir()) == []


def test_progress_is_shown(small_chunks, capfd):
    BDKNRegressor(**SMALL, verbose=1).fit(ArrayRows(*table()))
    assert "training on chunks of rows" in capfd.readouterr().err
