"""How many to order?

A shop orders in the morning and sells during the day. Unsold pieces are thrown away, and missing ones cannot be sold.
The best order is not the mean of the demand but a quantile, which the predicted distribution has for every day.
"""

# %%
# Demand that depends on the weekday and the temperature; a piece costs 2 and sells for 5.
import matplotlib.pyplot as plt
import numpy as np

from bdkn import BDKNRegressor
from bdkn.plots.display import BLUE, GREY, VERMILION

rng = np.random.default_rng(0)
weekday, warmth = rng.integers(0, 7, 2350), rng.uniform(0, 30, 2350)
demand = np.maximum(0, 40 + 25 * (weekday >= 5) + warmth + (4 + warmth / 2) * rng.normal(size=2350))
X = np.column_stack([weekday, warmth])
model = BDKNRegressor(lower=0, effort="fast", epochs=60, density="student-t", random_state=0).fit(X[:350], demand[:350])

# %%
# One more piece pays if it is sold with a probability of at least cost / price: the best order is the quantile at
# 1 - 2 / 5.
COST, PRICE = 2.0, 5.0
dist = model.predict_dist(X[350:])
orders = {"mean": dist.mean(), "quantile": dist.ppf(1 - COST / PRICE), "90 % quantile": dist.ppf(0.9)}


def profit(order):
    """Return the mean profit of a day."""
    return np.mean(PRICE * np.minimum(order, demand[350:]) - COST * order)


for name, order in orders.items():
    print(f"{name:13} order {order.mean():5.1f}, profit of a day {profit(order):6.1f}")

# %%
# The profit of ordering any other quantile on the same 2000 days.
levels = np.linspace(0.05, 0.95, 19)
figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
axes.plot(levels, [profit(dist.ppf(level)) for level in levels], color=BLUE)
axes.axvline(1 - COST / PRICE, color=VERMILION, linestyle="--", label="1 - cost / price")
axes.axhline(profit(orders["mean"]), color=GREY, linewidth=0.9, label="ordering the mean")
axes.set(xlabel="quantile that is ordered", ylabel="profit of a day", title="Profit by the quantile that is ordered")
axes.legend(frameon=False)
plt.show()
