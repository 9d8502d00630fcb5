"""Time: train on the past, predict the future.

Rows in the order of time must not be shuffled. `cv=TimeSeriesSplit()` holds out rows that are later than those it
trains on, so that the noise and the weights of members are estimated from forecasts.
"""

# %%
# A daily series with a weekly pattern; columns are the values of the last seven days.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import TimeSeriesSplit

from bdkn import BDKNRegressor
from bdkn.plots import CurveDisplay

rng = np.random.default_rng(0)
noise = np.zeros(420)
for day in range(1, 420):
    noise[day] = 0.8 * noise[day - 1] + rng.normal()
series = 10 + 3 * np.sin(2 * np.pi * np.arange(420) / 7) + noise
X = np.column_stack([series[lag : lag + 413] for lag in range(7)])
y = series[7:]

past, future = slice(0, 350), slice(350, None)
model = BDKNRegressor(cv=TimeSeriesSplit(4), effort="fast", epochs=60, density="student-t", random_state=0).fit(
    X[past], y[past]
)

# %%
# Rows that were never held out, the first ones, are used for training only.
print("rows that the combination was fitted to:", len(model.held_out_.y))
low, high = model.predict_interval(X[future]).T
print(f"90 % intervals contain {((low <= y[future]) & (y[future] <= high)).mean():.0%} of {len(y[future])} later days")
print(f"RMSE {np.sqrt(np.mean((model.predict(X[future]) - y[future]) ** 2)):.2f}; the noise has 1.00")

# %%
figure, axes = plt.subplots(figsize=(9, 3.8), layout="constrained")
days = np.arange(63)
CurveDisplay.from_predictions(
    days,
    model.predict_dist(X[future]),
    points=(days, y[future]),
    ax=axes,
    labels=("day", "value"),
    name="One day ahead, with 50 and 90 % intervals",
)
plt.show()
