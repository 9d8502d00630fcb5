"""A stack: which members matter?

Any models can be combined: scikit-learn's, networks, functions. Weights have a posterior, which shows the members that
matter and those that the data do not distinguish.
"""

# %%
# A line with a bend. Four members, one of them useless.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor

from bdkn import BayesianStackingRegressor, CombinationOptions
from bdkn.plots import WeightsDisplay

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(300, 4))
y = X[:, 0] + np.maximum(X[:, 1], 0) * 2 + 0.3 * rng.normal(size=300)
members = [
    ("ridge", RidgeCV()),
    ("extra trees", ExtraTreesRegressor(50)),
    ("neighbours", KNeighborsRegressor(5)),
    ("a guess", lambda X: X[:, 2] ** 2),
]
everyone = CombinationOptions(select_members=False)
stack = BayesianStackingRegressor(members, combination=everyone, density="student-t", random_state=0)
stack.fit(X[:200], y[:200])

# %%
# Each member's weight with its 95 % credible interval, and its RMSE on held-out rows.
table = stack.member_table()
for name, weight, low, high in zip(stack.member_names_, stack.weights_, table["lower"], table["upper"], strict=True):
    print(f"{name:12} {weight:5.2f}  [{low:5.2f}, {high:5.2f}]")
print("do the data identify the weights?", "yes" if stack.weights_identified_ else "no")

# %%
# Scores without the guess are as good. `drop_members` computes this without training anything again; by default
# (`select_members=True`) the fit drops such members itself.
smaller = stack.drop_members("a guess")
print(f"log score with {stack.log_score(X[200:], y[200:]):.2f}, without {smaller.log_score(X[200:], y[200:]):.2f}")

figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
WeightsDisplay.from_estimator(stack, ax=axes)
plt.show()
