import numpy as np
from sklearn.datasets import load_diabetes

from bdkn.regressors import BDKNRegressor, DeepEnsembleRegressor
from bdkn.report import ConstantGaussian, compare, diabetes, fit_models, warm_up


def test_the_split_is_fixed_and_loses_no_row():
    one, two = diabetes(), diabetes()
    X, y = load_diabetes(return_X_y=True)
    assert one.X_train.shape == (331, 10)
    assert one.X_test.shape == (111, 10)
    np.testing.assert_array_equal(one.X_test, two.X_test)
    rows = np.column_stack([np.vstack([one.X_train, one.X_test]), np.concatenate([one.y_train, one.y_test])])
    everything = np.column_stack([X, y])
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], everything[np.lexsort(everything.T)])
    assert "442 diabetes patients" in one.about
    assert "331 patients to fit to, 111 to test on" in one.about


def test_models_are_fitted_to_the_training_rows_and_scored_on_the_others(trial):
    data = trial.data
    assert trial.models["Constant"].mean_ == data.y_train.mean()
    assert trial.first == "BDKN"
    assert trial.with_inputs == ["BDKN", "Deep ensemble"]
    assert trial.scores == compare(trial.models, data.X_test, data.y_test, seconds=trial.seconds)
    assert [score.seconds for score in trial.scores] == [trial.seconds[score.model] for score in trial.scores]
    assert min(trial.seconds.values()) > 0
    np.testing.assert_array_equal(trial.predictive("BDKN").mean(), trial.models["BDKN"].predict(data.X_test))


def test_before_fit_is_called_with_the_name_of_each_model():
    names = []
    fit_models({"a": ConstantGaussian(), "b": ConstantGaussian()}, diabetes(), before_fit=names.append)
    assert names == ["a", "b"]


def test_expressions_create_the_models(trial):
    names = {cls.__name__: cls for cls in (BDKNRegressor, DeepEnsembleRegressor, ConstantGaussian)}
    for name in trial.with_inputs:
        assert eval(trial.expressions[name], names).get_params() == trial.models[name].get_params()
    assert isinstance(eval(trial.expressions["Constant"], names), ConstantGaussian)


def test_expressions_do_not_contain_verbose():
    loud = BDKNRegressor(engine="reference", n_members=2, epochs=1, random_state=0, verbose=1)
    assert "verbose" not in fit_models({"loud": loud}, diabetes()).expressions["loud"]


def test_warming_up_fits_copies_for_one_epoch(monkeypatch, capfd):
    fitted = []
    monkeypatch.setattr(BDKNRegressor, "fit", lambda self, X, y: fitted.append((self, len(X))))
    model = BDKNRegressor(epochs=300, verbose=1)
    warm_up({"BDKN": model, "constant": ConstantGaussian()}, diabetes())
    ((copy, rows),) = fitted
    assert copy is not model
    assert (copy.epochs, copy.verbose, rows) == (1, 0, 331)
    assert (model.epochs, model.verbose) == (300, 1)
