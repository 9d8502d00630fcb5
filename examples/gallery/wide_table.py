"""A wide table: more columns than rows.

With 80 rows and 200 columns, of which three matter, networks alone predict poorly. In such tables the fit adds a linear
member, the lasso, and the weights decide.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from bdkn import BDKNRegressor
from bdkn.metrics import coverage, rmse
from bdkn.plots import WeightsDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(580, 200))
y = X[:, 0] - 2 * X[:, 1] + 0.5 * X[:, 2] + 0.5 * rng.normal(size=580)
settings = {"effort": "fast", "epochs": 30, "density": "student-t", "random_state": 0}

for name, members in (("with a linear member", "networks"), ("networks alone", ("networks",))):
    model = BDKNRegressor(members, **settings).fit(X[:80], y[:80])
    dist = model.predict_dist(X[80:])
    print(f"{name}: RMSE {rmse(y[80:], dist):.2f}, 90 % intervals contain {coverage(y[80:], dist, 0.9):.0%}")

# %%
# The weights of all members, including the linear one.
model = BDKNRegressor(**settings).fit(X[:80], y[:80])
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
WeightsDisplay.from_estimator(model, ax=axes, name="Weights of members")
plt.show()
