"""Prices: a positive, skewed target.

Prices cannot be negative, and their noise grows with the price. `target="log"` predicts the logarithm; densities,
means, quantiles and scores are those of the price itself. By default (`target="auto"`) a link is chosen only if its
score on training rows is clearly better; if errors are known to be relative, set it.
"""

# %%
# Flats with a size and an age; the noise multiplies the price.
import matplotlib.pyplot as plt
import numpy as np

from bdkn import BDKNRegressor
from bdkn.plots.display import BLUE, VERMILION

rng = np.random.default_rng(0)
size, age = rng.uniform(20, 160, 300), rng.uniform(0, 80, 300)
price = 3000 * size * np.exp(-0.008 * age + 0.5 * rng.normal(size=300))
X = np.column_stack([size, age])

settings = {"effort": "fast", "epochs": 60, "random_state": 0}
logarithm = BDKNRegressor(target="log", **settings).fit(X[:200], price[:200])
plain = BDKNRegressor(target="identity", **settings).fit(X[:200], price[:200])

# %%
# The mean log density of the other rows (greater is better), and the lowest end of the 99 % intervals. Without the
# logarithm intervals are symmetric, so they reach below zero.
for name, model in (("logarithm", logarithm), ("as it is", plain)):
    lowest = model.predict_interval(X[200:], coverage=0.99).min()
    print(f"{name}: log score {model.log_score(X[200:], price[200:]):.2f}, lowest price {lowest:,.0f}")

# %%
# The predicted density of one small, old flat.
flat, line = [[30.0, 70.0]], np.linspace(-60_000, 260_000, 400)
figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
for name, model, colour in (("logarithm", logarithm, BLUE), ("as it is", plain, VERMILION)):
    axes.plot(line / 1000, model.predict_dist(np.repeat(flat, 400, axis=0)).pdf(line) * 1000, color=colour, label=name)
axes.axvline(0, color="grey", linewidth=0.8)
axes.set(xlabel="price of a flat of 30 m², 70 years old, in thousands", ylabel="density", title="No mass below zero")
axes.legend(frameon=False)
plt.show()
