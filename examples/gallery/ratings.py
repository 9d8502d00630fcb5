"""Ratings: a target with few values.

Ratings, counts and rounded measurements are discrete targets. The fit detects them: densities remain available, and
`predict_values` returns the probability of each value.
"""

# %%
# Ratings from 1 to 5 that depend on two columns.
import matplotlib.pyplot as plt
import numpy as np

from bdkn import BDKNRegressor
from bdkn.plots.display import BLUE, ORANGE

rng = np.random.default_rng(1)
X = rng.normal(size=(400, 2))
y = np.clip(np.round(3 + X[:, 0] + 0.5 * X[:, 1] + 0.6 * rng.normal(size=400)), 1, 5)
model = BDKNRegressor(effort="fast", epochs=60, random_state=0).fit(X[:300], y[:300])
print("values of the target:", model.target_values_.values.tolist())

# %%
# Probabilities of each rating for two rows: a customer who is probably content, and one who is not.
rows = np.array([[1.5, 0.5], [-0.8, -0.2]])
probabilities = model.predict_values(rows)
for value, probability in probabilities.items():
    print(f"rating {value:.0f}: {probability[0]:.2f} and {probability[1]:.2f}")

# %%
# The mean log probability of the ratings of the other rows, compared with always predicting the shares of the training
# rows.
shares = np.array([(y[:300] == value).mean() for value in range(1, 6)])
print(f"model {model.value_log_score(X[300:], y[300:]):.2f}")
print(f"shares {np.log(shares[y[300:].astype(int) - 1]).mean():.2f}")

figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
values = np.array(list(probabilities))
for shift, colour, row in ((-0.2, BLUE, 0), (0.2, ORANGE, 1)):
    heights = [probability[row] for probability in probabilities.values()]
    axes.bar(values + shift, heights, width=0.38, color=colour, label=f"row {row}")
axes.set(xlabel="rating", ylabel="probability", title="Probability of each rating")
axes.legend(frameon=False)
plt.show()
