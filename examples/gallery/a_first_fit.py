"""A table to predictions with intervals.

The shortest way: fit, predict with intervals, and look whether the intervals hold what they promise on rows that the
model has not seen.
"""

# %%
# The diabetes data of scikit-learn: ten measurements of 442 patients, and how far the disease has progressed a year
# later.
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from bdkn import BDKNRegressor
from bdkn.plots import CalibrationDisplay, IntervalDisplay

X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
model = BDKNRegressor(effort="fast", epochs=60, random_state=0).fit(X_train, y_train)

# %%
# Any coverage can be asked for after the fit.
for coverage in (0.5, 0.9):
    low, high = model.predict_interval(X_test, coverage=coverage).T
    inside = ((y_test >= low) & (y_test <= high)).mean()
    print(f"{coverage:.0%} intervals hold {inside:.0%} of the test rows; median width {sorted(high - low)[66]:.0f}")

# %%
# Left: rows in the order of their predicted mean. Right: the same question for every coverage. A model that is
# calibrated stays in the grey band most of the time.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
IntervalDisplay.from_estimator(model, X_test, y_test, ax=left, target="progression", name="Intervals")
CalibrationDisplay.from_estimator(model, X_test, y_test, ax=right, name="Calibration")
plt.show()
