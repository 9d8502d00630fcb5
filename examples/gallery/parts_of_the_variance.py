"""Why is it uncertain?

The variance of a prediction is the sum of four parts: noise, which more rows do not reduce; disagreement of the
members; uncertainty of their weights; and distance from the training rows.
"""

# %%
# Noisy rows on the left, a gap in the middle, exact rows on the right.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from bdkn import BDKNRegressor, OutsideDataWarning
from bdkn.plots.display import SERIES

rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(-3, -0.5, 120), rng.uniform(1.5, 3, 120)])
y = np.sin(x) + np.where(x < 0, 0.5, 0.05) * rng.normal(size=240)
model = BDKNRegressor(effort="fast", epochs=120, density="student-t", random_state=0).fit(x[:, None], y)

# %%
warnings.simplefilter("ignore", OutsideDataWarning)
for name, place in (("noisy rows", -2.0), ("gap", 0.5), ("exact rows", 2.2), ("outside", 4.5)):
    parts = model.predict_var([[place]], decompose=True)
    total = sum(part[0] for part in parts.values())
    largest = max(parts, key=lambda part: parts[part][0])
    print(f"{name:10} standard deviation {np.sqrt(total):.2f}, largest part: {largest}")

# %%
line = np.linspace(-4, 5, 300)
parts = model.predict_var(line[:, None], decompose=True)
figure, axes = plt.subplots(figsize=(9, 3.8), layout="constrained")
axes.stackplot(line, *parts.values(), labels=[*parts], colors=SERIES, alpha=0.85)
axes.plot(x, np.zeros_like(x), "|", color="black", markersize=5)
axes.set(ylim=(0, 0.8), xlabel="x", ylabel="variance", title="Parts of the variance; marks are training rows")
axes.legend(frameon=False, loc="upper center")
plt.show()
