"""Few rows: 15 measurements.

With few rows the estimate of the noise is uncertain, and predictions are Student-t distributions with few degrees of
freedom. Near the rows intervals become narrower with more rows; beyond them they remain wide for any number of rows.
"""

# %%
# The same curve from 15, 40 and 150 rows. Dots are training rows, the dashed line is the truth; bands are 50 and 90 %
# intervals.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from bdkn import BDKNRegressor, FewRowsWarning, OutsideDataWarning
from bdkn.plots import CurveDisplay

warnings.simplefilter("ignore", FewRowsWarning)
warnings.simplefilter("ignore", OutsideDataWarning)
rng = np.random.default_rng(3)
X = rng.uniform(-2, 2, size=(150, 1))
y = np.sin(2 * X[:, 0]) + 0.15 * rng.normal(size=150)
line = np.linspace(-3, 3, 200)[:, None]

figure, grid = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
for axes, n in zip(grid, (15, 40, 150), strict=True):
    model = BDKNRegressor(effort="fast", epochs=200, density="student-t", random_state=0).fit(X[:n], y[:n])
    CurveDisplay.from_predictions(
        line[:, 0],
        model.predict_dist(line),
        points=(X[:n, 0], y[:n]),
        truth=np.sin(2 * line[:, 0]),
        ax=axes,
        name=f"{n} rows",
    )
    axes.set_ylim(-4, 4)
    axes.get_legend().remove()
    low, high = model.predict_interval(np.array([[0.0], [2.8]])).T
    widths = f"width {high[0] - low[0]:.2f} at 0, {high[1] - low[1]:.1f} at 2.8"
    print(f"{n} rows: {model.dof_:.0f} degrees of freedom; {widths}")
plt.show()
