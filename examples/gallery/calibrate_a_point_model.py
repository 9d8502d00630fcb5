"""A point model before and after.

A forest predicts a number without its uncertainty. Its errors on its own training rows are far too small to estimate
it. A stack with this one member estimates it from held-out rows, and adds honest intervals to the forest.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import ExtraTreesRegressor

from bdkn import BayesianStackingRegressor, Gaussian
from bdkn.metrics import coverage, nll
from bdkn.plots import PITDisplay

X, y = make_friedman1(500, noise=1.0, random_state=0)
X_train, y_train, X_test, y_test = X[:300], y[:300], X[300:], y[300:]

forest = ExtraTreesRegressor(100, min_samples_leaf=3, random_state=0).fit(X_train, y_train)
spread = np.std(y_train - forest.predict(X_train))
before = Gaussian(forest.predict(X_test), np.full(len(X_test), spread))

stack = BayesianStackingRegressor([("forest", forest)], random_state=0).fit(X_train, y_train)
after = stack.predict_dist(X_test)

for name, dist in (("before", before), ("after", after)):
    print(f"{name}: 90 % intervals contain {coverage(y_test, dist, 0.9):.0%}, NLL {nll(y_test, dist):.2f}")

# %%
# The histogram shows the values of the predicted distribution functions at the targets. It is flat if the distributions
# are correct. High bars at both ends mean intervals that are too narrow.
figure, both = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for axes, name, dist in zip(both, ("Before", "After"), (before, after), strict=True):
    PITDisplay.from_predictions(y_test, dist, ax=axes, name=name)
plt.show()
