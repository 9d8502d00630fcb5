"""Compare models by proper scores.

RMSE depends on means only. NLL and CRPS depend on the whole distribution, in units of the log density and of the
target. Coverage is the share of targets inside of their intervals, and should be the nominal one.
"""

# %%
# The diabetes data again, a Gaussian process of scikit-learn, a line, and two models of this library.
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bdkn import BayesianStackingRegressor, BDKNRegressor, Gaussian
from bdkn.metrics import coverage, crps, nll, rmse
from bdkn.plots import CalibrationDisplay

X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=1)
process = make_pipeline(StandardScaler(), GaussianProcessRegressor(RBF(5.0) + WhiteKernel(0.5), normalize_y=True))
line = BayesianRidge()
models = {
    "line": line,
    "Gaussian process": process,
    "BDKN": BDKNRegressor(effort="fast", epochs=60, random_state=0),
    "stack of line and process": BayesianStackingRegressor([("line", line), ("process", process)], random_state=0),
}

# %%
# Models of scikit-learn return a mean and a standard deviation; `Gaussian` makes a distribution of them.
predictions = {}
for name, model in models.items():
    model.fit(X_train, y_train)
    has_dist = hasattr(model, "predict_dist")
    predictions[name] = model.predict_dist(X_test) if has_dist else Gaussian(*model.predict(X_test, return_std=True))

print(f"{'':26} {'RMSE':>6} {'NLL':>6} {'CRPS':>6} {'90 % hold':>10}")
for name, dist in predictions.items():
    scores = f"{rmse(y_test, dist):6.1f} {nll(y_test, dist):6.2f} {crps(y_test, dist):6.1f}"
    print(f"{name:26} {scores} {coverage(y_test, dist, 0.9):10.0%}")

# %%
# On few test rows differences of this size are chance: use `cross_val_score` with `scoring=bdkn.neg_crps` and consider
# the variation over folds before you prefer one.
figure, axes = plt.subplots(figsize=(8, 5.2), layout="constrained")
for name, dist in predictions.items():
    CalibrationDisplay.from_predictions(y_test, dist, ax=axes, name=name)
plt.show()
