"""Outside of the data, in two columns.

Training rows lie on a ring. Intervals should be narrow on the ring, wider in its hole, and wide outside, and the model
should identify rows that are far from the ring.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from bdkn import BayesianStackingRegressor, BDKNRegressor, OutsideDataWarning
from bdkn.plots import WidthDisplay

rng = np.random.default_rng(0)
angle, radius = rng.uniform(0, 2 * np.pi, 300), rng.normal(1.0, 0.12, 300)
X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.05 * rng.normal(size=300)
networks = BDKNRegressor(effort="fast", epochs=80, density="student-t", random_state=0).fit(X, y)
trees = BayesianStackingRegressor(
    [("boosting", HistGradientBoostingRegressor(max_iter=50))], density="student-t", random_state=0
).fit(X, y)

# %%
# `support` returns the distance of rows from the training rows, in units of the distance that is usual between those,
# and the column that is responsible.
places = np.array([[1.0, 0.0], [0.0, 0.0], [3.0, 0.0]])
report = networks.support(places)
for place, status, ratio, column in zip(places, report.status, report.ratio, report.column, strict=True):
    print(f"{place}: {status}, {ratio:.1f} usual distances, column {column}")

# %%
# Width of 90 % intervals at these places. Trees are constant beyond their rows, so their disagreement does not grow
# there: if such rows matter, use networks, or add one to the stack. (The warning about many rows far away is silenced.)
warnings.simplefilter("ignore", OutsideDataWarning)
for name, model in (("networks", networks), ("trees", trees)):
    ring, hole, outside = model.predict_interval(places) @ [-1, 1]
    print(f"{name}: on the ring {ring:.2f}, in the hole {hole:.2f}, outside {outside:.2f}")

figure, both = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for axes, name, model in zip(both, ("Networks", "A stack of one boosting"), (networks, trees), strict=True):
    WidthDisplay.from_estimator(model, X, ax=axes, name=name, grid=50)
    axes.collections[0].set_clim(0.15, 6.0)
plt.show()
